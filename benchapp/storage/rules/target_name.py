"""Which storage a job of fio measured, and how it is named. docs/numbers.md describes the rule for users.

The options of a job name what it opens; an agent adds what lies below. Only a name that is known is given.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from benchapp.fio.redaction import REMOVED, remove_secrets
from benchapp.fio.workload import fit_text

NAME_MAXIMUM: Final = 200
# In place of a part of a path that differs from run to run.
GENERATED: Final = "*"
# Files and directories of one job that are looked at: more than a job lists.
_PLACES_MAXIMUM: Final = 1000
# Of a path that Linux opens.
_PATH_MAXIMUM: Final = 4096
# Engines without storage.
_WITHOUT_STORAGE: Final = frozenset({"null", "cpuio", "exec", "net", "netsplice", "rdma"})
# Engines whose `filename` is no path: "trtype=PCIe traddr=0000.04.00.0 ns=1".
_OWN_WORDS: Final = frozenset({"spdk", "spdk_bdev", "xnvme"})
_COLON: Final = re.compile(r"(?<!\\):")
_PORT: Final = re.compile(r":\d+\Z")
_DRIVE: Final = re.compile(r"[A-Za-z]")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_URL: Final = re.compile(
    r"(?:[a-z][a-z+]{0,20}:)?//(?:[^/@]*@)?(?P<place>[^?#]*)(?:\?(?P<query>[^#]*))?.*", re.DOTALL
)
_SOCKET: Final = re.compile(r"(?:^|&)socket=([^&]*)")
# Links that udev keeps: by-id, by-path, by-uuid, …
_STABLE_LINK: Final = re.compile(r"/dev/disk/by-[a-z]+/(?P<name>[^/]+)")
# Filesystems in memory, below the directory of devices.
_SHARED_MEMORY: Final = ("/dev/shm", "/dev/hugepages", "/dev/mqueue")  # noqa: S108
_RAW_WINDOWS: Final = re.compile(r"\\\\\.\\(?P<name>[^\\]+)\\?")
_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
# Of the agent: the files of one run are below it.
_WORKSPACE: Final = re.compile(r"\.bench-agent-[\w-]+")
# sda1, nvme0n1p2; neither loop0 nor md0.
_PARTITION: Final = re.compile(r"(?P<disk>(?:[hsv]|xv)d[a-z]+|.*\d(?=p\d))p?\d+")
_UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
# A volume of Kubernetes, which gets another name with each claim. Other long names of devices are theirs for good.
_CLAIM: Final = re.compile(rf"(?<=pvc-){_UUID}")
_GENERATED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # $RANDOM, ${BUILD}, $jobnum
        r"\$\{?\w+\}?",
        # mktemp, and tempfile of Python
        r"(?<![^._-])tmp\.[A-Za-z0-9]{6,}",
        r"(?<![^._-])tmp(?=[a-z0-9_]{0,7}[0-9_])[a-z0-9_]{8}(?![^.-])",
        r"(?<=[._-])(?=[A-Za-z0-9]*[a-z])(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*[0-9])[A-Za-z0-9]{6,}(?![^._-])",
        _UUID,
        # 20261127T101500, 2026-11-27_10-15-00, 2026-11-27
        r"(?<!\d)20\d{2}-?[01]\d-?[0-3]\d(?:[T_-]?[0-2]\d[-:_.]?[0-5]\d(?:[-:_.]?[0-5]\d)?Z?)?(?!\d)",
        # Digests
        r"(?<![0-9A-Za-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{12,}(?![0-9A-Za-z])",
        # Job 17, build-204
        r"(?<=(?<![a-z])job)[-_.]?\d+(?!\d)|(?<=(?<![a-z])(?:run|pid))[-_.]?\d+(?!\d)|(?<=(?<![a-z])build)[-_.]?\d+(?!\d)",
        # Process ids, $RANDOM, seconds since 1970
        r"(?<![0-9A-Za-z])\d{4,}(?![0-9A-Za-z])|(?<=[a-z]{2})\d{5,}(?![0-9A-Za-z])",
    )
)


@dataclass(frozen=True, slots=True)
class NameMapping:
    """What matches a pattern has the target name that an editor chose. is_removed: only until history is read again."""

    pattern: str
    target_name: str
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredTarget:
    """What one job of fio measured. name: at most 200 characters, None if unknown.

    other_names: that the same target has without the facts of an agent, and in or out of a pool. mapping_names: that it
    has without mappings, and had by removed ones. parts: the names of several targets, sorted, or the one. entries:
    what the agent sent about each part, None about one that it does not know; () without any. is_guess: the parts are
    not known, and the entries are all that the run opened.
    """

    name: str | None
    other_names: tuple[str, ...] = ()
    mapping_names: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    entries: tuple[Mapping[str, Any] | None, ...] = ()
    is_guess: bool = False


def name_target(
    options: Mapping[str, str],
    *,
    numjobs: int = 1,
    client: str | None = None,
    opened: Sequence[Mapping[str, Any]] = (),
    is_pool: bool = False,
    mappings: Sequence[NameMapping] = (),
) -> MeasuredTarget:
    """Return the target of a job by its effective options as fio lists them.

    client: the host of a fio server, whose storage is not the agent's. opened: `targets` of an envelope. is_pool: hosts
    are interchangeable, so that a raw device is named by its kernel, not by its serial. mappings: of the host, then of
    its pool; the longest pattern that matches the name or the path wins, the first of equals. A pattern that begins
    with a client maps what this one measures.
    """
    listed = islice(_list_places(options, numjobs), _PLACES_MAXIMUM)
    places = list(dict.fromkeys(place[:_PATH_MAXIMUM] for place in listed)) or [""]
    entries = [None if client else _find_entry(place, opened) for place in places]
    plain = [_name_place(place) for place in places]

    def choose(*, in_pool: bool) -> list[str]:
        return [
            name if entry is None else _name_entry(entry, in_pool=in_pool) or name
            for name, entry in zip(plain, entries, strict=True)
        ]

    spellings = (choose(in_pool=is_pool), plain, choose(in_pool=not is_pool)) if any(entries) else (plain,)
    current = [each for each in mappings if not each.is_removed]

    # Until parser 10 the port of a server was part of its name if its host had others, whatever the port.
    clients = (client, f"{client}:8765") if client and not _PORT.search(client) else (client,)

    def spell(chosen: Sequence[NameMapping]) -> list[str | None]:
        return [
            _map_client(_join(_map_names(names, places, chosen), each), each, chosen)
            for each in clients
            for names in spellings
        ]

    name, *others = spell(current)
    earlier = [[], *([each, *current] for each in mappings if each.is_removed)] if mappings else []
    known = {None, name, *others, *(each.target_name for each in current)}
    is_guess = places == [""] and entries == [None] and not client
    described = opened if is_guess else entries if any(entries) else ()
    return MeasuredTarget(
        name=name,
        other_names=tuple(dict.fromkeys(other for other in others if other and other != name)),
        mapping_names=tuple(
            dict.fromkeys(each for chosen in earlier for each in spell(chosen) if each and each not in known)
        ),
        parts=_map_names(spellings[0], places, current),
        entries=tuple({id(entry): entry for entry in described}.values()),
        is_guess=is_guess,
    )


def unite_layouts(
    entries: Sequence[Mapping[str, Any] | None], *, counts_volumes: bool = True
) -> dict[str, Any]:
    """Return the layout of storage that jobs use together, by what an agent sent about its parts, at least one.

    Volumes are the distinct devices, if each is known to be one volume; counts_volumes: all of the parts were used.
    Other facts are those in which all parts agree.
    """
    described = [entry for entry in entries if entry is not None]
    is_whole = len(described) == len(entries)
    layouts = [entry["layout"] for entry in described]
    united = {
        name: value if is_whole and all(layout[name] == value for layout in layouts) else None
        for name, value in layouts[0].items()
    }
    devices = {_identify_device(entry) for entry in described}
    if len(described) > 1 and (len(devices) > 1 or None in devices):
        is_counted = counts_volumes and is_whole and None not in devices
        is_counted &= all(layout["volume_count"] == 1 for layout in layouts)
        united["volume_count"] = len(devices) if is_counted else None
    return united


def _identify_device(entry: Mapping[str, Any]) -> str | None:
    """Name the disk, array or mount point below an entry; None if unknown, as of logical volumes, which share disks."""
    device = entry.get("device") or {}
    if identifier := device.get("identifier"):
        return None if identifier.startswith("dm-") else re.sub(r"-part\d+$", "", identifier)
    if kernel_name := device.get("kernel_name"):
        partition = _PARTITION.fullmatch(kernel_name)
        return None if kernel_name.startswith("dm-") else partition["disk"] if partition else kernel_name
    return entry.get("mount_point")


def _map_names(
    names: Sequence[str], places: Sequence[str], mappings: Sequence[NameMapping]
) -> tuple[str, ...]:
    """Return the names of places by these mappings, each once, sorted; without those that are not known."""
    by_length = sorted(mappings, key=lambda each: -len(each.pattern))
    mapped = (_map_name(name, place, by_length) for name, place in zip(names, places, strict=True))
    return tuple(sorted({name for name in mapped if name}))


def _map_name(name: str, place: str, mappings: Sequence[NameMapping]) -> str:
    path = posixpath.normpath(place) if mappings and place.startswith("/") else place.removeprefix("=")
    for mapping in mappings:
        if any(each and fnmatchcase(each, mapping.pattern) for each in (name, path)):
            return mapping.target_name
    return name


def _map_client(name: str | None, client: str | None, mappings: Sequence[NameMapping]) -> str | None:
    """Return the name that a mapping gives a client's target, if its pattern begins with the client."""
    if client:
        for mapping in sorted(mappings, key=lambda each: -len(each.pattern)):
            if mapping.pattern.startswith(client) and name and fnmatchcase(name, mapping.pattern):
                return mapping.target_name
    return name


