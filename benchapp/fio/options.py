"""The options of a job as fio lists them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchapp.fio.notes import Notes
from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.sizes import parse_size

Raw = Mapping[str, Any]

_DIRECTIONS_ASKED: Final = {
    "read": ("read",),
    "randread": ("read",),
    "write": ("write",),
    "randwrite": ("write",),
    "trim": ("trim",),
    "randtrim": ("trim",),
    "rw": ("read", "write"),
    "readwrite": ("read", "write"),
    "randrw": ("read", "write"),
    "trimwrite": ("write", "trim"),
    "randtrimwrite": ("write", "trim"),
}
_NONE: Final[Mapping[str, str]] = {}

# The name of the entry in which fio adds up those of all servers.
AGGREGATE: Final = "All clients"


def read_options(raw: object) -> Mapping[str, str]:
    """Return options as text by name; other values, as tools rewrite them, become what fio would print."""
    if not isinstance(raw, dict):
        return _NONE
    if all(type(value) is str for value in raw.values()):
        return raw
    return {name: _as_text(value) for name, value in raw.items() if not isinstance(value, dict | list)}


def _as_text(value: object) -> str:
    if value is None or value is True:
        return ""
    return "0" if value is False else str(value)


def read_global_options(raw: object, hostname: object, port: object) -> Mapping[str, str]:
    """Return the global options of a server; from fio 3.39 they are a list where there are several servers."""
    if not isinstance(raw, list):
        return read_options(raw)
    servers = [entry for entry in raw if isinstance(entry, dict)]
    of_host = [entry for entry in servers if entry.get("hostname") == hostname]
    of_port = [entry for entry in of_host if entry.get("port") == port]
    for entry in (*of_port, *of_host, *(servers if len(servers) == 1 else ())):
        return read_options({key: value for key, value in entry.items() if key not in ("hostname", "port")})
    return _NONE


def overlay_options(of_all: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the effective options: the job's own win."""
    return {**of_all, **own} if of_all else own


def list_directions_asked(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directions that rw asks for; none where it is not there, as in reports before 2.3."""
    # unified_rw_reporting prints "mixed" alone.
    if options.get("unified_rw_reporting") in ("1", "mixed"):
        return ("mixed",)
    return _DIRECTIONS_ASKED.get(options.get("rw", "").partition(":")[0], ())


def count_jobs_asked(options: Mapping[str, str]) -> int | None:
    """Return numjobs; None where the options do not say, as those of the global section before 3.4."""
    text = options.get("numjobs")
    count = parse_size(text) if text else None
    return count if count and count <= INTEGER_MAXIMUM else None


def is_set(options: Mapping[str, str], name: str) -> bool:
    """Say whether a flag is given and not switched off; from 3.39 a bare flag is listed with an empty value."""
    return options.get(name, "0").strip().lower() not in ("0", "false", "no")


def find_options(content: Raw, raws: Sequence[Raw], *, where: str, notes: Notes) -> list[Mapping[str, str]]:
    """Return the effective options of each entry."""
    of_all = content.get("global options")
    own = [read_options(raw.get("job options")) for raw in raws]
    if "client_stats" in content and any(own) and not all(own):
        own = _lend_options(raws, own, where, notes)
    if of_all is None:
        if raws and not any(own):
            notes.add(
                "options-not-reported",
                where,
                "this report lists no options: what was asked of the storage is not known",
            )
        return own
    return [
        overlay_options(read_global_options(of_all, raw.get("hostname"), raw.get("port")), options)
        for raw, options in zip(raws, own, strict=True)
    ]


def _lend_options(
    raws: Sequence[Raw], own: list[Mapping[str, str]], where: str, notes: Notes
) -> list[Mapping[str, str]]:
    """Give the options of a job to its clones: in client mode fio leaves out those of most entries."""
    of_name: dict[object, list[Mapping[str, str]]] = defaultdict(list)
    for raw, options in zip(raws, own, strict=True):
        of_name[str(raw.get("jobname"))].append(options)
    lent = [
        options or next(filter(None, of_name[str(raw.get("jobname"))]), _NONE)
        for raw, options in zip(raws, own, strict=True)
    ]
    if any(
        after and not before and raw.get("jobname") != AGGREGATE
        for raw, before, after in zip(raws, own, lent, strict=True)
    ):
        notes.add(
            "options-borrowed",
            where,
            "fio left out options of some entries; those of the same job name stand in",
        )
    return lent
