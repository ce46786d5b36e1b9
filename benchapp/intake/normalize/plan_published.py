"""Convert a document of published numbers to database rows. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG
from benchapp.fio import PARSER_VERSION
from benchapp.intake.normalize.plan import Plan, PlannedMeasurement, PlannedRun, PlannedTarget
from benchapp.intake.normalize.sender_context import SubmissionSource, Unstorable
from benchapp.intake.posts.envelope import BadEnvelope, SendingAgent, load_document
from benchapp.intake.posts.published_document import (
    Publication,
    ReportedMeasurement,
    ReportedRun,
    read_reported,
)
from benchapp.storage.write.identity import environment_key, key_of, series_key

FORMAT: Final = "reported"
BADGE: Final = "reported"
# Only workloads that are timed as a whole have it: its absence needs no reason.
_MAY_BE_ABSENT: Final = frozenset({"elapsed_s"})


def plan_reported(source: SubmissionSource) -> Plan:
    """Parse a submission of published numbers and return its rows. Raises Unstorable."""
    try:
        reported = read_reported(load_document(source.body))
    except BadEnvelope as error:
        raise Unstorable(error.code, str(error)) from error
    runs = tuple(
        _plan_run(source, run, publication=reported.source, number=number)
        for number, run in enumerate(reported.runs)
    )
    return Plan(source, runs, SendingAgent())


def _plan_run(
    source: SubmissionSource, run: ReportedRun, *, publication: Publication, number: int
) -> PlannedRun:
    target = PlannedTarget(key_of(run.target), run.target)
    values = {
        "profile": run.profile,
        "sweep_id": None,
        "labels": dict(run.labels),
        "started_at": run.started_at,
        "started_at_is_known": True,
        "finished_at": None,
        "format": FORMAT,
        "fio_version": (run.environment.get("fio_version") or "")[:100],
        "command": {"source": publication.plain()},
        "error": 0,
        "is_partial": False,
        "warnings": [],
        "badges": [BADGE],
        "parser_version": PARSER_VERSION,
    }
    return PlannedRun(
        source=source,
        document=number,
        target=target,
        environment_key=environment_key(run.environment),
        environment=run.environment,
        values=values,
        measurements=tuple(_plan_measurements(source.scope, target, run, publication=publication)),
    )


def _plan_measurements(
    scope: str, target: PlannedTarget, run: ReportedRun, *, publication: Publication
) -> Iterator[PlannedMeasurement]:
    for measurement in run.measurements:
        workload_key = key_of(measurement.workload)
        yield PlannedMeasurement(
            series_key=series_key(
                scope=scope,
                target_key=target.key,
                workload_key=workload_key,
                direction=measurement.direction,
            ),
            target=target,
            workload_key=workload_key,
            workload=measurement.workload,
            direction=measurement.direction,
            values=_make_values(measurement, publication),
        )


def _make_values(measurement: ReportedMeasurement, publication: Publication) -> dict[str, Any]:
    known = measurement.metrics
    absent = [name for name in CATALOG if name not in known and name not in _MAY_BE_ABSENT]
    return {
        **{name: known.get(name) for name in CATALOG},
        "job_name": _name_workload(measurement.workload),
        "error": 0,
        "latency_kind": "",
        "latency_stddev_ns": None,
        "total_ios": None,
        "io_bytes": None,
        "runtime_s": None,
        "clones": 1,
        "latency_bins": None,
        "percentiles": {},
        "missing": dict.fromkeys([*absent, "percentiles"], "not-reported"),
        "badges": [{"code": BADGE, "sentence": _describe_source(measurement, publication), "numbers": {}}],
    }


def _name_workload(workload: Mapping[str, Any]) -> str:
    """Name a measurement: "4k randread"."""
    size = workload["block_size_bytes"]
    units = ((2**20, "M"), (2**10, "k"))
    text = next((f"{size // factor}{unit}" for factor, unit in units if size and size % factor == 0), size)
    return f"{text or ''} {workload['rw']}".strip()


def _describe_source(measurement: ReportedMeasurement, publication: Publication) -> str:
    text = f"Published in “{publication.title}”, not measured here."
    return f"{text} Note: {measurement.note.rstrip('.')}." if measurement.note else text