def _join(parts: Sequence[str], client: str | None) -> str | None:
    text = ", ".join(parts)
    if client:
        text = f"{client}:{text}" if text else client
    return fit_text(_UNPRINTABLE.sub("\ufffd", text), NAME_MAXIMUM) or None


def _list_places(options: Mapping[str, str], numjobs: int) -> Iterator[str]:
    """Yield what a job opens: absolute paths, and places of engines after "="; "" for what is not known."""
    engine = options.get("ioengine", "").partition(":")[0].strip()
    if engine in _WITHOUT_STORAGE:
        return
    place = _name_by_engine(engine, options)
    if place:
        yield f"={place}"
        return
    directories = [_make_absolute(each) for each in _split(options.get("directory", ""))]
    files = _split(options.get("filename", "") or options.get("libblkio_path", ""))
    if engine in _OWN_WORDS:
        yield from (each if _is_absolute(each) else f"={each}" for each in files)
    elif files:
        # As fio does: named files are in the first directory.
        base = directories[0] if directories else ""
        yield from (_join_path(base, each) for each in files)
    elif _is_absolute(options.get("filename_format", "")):
        yield options["filename_format"]
    elif directories:
        # As fio does: clones take turns.
        yield from (each and f"{each}/" for each in directories[: max(numjobs, 1)])
    elif options.get("opendir"):
        yield f"{_make_absolute(options['opendir'])}/"


