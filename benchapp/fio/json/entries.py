"""The entries of fio's job list, with the properties that depend on the other entries."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from benchapp.fio.json.options import find_options
from benchapp.fio.json.shape import PrintedJob, PrintedReport
from benchapp.fio.json.snapshots import has_document_grown
from benchapp.fio.notes import Notes
from benchapp.fio.version import Version
from benchapp.fio.workload.options import count_jobs_asked, is_set

# groupid -1 as unsigned: a job with stats=0, of which fio prints zeros.
_NO_GROUP: Final = 2**32 - 1
# Before it, numjobs of the global section is not in the options.
NUMJOBS_LISTED: Final[Version] = (3, 4, 0)
OPTIONS_LISTED: Final[Version] = (2, 3, 0)

Identity = tuple[str | None, int | None, str | None]


class Entry(Struct, frozen=True, gc=False):
    """An entry with its effective options (has_all_options: those of the job itself were printed) and host.

    identity: name, group and server, which the clones of one server share.
    """

    index: int
    printed: PrintedJob
    options: Mapping[str, str]
    has_all_options: bool
    hostname: str | None
    identity: Identity


def list_entries(content: PrintedReport, where: str, notes: Notes) -> list[Entry]:
    """Return the entries that have results; a note names each other one."""
    listed = content.entries or ()
    usable = [printed for printed in listed if printed is not None and not _is_without_stats(printed)]
    places: Sequence[int] = range(len(listed))
    if len(usable) < len(listed):
        places = _find_usable(listed, where, notes)
    options = find_options(content, usable, where=where, notes=notes)
    return [
        Entry(
            place,
            printed,
            effective.options,
            effective.has_own,
            printed.hostname,
            (printed.jobname, printed.groupid, server),
        )
        for place, printed, effective, server in zip(
            places, usable, options, _name_servers(usable), strict=True
        )
    ]


def _is_without_stats(printed: PrintedJob) -> bool:
    return printed.groupid == _NO_GROUP and not printed.jobname


def _find_usable(listed: Sequence[PrintedJob | None], where: str, notes: Notes) -> list[int]:
    places = []
    for place, printed in enumerate(listed):
        if printed is None:
            notes.add(
                "unreadable-job", f"{where}, job {place}", "this entry is not a valid job and was skipped"
            )
        elif _is_without_stats(printed):
            notes.add(
                "stats-disabled",
                f"{where}, job {place}",
                "this job ran with stats=0: fio does not report its results",
            )
        else:
            places.append(place)
    return places


def _name_servers(jobs: Sequence[PrintedJob]) -> list[str | None]:
    """Name the server of each entry, with its port only if one host has several servers."""
    names = [printed.hostname for printed in jobs]
    if not any(names):
        return names
    ports: dict[str, set[object]] = defaultdict(set)
    for printed in jobs:
        if printed.hostname is not None:
            ports[printed.hostname].add(printed.port)
    return [
        f"{host}:{printed.port}" if (host := printed.hostname) is not None and len(ports[host]) > 1 else host
        for printed in jobs
    ]


def drop_snapshot_entries(
    entries: Sequence[Entry], version: Version, *, where: str, notes: Notes
) -> list[Entry]:
    """Keep the last entries of each job: with --status-interval a client lists every snapshot in one report."""
    of_job: dict[object, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_job[entry.identity].append(entry)
    dropped = {
        entry.index
        for members in of_job.values()
        for entry in _find_superseded(members, _count_expected(members[-1].options, version))
    }
    if dropped:
        notes.add(
            "cumulative-snapshots",
            where,
            f"{len(dropped)} entries are snapshots of running jobs and were skipped; the last of each job was read",
        )
    return [entry for entry in entries if entry.index not in dropped]


def _count_expected(options: Mapping[str, str], version: Version) -> int | None:
    """Return the number of entries of a job in one snapshot; None if fio may have omitted numjobs."""
    return count_jobs_asked(options) or (1 if options and version >= NUMJOBS_LISTED else None)


def _find_superseded(members: Sequence[Entry], clones: int | None) -> Sequence[Entry]:
    """Return the entries before the last full set of clones, if each set continues the one before."""
    if not clones or len(members) <= clones or len(members) % clones:
        return ()
    is_growing = all(
        has_document_grown(members[place].printed, members[place + clones].printed)
        for place in range(len(members) - clones)
    )
    return members[:-clones] if is_growing else ()


def count_clones(entries: Sequence[Entry], *, is_partial: bool) -> dict[Identity, int]:
    """Return how many jobs fio summed into an entry: all clones, if there is only one entry."""
    clones: dict[Identity, int] = {}
    for entry in entries:
        if entry.identity in clones or (is_partial and not is_set(entry.options, "group_reporting")):
            clones[entry.identity] = 1
        else:
            clones[entry.identity] = count_jobs_asked(entry.options) or 1
    return clones


def find_single(entries: Sequence[Entry]) -> set[int]:
    """Return the indices of single entries without numjobs: group_reporting may have summed several jobs."""
    counts = Counter(entry.identity for entry in entries)
    return {
        entry.index
        for entry in entries
        if counts[entry.identity] == 1 and not count_jobs_asked(entry.options)
    }
