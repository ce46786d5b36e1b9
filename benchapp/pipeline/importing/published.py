"""Corrected published numbers: the run that a newer import replaces stays, excluded, so that medians count once.

Import published numbers: a submission for each run, whose id comes from its content.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from django.db import transaction

from benchapp.models import METRIC_FIELDS, Kind, Measurement, Run, State, Submission
from benchapp.pipeline.exclusions import exclude_run
from benchapp.pipeline.identity import canonical_json
from benchapp.pipeline.importing.files import accept_or_retry, process_submissions
from benchapp.pipeline.intake.published_document import KIND, SCHEMA, Publication, read_reported
from benchapp.pipeline.intake.submissions import AcceptOutcome, IncomingSubmission
from benchapp.pipeline.normalize.plan_published import FORMAT
from benchapp.pipeline.normalize.summaries import summarize_series

# Begins the reason of what was replaced; it stays in the row where somebody puts such a run back, which is respected.
CORRECTED_BY: Final = "corrected by run "
_Place = tuple[int, datetime]
_Values = Mapping[tuple[int, int], tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class Corrected:
    """What an import corrected. runs: earlier ones that were excluded now.

    superseded: runs of this import that a newer one had replaced before, which stays so. overlapping: earlier runs that
    still count, as they hold more than what replaces them.
    """

    runs: int
    superseded: int
    overlapping: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Published:
    """One published run. name: what tells it from others of its place; values: by series and repetition."""

    id: int
    place: _Place
    source: Mapping[str, Any]
    name: tuple[str, Mapping[str, str]]
    environment_id: int
    values: _Values


def replace_corrected(submission_ids: Iterable[UUID], *, host_id: int) -> Corrected:
    """Exclude the earlier runs that these published ones correct; safe to run again.

    Corrected is an earlier run of the same host, source (title or address), layout, time, profile and labels that these
    submissions do not hold any more, where all its series are in the newer one: in the same environment whatever its
    values are, in another one where they are the same. Another environment and other values are another measurement.
    """
    own = Run.objects.filter(submission_id__in=list(submission_ids), host_id=host_id, format=FORMAT)
    known = own.values_list("id", "target_id", "started_at", "excluded_at", "excluded_reason")
    rows = list(known)
    standing = [row for row in rows if row[3] is None]
    superseded = sum(row[3] is not None and row[4].startswith(CORRECTED_BY) for row in rows)
    earlier = _find_earlier({row[0] for row in rows}, {(row[1], row[2]) for row in standing}, host_id)
    if not earlier:
        return Corrected(0, superseded, ())
    places = {place for _, place in earlier}
    newer = [row[0] for row in standing if (row[1], row[2]) in places]
    published = _read_published([*newer, *(run_id for run_id, _ in earlier)])
    candidates: dict[_Place, list[_Published]] = defaultdict(list)
    for run_id in newer:
        candidates[published[run_id].place].append(published[run_id])
    corrected, overlapping = 0, []
    for run_id, place in earlier:
        by = _find_successor(published[run_id], candidates[place])
        if by is not None:
            exclude_run(run_id, None, reason=f"{CORRECTED_BY}{by}", via="import")
            corrected += 1
        elif _is_overlapped(published[run_id], candidates[place]):
            overlapping.append(run_id)
    return Corrected(corrected, superseded, tuple(overlapping))


def _find_earlier(own: set[int], places: set[_Place], host_id: int) -> list[tuple[int, _Place]]:
    """Return the runs that count and stand at these places, and are not of this import."""
    found = (
        Run.objects.filter(
            host_id=host_id,
            format=FORMAT,
            excluded_at__isnull=True,
            started_at__in={moment for _, moment in places},
        )
        .exclude(excluded_reason__startswith=CORRECTED_BY)
        .order_by("id")
        .values_list("id", "target_id", "started_at")
    )
    return [
        (run_id, (target_id, moment))
        for run_id, target_id, moment in found
        if run_id not in own and (target_id, moment) in places
    ]


def _read_published(run_ids: Sequence[int]) -> dict[int, _Published]:
    values: dict[int, dict[tuple[int, int], tuple[float | None, ...]]] = defaultdict(dict)
    measured = Measurement.objects.filter(run_id__in=run_ids)
    for run_id, series_id, ordinal, *metrics in measured.values_list(
        "run_id", "series_id", "ordinal", *METRIC_FIELDS
    ):
        values[run_id][series_id, ordinal] = tuple(metrics)
    return {
        run.pk: _Published(
            id=run.pk,
            place=(run.target_id, run.started_at),
            source=run.command.get("source", {}),
            name=(run.profile, run.labels),
            environment_id=run.environment_id,
            values=values[run.pk],
        )
        for run in Run.objects.filter(pk__in=run_ids)
    }


def _find_successor(earlier: _Published, candidates: Sequence[_Published]) -> int | None:
    """Return the newest run that corrects an earlier one; one of the same environment goes first."""
    fitting = [run for run in _list_rivals(earlier, candidates) if _holds(run, earlier)]
    best = max(fitting, key=lambda run: (run.environment_id == earlier.environment_id, run.id), default=None)
    return best.id if best else None


def _holds(run: _Published, earlier: _Published) -> bool:
    if run.environment_id == earlier.environment_id:
        return earlier.values.keys() <= run.values.keys()
    return all(run.values.get(key) == value for key, value in earlier.values.items())


def _is_overlapped(earlier: _Published, candidates: Sequence[_Published]) -> bool:
    return any(
        run.environment_id == earlier.environment_id and not earlier.values.keys().isdisjoint(run.values)
        for run in _list_rivals(earlier, candidates)
    )


def _list_rivals(earlier: _Published, candidates: Sequence[_Published]) -> Iterator[_Published]:
    """Give the newer runs at the same place, of the same name, that were published in the same source."""
    for run in candidates:
        if run.id > earlier.id and run.name == earlier.name and _is_same(run.source, earlier.source):
            yield run


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(one.get(name) and one.get(name) == other.get(name) for name in ("title", "url"))


# Namespace of the ids: same host, same run, same id, whatever file it stands in.
_IDS: Final = UUID("0c8f6f0e-3f52-4f0b-9c07-5d3c1a9e7b42")


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the runs of one import.

    reworded: there already with the same numbers, and another source around them, which stayed.
    corrected: what these runs replaced. measurements: of the runs that are new. rejected: (submission, reason).
    """

    new: int
    already_there: int
    reworded: int
    measurements: int
    series: int
    corrected: Corrected
    rejected: tuple[tuple[UUID, str], ...]


