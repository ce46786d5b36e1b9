"""Monitoring: liveness, readiness, metrics."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import structlog
from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from rest_framework.request import Request

from benchapp.framework.api.answers import ApiAnswer, Time, build
from benchapp.framework.api.parameters import refuse_parameters
from benchapp.framework.api.permissions import MayAdminister, MayRead
from benchapp.framework.api.problems import RETRY_AFTER_S, is_too_slow
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView
from benchapp.framework.readiness import (
    DiskSpace,
    Finding,
    FindingLevel,
    check_database,
    measure_disk,
    read_readiness,
)
from benchapp.overview.read.status import Status, Storage, read_status
from benchapp.reports.read import list_pinned_series
from benchapp.series.read.selected_levels import read_main_levels
from benchapp.series.read.series import SeriesRow
from benchapp.storage.read.hosts import Totals, count_totals

log = structlog.get_logger(__name__)


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Liveness: return the id of this process; no dependencies are checked."""
    return JsonResponse(
        {"status": "ok", "instance": settings.INSTANCE_ID}, headers={"Cache-Control": "no-store"}
    )


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Readiness: 200 while PostgreSQL answers and is migrated, so that this process can show and accept results.

    An accepted result is durable, and waits while no worker answers: `can_store` reports whether one is stored soon.
    """
    database = check_database().code
    if database == "ok":
        readiness = read_readiness()
        answer = {
            "status": "degraded" if readiness.problems else "ok",
            "can_store": readiness.can_store,
            "database": database,
            "broker": readiness.broker,
            "worker": readiness.worker,
            "beat": readiness.beat,
            "oldest_waiting_s": round(readiness.oldest_waiting_s, 1),
            "disk": _describe_disk(readiness.disk),
        }
        return JsonResponse(answer, headers={"Cache-Control": "no-store"})
    return JsonResponse(
        {"status": "unavailable", "can_store": False, "database": database},
        status=503,
        headers={"Cache-Control": "no-store", "Retry-After": str(RETRY_AFTER_S)},
    )


def _describe_disk(disk: DiskSpace | None) -> dict[str, Any]:
    if disk is None:
        return {"status": "none"}
    return {
        "status": "disk-low" if disk.is_low else "ok",
        "path": str(disk.path),
        "free_bytes": disk.free_bytes,
        "reserve_bytes": settings.DISK_RESERVE_BYTES,
    }


class Metrics(ApiView):
    """Metrics for Prometheus."""

    permission_classes = [MayRead]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Return current totals from PostgreSQL, the same in every web process; OpenMetrics if Accept names it."""
        registry = CollectorRegistry()
        registry.register(_Totals(count_totals()))
        registry.register(_PinnedSeries(_read_pinned_series()))
        registry.register(_Disk(measure_disk()))
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(
            encode(registry),
            content_type=content_type,
            headers={"Cache-Control": "no-store", "Vary": "Accept"},
        )


metrics = Metrics.as_view()


def _read_pinned_series() -> Sequence[SeriesRow] | None:
    """Return the pinned series; None if their filters take too long."""
    try:
        return list_pinned_series()
    except OperationalError as error:
        if not is_too_slow(error):
            raise
        log.warning("metrics.pinned_series_omitted")
        return None


class UploadHourAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What was received within an hour, by its state now."""

    hour_at: Time
    received: Annotated[int, Meta(description="that wait")]
    stored: int
    rejected: int


class StatusAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What `manage.py doctor --json` prints."""

    level: Annotated[FindingLevel, Meta(description="of the worst finding")]
    findings: Annotated[Sequence[Finding], Meta(description="of each check, the worst first")]
    per_hour: Annotated[Sequence[UploadHourAnswer], Meta(description="the last 24 hours, oldest first")]
    storage: Annotated[Storage | None, Meta(description="null while the database cannot be read")]


def make_status_answer(status: Status) -> StatusAnswer:
    """Return a status as the API and `manage.py doctor --json` give it."""
    hours = [UploadHourAnswer(**hour) for hour in status.per_hour]
    return build(StatusAnswer, status, per_hour=hours)


