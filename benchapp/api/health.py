"""Monitoring: liveness, readiness, metrics."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import structlog
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from kombu.connection import Connection
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rest_framework.request import Request

from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import DATABASE_AWAY, RETRY_AFTER_S
from benchapp.api.framework.view import ApiView
from benchapp.api.ingest.limits import DiskSpace, measure_disk
from benchapp.queries.missing_columns import ColumnsMissing, check_columns
from benchapp.queries.totals import Totals, count_totals

log = structlog.get_logger(__name__)

_BROKER_TIMEOUT_S = 1.0


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Liveness: return the id of this process; no dependencies are checked."""
    return JsonResponse(
        {"status": "ok", "instance": settings.INSTANCE_ID}, headers={"Cache-Control": "no-store"}
    )


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Readiness: PostgreSQL is available and migrated.

    Without a broker results are still taken and shown, only later: that is degraded, and ready. So is a disk that is
    low: results are rejected (503 disk-low); reading still works.
    """
    database = check_database()
    broker = check_broker()
    disk = measure_disk()
    is_low = disk is not None and disk.is_low
    is_ready = database == "ok"
    status = (
        "unavailable" if not is_ready else "ok" if broker in ("ok", "none") and not is_low else "degraded"
    )
    headers = {"Cache-Control": "no-store", **({} if is_ready else {"Retry-After": str(RETRY_AFTER_S)})}
    return JsonResponse(
        {"status": status, "database": database, "broker": broker, "disk": _describe_disk(disk)},
        status=200 if is_ready else 503,
        headers=headers,
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


def check_database() -> str:
    """Return "ok", "away", "not-migrated", or "columns-missing"."""
    try:
        if not _list_migrations() <= set(MigrationRecorder(connection).applied_migrations()):
            return "not-migrated"
        check_columns()
    except ColumnsMissing as error:
        log.error("readyz.columns_missing", columns=str(error)[:500])
        return "columns-missing"
    except DATABASE_AWAY as error:
        log.warning("readyz.database_away", error=str(error)[:200])
        return "away"
    return "ok"


def check_broker() -> str:
    """Return "ok", "away", or "none" if none is configured; within about a second."""
    if not settings.BROKER_URL:
        return "none"
    options = {
        "socket_connect_timeout": _BROKER_TIMEOUT_S,
        "socket_timeout": _BROKER_TIMEOUT_S,
        "max_retries": 0,
    }
    try:
        with Connection(settings.BROKER_URL, transport_options=options) as broker:  # type: ignore[no-untyped-call]
            broker.default_channel.client.ping()
    except Exception as error:
        # Each transport has its own exceptions; all mean that the broker is not available.
        log.warning("readyz.broker_away", error=str(error)[:200])
        return "away"
    return "ok"


class Metrics(ApiView):
    """Metrics for Prometheus."""

    permission_classes = [MayRead]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Return current totals from PostgreSQL; the same in every web process."""
        registry = CollectorRegistry()
        registry.register(_Totals(count_totals()))
        registry.register(_Disk(measure_disk()))
        return HttpResponse(
            generate_latest(registry), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"}
        )


metrics = Metrics.as_view()


class _Totals(Collector):
    """Totals in Prometheus format."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        """Yield one metric family per total."""
        totals = self._totals
        states = GaugeMetricFamily("benchapp_submissions", "Submissions by state.", labels=["state"])
        for state, count in totals.submissions.items():
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily(
            "benchapp_oldest_received_age_seconds",
            "Age of the oldest waiting submission; 0 without one.",
            value=totals.oldest_received_age_s,
        )
        yield GaugeMetricFamily("benchapp_runs", "Runs stored.", value=totals.runs)
        yield GaugeMetricFamily("benchapp_series", "Series with a history.", value=totals.series)
        yield GaugeMetricFamily("benchapp_hosts", "Hosts that are not retired.", value=totals.hosts)


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


@cache
def _list_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None, load=True).disk_migrations)