def _split(text: str) -> list[str]:
    """Return the names of a list that fio separates with colons, as it would open them."""
    parts = _COLON.split(text.strip())
    joined: list[str] = []
    for part in parts:
        # "C:\fio", without the backslash that the colon should have.
        if joined and _DRIVE.fullmatch(joined[-1]) and part.startswith("\\"):
            joined[-1] += f":{part}"
        else:
            joined.append(part)
    return [name for part in joined if (name := part.replace("\\:", ":").strip())]


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _WINDOWS.match(path) is not None


def _make_absolute(path: str) -> str:
    return path.rstrip("/") or "/" if _is_absolute(path) else ""


def _join_path(directory: str, name: str) -> str:
    if _is_absolute(name):
        return name
    return f"{directory.rstrip('/')}/{name}" if directory and name != "-" else ""


def _name_by_engine(engine: str, options: Mapping[str, str]) -> str:
    """Name a network volume: server and export, pool and image; "" for engines that open files and devices."""
    if engine in ("rbd", "rados", "dfs"):
        image = options.get("rbdname") or options.get("cont") or ""
        cluster = options.get("clustername", "ceph")
        name = "/".join(part for part in (options.get("pool", ""), image) if part)
        return name if cluster == "ceph" or not name else f"{cluster}:{name}"
    if engine == "nfs":
        server, slash, export = _read_url(options.get("nfs_url", "")).partition("/")
        return f"{server}:{slash}{export}" if server else ""
    if engine == "libiscsi":
        return _read_url(options.get("filename", "").replace("\\:", ":"))
    if engine == "nbd":
        return _read_url(options.get("uri", ""))
    if engine == "http":
        bucket = options.get("filename", "").replace("\\:", ":").strip("/").partition("/")[0]
        return "/".join(part for part in (options.get("http_host", "localhost"), bucket) if part)
    if engine in ("gfapi", "gfapi_async"):
        brick, volume = options.get("brick", ""), options.get("volume", "")
        return f"{brick}:/{volume}" if brick and volume else volume
    if engine == "libhdfs":
        server = ":".join(options[name] for name in ("namenode", "port") if options.get(name))
        return f"{server}/{options.get('hdfsdirectory', '').strip('/')}".strip("/")
    return ""


