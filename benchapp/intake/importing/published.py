"""Import published numbers: a submission for each run, whose id is derived from its content.

A run that a newer import corrects is kept and excluded, so that medians count it once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from benchapp.catalog.metrics import CATALOG
from benchapp.intake.importing.files import accept_or_retry, process_submissions
from benchapp.intake.normalize.plan import FORMAT
from benchapp.intake.posts.published_document import KIND, SCHEMA, Publication, read_reported
from benchapp.intake.posts.submissions import AcceptOutcome, IncomingSubmission
from benchapp.judge import redetect
from benchapp.models import Kind, Measurement, Run, State, Submission
from benchapp.series.write import exclude_run
from benchapp.storage.write.hosts import canonical_json

# Prefix of the reason of a corrected run. It stays if a user includes the run again, which is then not excluded again.
CORRECTED_BY: Final = "corrected by run "
# Target id and start.
_TargetTime = tuple[int, datetime]
_Values = Mapping[tuple[int, int], tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class Corrected:
    """Corrections of an import. runs: number of earlier runs that it excluded.

    superseded: runs of this import that a newer one had corrected before; they stay excluded. overlapping: ids of
    earlier runs that are not excluded, because they have series that the import has not.
    """

    runs: int
    superseded: int
    overlapping: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Published:
    """One published run. name: profile and labels; values: metrics by series and repetition."""

    id: int
    target_time: _TargetTime
    source: Mapping[str, Any]
    name: tuple[str, Mapping[str, str]]
    environment_id: int
    values: _Values


def replace_corrected(submission_ids: Iterable[UUID], *, host_id: int) -> Corrected:
    """Exclude the earlier runs that these published ones correct; idempotent.

    A run corrects an earlier one of the same host, source (title or URL), layout, time, profile and labels if it has
    all its series: with any values in the same environment, with equal values in another one. Different values in
    another environment are another measurement.
    """
    own = Run.objects.filter(submission_id__in=list(submission_ids), host_id=host_id, format=FORMAT)
    known = own.values_list("id", "target_id", "started_at", "excluded_at", "excluded_reason")
    rows = list(known)
    included = [row for row in rows if row[3] is None]
    superseded = sum(row[3] is not None and row[4].startswith(CORRECTED_BY) for row in rows)
    earlier = _find_earlier({row[0] for row in rows}, {(row[1], row[2]) for row in included}, host_id)
    if not earlier:
        return Corrected(0, superseded, ())
    target_times = {target_time for _, target_time in earlier}
    newer = [row[0] for row in included if (row[1], row[2]) in target_times]
    published = _read_published([*newer, *(run_id for run_id, _ in earlier)])
    candidates: dict[_TargetTime, list[_Published]] = defaultdict(list)
    for run_id in newer:
        candidates[published[run_id].target_time].append(published[run_id])
    corrected, overlapping = 0, []
    for run_id, target_time in earlier:
        by = _find_successor(published[run_id], candidates[target_time])
        if by is not None:
            exclude_run(run_id, None, reason=f"{CORRECTED_BY}{by}", via="import")
            corrected += 1
        elif _is_overlapped(published[run_id], candidates[target_time]):
            overlapping.append(run_id)
    return Corrected(corrected, superseded, tuple(overlapping))


def _find_earlier(
    own: set[int], target_times: set[_TargetTime], host_id: int
) -> list[tuple[int, _TargetTime]]:
    """Return included runs of these targets and times that are not of this import."""
    found = (
        Run.objects.filter(
            host_id=host_id,
            format=FORMAT,
            excluded_at__isnull=True,
            started_at__in={moment for _, moment in target_times},
        )
        .exclude(excluded_reason__startswith=CORRECTED_BY)
        .order_by("id")
        .values_list("id", "target_id", "started_at")
    )
    return [
        (run_id, (target_id, moment))
        for run_id, target_id, moment in found
        if run_id not in own and (target_id, moment) in target_times
    ]


def _read_published(run_ids: Sequence[int]) -> dict[int, _Published]:
    values: dict[int, dict[tuple[int, int], tuple[float | None, ...]]] = defaultdict(dict)
    measured = Measurement.objects.filter(run_id__in=run_ids)
    for run_id, series_id, ordinal, *metrics in measured.values_list(
        "run_id", "series_id", "ordinal", *CATALOG
    ):
        values[run_id][series_id, ordinal] = tuple(metrics)
    return {
        run.pk: _Published(
            id=run.pk,
            target_time=(run.target_id, run.started_at),
            source=run.command.get("source", {}),
            name=(run.profile, run.labels),
            environment_id=run.environment_id,
            values=values[run.pk],
        )
        for run in Run.objects.filter(pk__in=run_ids)
    }


def _find_successor(earlier: _Published, candidates: Sequence[_Published]) -> int | None:
    """Return the newest run that corrects an earlier one, preferably of the same environment."""
    correcting = [run for run in _list_newer(earlier, candidates) if _corrects(run, earlier)]
    best = max(
        correcting, key=lambda run: (run.environment_id == earlier.environment_id, run.id), default=None
    )
    return best.id if best else None


def _corrects(run: _Published, earlier: _Published) -> bool:
    if run.environment_id == earlier.environment_id:
        return earlier.values.keys() <= run.values.keys()
    return all(run.values.get(key) == value for key, value in earlier.values.items())


def _is_overlapped(earlier: _Published, candidates: Sequence[_Published]) -> bool:
    return any(
        run.environment_id == earlier.environment_id and not earlier.values.keys().isdisjoint(run.values)
        for run in _list_newer(earlier, candidates)
    )


def _list_newer(earlier: _Published, candidates: Sequence[_Published]) -> Iterator[_Published]:
    """Yield newer runs with the same name that were published in the same source."""
    for run in candidates:
        if run.id > earlier.id and run.name == earlier.name and _is_same_source(run.source, earlier.source):
            yield run


def _is_same_source(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(one.get(name) and one.get(name) == other.get(name) for name in ("title", "url"))


# Namespace of ids: the same run of a host has the same id in any file.
_IDS: Final = UUID("0c8f6f0e-3f52-4f0b-9c07-5d3c1a9e7b42")


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of one import.

    already_there: runs that were stored before; reworded: the same with another source, which is not stored.
    measurements: of new runs. rejected: (submission, reason).
    """

    new: int
    already_there: int
    reworded: int
    measurements: int
    series: int
    corrected: Corrected
    rejected: tuple[tuple[UUID, str], ...]


