"""Import published numbers: a submission for each run, whose id comes from its content."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

from django.db import transaction

from benchapp.models import Kind, Measurement, Run, State, Submission
from benchapp.pipeline.corrections import Corrected, replace_corrected
from benchapp.pipeline.identity import canonical_json
from benchapp.pipeline.import_files import accept_or_retry, settle
from benchapp.pipeline.intake import Arrival, Outcome
from benchapp.pipeline.reported import KIND, SCHEMA, Publication, read_reported
from benchapp.pipeline.summarize import summarize_series

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
        receipts = [accept_or_retry(arrival) for arrival in arrivals]
    settle({receipt.id for receipt in receipts})
    corrected = replace_corrected({receipt.id for receipt in receipts}, host_id=host_id)
    outcomes = Counter(receipt.outcome for receipt in receipts)
    fresh = [receipt.id for receipt in receipts if receipt.outcome == Outcome.NEW]
    measurements = Measurement.objects.filter(run__submission_id__in=fresh)
    series_ids = sorted(set(measurements.values_list("series_id", flat=True)))
    summarize_series(series_ids)
    rejected = Submission.objects.filter(id__in=fresh, state=State.REJECTED)
    return Imported(
        new=Run.objects.filter(submission_id__in=fresh).count(),
        already_there=outcomes[Outcome.REPLAYED],
        reworded=outcomes[Outcome.CONFLICT],
        measurements=measurements.count(),
        series=len(series_ids),
        corrected=corrected,
        rejected=tuple(rejected.values_list("id", "reason")),
    )


def _make_arrival(run: Mapping[str, Any], source: Publication, *, host_id: int) -> Arrival:
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "id": str(_make_id(run, host_id)),
        "source": source.plain(),
        "runs": [run],
    }
    return Arrival(host_id, Kind.REPORTED, canonical_json(document), read_reported(document).id)


def _make_id(run: Mapping[str, Any], host_id: int) -> UUID:
    return uuid5(_IDS, f"{host_id}:{canonical_json(run).decode()}")
