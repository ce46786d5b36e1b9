"""Of the snapshots of one execution (--status-interval) keep the last whole one: each holds the ones before it."""

from collections.abc import Iterable, Iterator
from typing import Final

from benchapp.fio.json.documents import DOCUMENTS_MAXIMUM, check_job_count
from benchapp.fio.notes import Notes
from benchapp.fio.text_report.draft import ReportDraft
from benchapp.fio.text_report.growth import has_gone_on
from benchapp.fio.unreadable import UnreadableOutput

_LISTED_MAXIMUM: Final = 20


def keep_last_snapshots(reports: Iterable[ReportDraft], notes: Notes) -> Iterator[tuple[int, ReportDraft]]:
    """Give the report that counts of each execution, with its place in the text; only one is held at a time.

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
                f"the text holds more than {DOCUMENTS_MAXIMUM} reports of fio, the most that are read at once",
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
    if dropped:
        numbers = ", ".join(map(str, dropped[:_LISTED_MAXIMUM]))
        more = ", …" if len(dropped) > _LISTED_MAXIMUM else ""
        notes.add(
            "cumulative-snapshots",
            "",
            f"{len(dropped)} reports ({numbers}{more}) are snapshots of an execution whose last whole report counts",
        )


def _check_continuation(earlier: ReportDraft, later: ReportDraft) -> None:
    """Take back what a report has of the one before where it is another execution, of a process of the same id."""
    later.continues = has_gone_on(earlier, later)
    if later.continues:
        later.headers, later.repeated, later.started = earlier.headers, earlier.repeated, earlier.started
        later.fio_version = earlier.fio_version
    else:
        later.headers, later.repeated, later.started, later.fio_version = [], set(), None, ""