def import_published(runs: Sequence[Mapping[str, Any]], source: Publication, *, host_id: int) -> Imported:
    """Take in the runs (members of a document of published numbers), work them in and summarise their series.

    What they correct is excluded (`replace_corrected`).

    Raises BadEnvelope before anything is stored.
    """
    arrivals = [_make_arrival(run, source, host_id=host_id) for run in runs]
    with transaction.atomic():
        receipts = [accept_or_retry(submission) for submission in arrivals]
    process_submissions({receipt.id for receipt in receipts})
    corrected = replace_corrected({receipt.id for receipt in receipts}, host_id=host_id)
    outcomes = Counter(receipt.outcome for receipt in receipts)
    fresh = [receipt.id for receipt in receipts if receipt.outcome == AcceptOutcome.NEW]
    measurements = Measurement.objects.filter(run__submission_id__in=fresh)
    series_ids = sorted(set(measurements.values_list("series_id", flat=True)))
    summarize_series(series_ids)
    rejected = Submission.objects.filter(id__in=fresh, state=State.REJECTED)
    return Imported(
        new=Run.objects.filter(submission_id__in=fresh).count(),
        already_there=outcomes[AcceptOutcome.REPLAYED],
        reworded=outcomes[AcceptOutcome.CONFLICT],
        measurements=measurements.count(),
        series=len(series_ids),
        corrected=corrected,
        rejected=tuple(rejected.values_list("id", "reason")),
    )


def _make_arrival(run: Mapping[str, Any], source: Publication, *, host_id: int) -> IncomingSubmission:
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "id": str(_make_id(run, host_id)),
        "source": source.plain(),
        "runs": [run],
    }
    return IncomingSubmission(host_id, Kind.REPORTED, canonical_json(document), read_reported(document).id)


def _make_id(run: Mapping[str, Any], host_id: int) -> UUID:
    return uuid5(_IDS, f"{host_id}:{canonical_json(run).decode()}")