class CurrentStatus(ApiView):
    """The status of the installation."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="read_status", responses=StatusAnswer)
    def get(self, request: Request) -> HttpResponse:
        """Check the installation: findings with remedies, throughput, storage and its growth."""
        refuse_parameters(request)
        return answer_json(request, make_status_answer(read_status()))


class _Totals(Collector):
    """Totals in Prometheus format."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        """Yield one metric family per total."""
        totals = self._totals
        for name, text, label, counts in (
            ("benchapp_submissions", "Submissions by state.", "state", totals.submissions),
            ("benchapp_notices", "Notices of the outbox by state.", "state", totals.notices),
            ("benchapp_open_incidents", "Open regressions by severity.", "severity", totals.open_incidents),
        ):
            family = GaugeMetricFamily(name, text, labels=[label])
            for value, count in counts.items():
                family.add_metric([value], count)
            yield family
        for name, text, number in (
            (
                "benchapp_oldest_received_age_seconds",
                "Age of the oldest waiting submission; 0 without one.",
                totals.oldest_received_age_s,
            ),
            (
                "benchapp_oldest_notice_age_seconds",
                "How long the oldest waiting notice is due; 0 without one.",
                totals.oldest_notice_age_s,
            ),
            ("benchapp_runs", "Runs stored.", totals.runs),
            ("benchapp_series", "Series with a history.", totals.series),
            ("benchapp_series_to_evaluate", "Series with runs not evaluated yet.", totals.to_evaluate),
            ("benchapp_hosts", "Hosts that are not retired, without the sample host.", totals.hosts),
            ("benchapp_silent_hosts", "Hosts that missed a scheduled run.", totals.silent_hosts),
            ("benchapp_failing_hosts", "Hosts with a profile without valid values.", totals.failing_hosts),
        ):
            yield GaugeMetricFamily(name, text, value=number)


class _PinnedSeries(Collector):
    """Last value and level of the series that users pinned as histories, in base units."""

    def __init__(self, rows: Sequence[SeriesRow] | None) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Yield last value, median, runs and time of the newest run of each series, or that they are omitted."""
        yield GaugeMetricFamily(
            "benchapp_pinned_series_omitted",
            "1 if the pinned series are left out because their filters take too long; else 0.",
            value=int(self._rows is None),
        )
        if self._rows is None:
            return
        levels = read_main_levels([row.id for row in self._rows])
        labels = ["series", "scope", "workload", "target", "metric"]
        last, median, runs, at = (
            GaugeMetricFamily(f"benchapp_pinned_series_{name}", text, labels=labels)
            for name, text in (
                ("last_value", "Newest valid value of the main metric, in its base unit."),
                ("level_median", "Median of the current level of the main metric, in its base unit."),
                ("level_runs", "Runs of the current level."),
                ("last_run_timestamp_seconds", "Start of the newest run."),
            )
        )
        for row in self._rows:
            if row.id in levels:
                metric, level = levels[row.id].metric, levels[row.id].level
                own = [str(row.id), row.scope, row.workload_title, row.target_title, metric.name]
                last.add_metric(own, level.last)
                median.add_metric(own, level.median)
                runs.add_metric(own, level.n)
                at.add_metric(own, row.last_at.timestamp())
        yield from (last, median, runs, at)


class _Disk(Collector):
    """The disk of the data directory of this process, if it has one."""

    def __init__(self, disk: DiskSpace | None) -> None:
        self._disk = disk

    def collect(self) -> Iterator[Metric]:
        """Yield the free space, the reserve, and whether it is below."""
        if self._disk is None:
            return
        yield GaugeMetricFamily(
            "benchapp_disk_low",
            "1 while results are rejected because free space is below the reserve; else 0.",
            value=int(self._disk.is_low),
        )
        yield GaugeMetricFamily(
            "benchapp_disk_free_bytes",
            "Free space on the disk of the data directory.",
            value=self._disk.free_bytes,
        )
        yield GaugeMetricFamily(
            "benchapp_disk_reserve_bytes",
            "Reserved free space (BENCHAPP_DISK_RESERVE_MIB).",
            value=settings.DISK_RESERVE_BYTES,
        )
