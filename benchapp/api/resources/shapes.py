"""Flat rows of responses, as tables for Grafana and pandas."""

from dataclasses import fields
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from benchapp.api.framework.answers import ApiAnswer, build
from benchapp.metrics import CATALOGUE
from benchapp.models import METRIC_FIELDS
from benchapp.queries.hosts import HostRow, HostSchedule, TokenRow
from benchapp.queries.runs.runs import MeasurementRow, RunDetail, RunRow
from benchapp.queries.runs.submissions import UploadRow
from benchapp.queries.series.series import SeriesDetail, SeriesRow
from benchapp.queries.shapes import TargetRow, WorkloadRow

Row = dict[str, Any]

# URLs are literal: `reverse` takes 10 µs, and a page of 1 000 rows has 2 000 URLs. A test resolves them.
PREFIX: Final = "/api/v1"
_BESIDE: Final = (
    "target",
    "workload",
    "measurements",
    "environment",
    "submission",
    "percentiles",
    "badges",
    "host_id",
    "host_name",
)


def host_row(host: HostRow) -> Row:
    """Return a host without its tokens."""
    last = host.last_run
    return {
        "name": host.name,
        "pool": host.pool,
        "created_at": host.created_at,
        "last_seen_at": host.last_seen_at,
        "agent_version": host.agent_version,
        "retired_at": host.retired_at,
        "run_count": host.run_count,
        "last_run_id": last.id if last else None,
        "last_run_at": last.started_at if last else None,
        "last_run_profile": last.profile if last else None,
        "last_run_error": last.error if last else None,
        "expected_at": host.schedule.expected_at if host.schedule else None,
        "silent_since": host.schedule.silent_since if host.schedule else None,
        "schedule": schedule_row(host.schedule) if host.schedule else None,
        "url": f"{PREFIX}/hosts/{host.name}",
        "page": f"/hosts/{host.name}/",
    }


def schedule_row(schedule: HostSchedule) -> Row:
    """Return the schedule of a host."""
    return {
        "since_at": schedule.since_at,
        "reported_by": schedule.reported_by,
        "entries": [
            {
                "profile": entry.profile,
                "every_s": entry.every_s,
                "splay_s": entry.splay_s,
                "directory": entry.directory,
                "last_run_at": entry.last_at,
                "expected_at": entry.expected_at,
                "silent_since": entry.silent_at if entry.is_silent else None,
            }
            for entry in schedule.entries
        ],
    }


def token_row(token: TokenRow) -> Row:
    """Return the public fields of a token."""
    return _plain(token)


def run_row(run: RunRow) -> Row:
    """Return one row of the runs."""
    return {
        **_plain(run),
        "host": run.host_name,
        "has_failed": run.has_failed,
        "badges": list(run.badges),
        **target_columns(run.target),
        "measurements": [_plain(measurement) for measurement in run.measurements],
        **_run_links(run.id),
    }


def run_detail(run: RunDetail) -> Row:
    """Return one run with all details."""
    return {
        **_plain(run),
        "host": run.host_name,
        "has_failed": run.has_failed,
        "badges": list(run.badges),
        **target_columns(run.target),
        "environment": _plain(run.environment),
        "submission": {**_plain(run.submission), "url": submission_url(run.submission.id)},
        "measurements": [measurement_row(measurement) for measurement in run.measurements],
        **_run_links(run.id),
        "output": f"{PREFIX}/runs/{run.id}/output",
    }


def measurement_row(measurement: MeasurementRow) -> Row:
    """Return one measurement with its workload; runtime_s: configured, measured_s: actual."""
    own = _plain(measurement)
    # The response of one run has its id already.
    del own["run_id"]
    return {
        **own,
        "measured_s": measurement.runtime_s,
        **workload_columns(measurement.workload),
        "percentiles": [{"percent": percent, "ns": value} for percent, value in measurement.percentiles],
        "badges": [_plain(badge) for badge in measurement.badges],
        "series_url": f"{PREFIX}/series/{measurement.series_id}",
    }


def series_row(series: SeriesRow) -> Row:
    """Return one row of the series."""
    latest = series.latest
    return {
        "id": series.id,
        "title": series.title,
        "scope": series.scope,
        "host": None if series.is_pool else series.scope_name,
        "pool": series.scope_name if series.is_pool else None,
        "direction": series.direction,
        "measurement_count": series.measurement_count,
        "first_at": series.first_at,
        "last_at": series.last_at,
        "badges": list(series.badges),
        **workload_columns(series.workload),
        **target_columns(series.target),
        "last_run_id": latest.run_id if latest else None,
        "last_error": latest.error if latest else None,
        "last_iops": latest.iops if latest else None,
        "last_bandwidth_bytes_per_s": latest.bandwidth_bytes_per_s if latest else None,
        "last_latency_p99_ns": latest.latency_p99_ns if latest else None,
        "url": f"{PREFIX}/series/{series.id}",
        "page": f"/series/{series.id}/",
    }


def series_detail(series: SeriesDetail) -> Row:
    """Return one series."""
    return {
        **series_row(series.row),
        "workload_title": series.row.workload_title,
        "target_title": series.row.target_title,
        "hosts": list(series.host_names),
        "siblings": [
            {"id": each.id, "direction": each.direction, "url": f"{PREFIX}/series/{each.id}"}
            for each in series.siblings
        ],
        "points": f"{PREFIX}/series/{series.row.id}/points",
    }


def submission_row(upload: UploadRow) -> Row:
    """Return the state of a submission, as the agent reads it."""
    return {
        "id": upload.id,
        "host": upload.host_name,
        "kind": upload.kind,
        "state": upload.state,
        "received_at": upload.received_at,
        "settled_at": upload.settled_at,
        "reason": {"code": upload.reason_code, "detail": upload.reason} if upload.reason_code else None,
        "attempts": upload.attempts,
        "body_bytes": upload.body_bytes,
        "has_body": upload.has_body,
        "runs": [{"id": run_id, **_run_links(run_id)} for run_id in upload.run_ids],
        "url": submission_url(upload.id),
    }


def metric_row(name: str) -> Row:
    """Return one metric of the catalog."""
    metric = CATALOGUE[name]
    return {"name": metric.name, "unit": metric.unit, "better": metric.better, "label": metric.label}


def target_columns(target: TargetRow) -> Row:
    """Return the layout as columns."""
    return _plain(target)


def workload_columns(workload: WorkloadRow) -> Row:
    """Return the workload as columns."""
    return _plain(workload)


def submission_url(submission_id: Any) -> str:
    """Return the URL of a submission."""
    return f"{PREFIX}/submissions/{submission_id}"


def _run_links(run_id: int) -> Row:
    return {"url": f"{PREFIX}/runs/{run_id}", "page": f"/runs/{run_id}/"}


def _plain(row: Any) -> Row:
    return {field.name: getattr(row, field.name) for field in fields(row) if field.name not in _BESIDE}


MetricName = Annotated[str, Meta(extra_json_schema={"enum": list(METRIC_FIELDS)})]


class MetricAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    unit: str
    better: Literal["higher", "lower"]
    label: str


def describe_metric(name: str) -> MetricAnswer:
    """Return one metric of the catalog."""
    return build(MetricAnswer, CATALOGUE[name])


def run_links(run_id: int) -> dict[str, str]:
    """Return the fields url and page of a run."""
    return {"url": f"{PREFIX}/runs/{run_id}", "page": f"/runs/{run_id}/"}
