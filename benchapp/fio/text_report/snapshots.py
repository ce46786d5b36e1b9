"""Keep the last complete snapshot of each execution (--status-interval): snapshots are cumulative."""

from collections.abc import Iterable, Iterator

from benchapp.fio.json.documents import DOCUMENTS_MAXIMUM, check_job_count
from benchapp.fio.notes import Notes
from benchapp.fio.text_report.draft import ReportDraft
from benchapp.fio.text_report.growth import has_gone_on
from benchapp.fio.unreadable import UnreadableOutput


def keep_last_snapshots(reports: Iterable[ReportDraft], notes: Notes) -> Iterator[tuple[int, ReportDraft]]:
    """Yield the last complete report of each execution, with its place in the text; only one is in memory.

    Raises UnreadableOutput where there are too many reports, or jobs in one.
    """
    kept: tuple[int, ReportDraft] | None = None
    dropped: list[int] = []
    for number, report in enumerate(reports):
        if kept is not None and report.continues:
            _check_continuation(kept[1], report)
        check_job_count(len(report.jobs))
        if number >= DOCUMENTS_MAXIMUM:
            raise UnreadableOutput(
                "too-many-reports",
                f"the text contains more than {DOCUMENTS_MAXIMUM} reports of fio, the maximum",
            )
        if kept is not None and not report.continues:
            yield kept
        elif kept is not None and kept[1].is_whole and not report.is_whole:
            dropped.append(number)
            continue
        elif kept is not None:
            dropped.append(kept[0])
        kept = number, report
    if kept is not None:
        yield kept
    notes.add_snapshots(dropped)


def _check_continuation(earlier: ReportDraft, later: ReportDraft) -> None:
    """Remove the properties inherited from the report before if this is another execution with the same process id."""
    later.continues = has_gone_on(earlier, later)
    if later.continues:
        later.headers, later.repeated, later.started = earlier.headers, earlier.repeated, earlier.started
        later.fio_version = earlier.fio_version
    else:
        later.headers, later.repeated, later.started, later.fio_version = [], set(), None, ""
