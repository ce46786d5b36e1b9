"""The effective options of each entry: its own ones and the global ones."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from benchapp.fio.json.shape import GlobalOptions, PrintedJob, PrintedReport
from benchapp.fio.notes import Notes
from benchapp.fio.workload.options import _NONE, AGGREGATE, overlay_options


class Effective(Struct, frozen=True, gc=False):
    """The options in effect for one entry; has_own: fio printed those of the job itself."""

    options: Mapping[str, str]
    has_own: bool


class GlobalOptionsOf:
    """The global options of each server; from fio 3.39 they are a list where there are several servers."""

    def __init__(self, of_all: GlobalOptions | None) -> None:
        self._of_all = None if isinstance(of_all, list) else of_all or _NONE
        self._of: dict[tuple[object, ...], Mapping[str, str]] = {}
        servers = of_all if isinstance(of_all, list) else []
        for server in servers:
            options = {key: str(value) for key, value in server.items() if key not in ("hostname", "port")}
            hostname, port = str(server.get("hostname")), str(server.get("port"))
            self._of.setdefault((hostname, port), options)
            self._of.setdefault((hostname,), options)
            if len(servers) == 1:
                self._of_all = options

    def choose(self, hostname: str | None, port: int | str | None) -> Mapping[str, str]:
        """Return those of a server: of its host and port, else of its host."""
        keys = ((str(hostname), str(port)), (str(hostname),))
        return next((self._of[key] for key in keys if key in self._of), self._of_all or _NONE)


def find_options(
    content: PrintedReport, entries: Sequence[PrintedJob], *, where: str, notes: Notes
) -> list[Effective]:
    """Return the effective options of each entry."""
    own: list[Mapping[str, str]] = [entry.options or _NONE for entry in entries]
    is_client = content.jobs is None
    if is_client and any(own) and not all(own):
        own = _lend_options(entries, own, where, notes)
    of_all = content.global_options
    of_servers = GlobalOptionsOf(of_all)
    if isinstance(of_all, list):
        hosts = {entry.hostname for entry in entries}
        servers = (str(server["hostname"]) for server in of_all if server.get("hostname"))
        notes.add_missing_clients((host for host in servers if host not in hosts), where)
    is_listed = of_all is not None
    if of_all is None and entries and not any(own):
        notes.add(
            "options-not-reported",
            where,
            "this report has no options: the requested workload is not known",
        )
    return [
        Effective(
            overlay_options(of_servers.choose(entry.hostname, entry.port), options) if of_all else options,
            # fio omits an empty list: the options of a job without own ones are those of [global]. Servers also
            # omit the options of some entries.
            bool(options) or (is_listed and not (is_client and any(own))) or entry.options is not None,
        )
        for entry, options in zip(entries, own, strict=True)
    ]


def _lend_options(
    entries: Sequence[PrintedJob], own: list[Mapping[str, str]], where: str, notes: Notes
) -> list[Mapping[str, str]]:
    """Give the options of a job to its clones: in client mode fio leaves out those of most entries."""
    of_name: dict[str | None, Mapping[str, str]] = {}
    for entry, options in zip(entries, own, strict=True):
        if options:
            of_name.setdefault(entry.jobname, options)
    lent = [options or of_name.get(entry.jobname, _NONE) for entry, options in zip(entries, own, strict=True)]
    if any(
        after and not before and entry.jobname != AGGREGATE
        for entry, before, after in zip(entries, own, lent, strict=True)
    ):
        notes.add(
            "options-borrowed",
            where,
            "fio omitted the options of some entries; those of the same job name were used",
        )
    return lent