def _read_url(text: str) -> str:
    """Return host and path of a URL, without user, password and query; of a socket, its path."""
    match = _URL.match(remove_secrets(text.strip()).replace(REMOVED, ""))
    if match is None:
        return ""
    socket = _SOCKET.search(match["query"] or "")
    return match["place"].strip("/") or (socket[1] if socket else "")


def _find_entry(place: str, opened: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return what the agent sent about a place; of one that is not known, if there is only one that it can be."""
    if place.startswith("/"):
        path = posixpath.normpath(place)
        around = [each for each in opened if _contains(posixpath.normpath(each["path"]), path)]
        return max(around, key=lambda each: len(each["path"]), default=None)
    if place:
        return None
    inside = [each for each in opened if each.get("mount_point")] or list(opened)
    names = {_name_entry(each, in_pool=False) for each in inside}
    return inside[0] if len(names) == 1 else None


def _contains(around: str, path: str) -> bool:
    return path == around or path.startswith(around.rstrip("/") + "/")


def _name_entry(entry: Mapping[str, Any], *, in_pool: bool) -> str:
    device, mount_point = entry.get("device") or {}, entry.get("mount_point")
    identifier, kernel_name = device.get("identifier") or "", device.get("kernel_name") or ""
    if mount_point is None:
        return (kernel_name if in_pool else identifier) or identifier or kernel_name
    if device.get("class") == "network" and "/" in identifier:
        # Server and export; a network disk has another identifier.
        return identifier
    return _replace_generated(posixpath.normpath(mount_point))


def _name_place(place: str) -> str:
    """Name what a job opens without the facts of an agent: a device, else a directory; "" if it is not known."""
    if place.startswith("="):
        return _CLAIM.sub(GENERATED, place[1:].strip())
    if raw := _RAW_WINDOWS.match(place):
        return raw["name"]
    if not place.startswith("/"):
        # On Windows, or nothing.
        directory = re.sub(r"[\\/]+[^\\/]*\Z", "", place)
        return _replace_generated(f"{directory}\\" if re.fullmatch(r"[A-Za-z]:", directory) else directory)
    path = posixpath.normpath(place)
    if path.startswith("//"):
        path = path[1:]
    if path.startswith("/dev/") and not path.startswith(_SHARED_MEMORY):
        link = _STABLE_LINK.fullmatch(path)
        return link["name"] if link else _CLAIM.sub(GENERATED, path.removeprefix("/dev/"))
    return _replace_generated(path if place.endswith("/") else posixpath.dirname(path))


def _replace_generated(path: str) -> str:
    """Return a path with "*" in place of what differs from run to run."""
    kept: list[str] = []
    for part in path.split("/"):
        if _WORKSPACE.fullmatch(part):
            break
        for pattern in _GENERATED:
            part = pattern.sub(GENERATED, part)
        kept.append(part)
    return "/".join(kept) or path[:1]