def import_published(runs: Sequence[Mapping[str, Any]], source: Publication, *, host_id: int) -> Imported:
    """Accept and process these runs, exclude what they correct (`replace_corrected`), and calculate their levels.

    runs: as in a document of published numbers. Raises BadEnvelope before anything is stored.
    """
    submissions = [_make_submission(run, source, host_id=host_id) for run in runs]
    results = accept_or_retry(submissions)
    process_submissions({result.id for result in results})
    corrected = replace_corrected({result.id for result in results}, host_id=host_id)
    outcomes = Counter(result.outcome for result in results)
    new_ids = [result.id for result in results if result.outcome == AcceptOutcome.NEW]
    measurements = Measurement.objects.filter(run__submission_id__in=new_ids)
    series_ids = sorted(set(measurements.values_list("series_id", flat=True)))
    # Published history is not news: no notices.
    for _ in redetect(series_ids, is_dry_run=False):
        continue
    rejected = Submission.objects.filter(id__in=new_ids, state=State.REJECTED)
    return Imported(
        new=Run.objects.filter(submission_id__in=new_ids).count(),
        already_there=outcomes[AcceptOutcome.REPLAYED],
        reworded=outcomes[AcceptOutcome.CONFLICT],
        measurements=measurements.count(),
        series=len(series_ids),
        corrected=corrected,
        rejected=tuple(rejected.values_list("id", "reason")),
    )


def _make_submission(run: Mapping[str, Any], source: Publication, *, host_id: int) -> IncomingSubmission:
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
