"""A device that stops answering: its runs measure 0, and an incident says so."""

import json
from datetime import timedelta
from typing import Any

import pytest

from benchapp import tasks
from benchapp.accounts.write.tokens import issue_token
from benchapp.models import Host, Incident, Measurement, Run, Scope
from tests.envelopes import pack_envelope
from tests.factories import NOON, make_user
from tests.intake.api.test_posts import post
from tests.stories import at_time, silence_queue

pytestmark = pytest.mark.django_db

STEP = timedelta(hours=6)
IDLE: dict[str, Any] = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}
HANGING = IDLE | {"runtime": 60_001, "lat_ns": {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}}


def read_at(iops: int) -> dict[str, Any]:
    """Return 60 s of 4 KiB reads as fio prints them."""
    latency = {"min": 90_000, "max": 900_000, "mean": 4e9 / iops, "stddev": 1e9 / iops, "N": iops * 60}
    return {
        "io_bytes": iops * 60 * 4096,
        "bw_bytes": iops * 4096,
        "iops": float(iops),
        "runtime": 60_000,
        "total_ios": iops * 60,
        "lat_ns": latency,
    }


def make_report(run: int, read: dict[str, Any], *, write: dict[str, Any] = IDLE, rw: str = "randread") -> str:
    options = {"rw": rw, "bs": "4k", "iodepth": "4", "ioengine": "libaio", "direct": "1", "runtime": "60"}
    return json.dumps(
        {
            "fio version": "fio-3.36",
            "timestamp_ms": round((NOON + run * STEP).timestamp() * 1000) + 61_000,
            "jobs": [
                {
                    "jobname": "r",
                    "groupid": 0,
                    "error": 0,
                    "elapsed": 61,
                    "job options": options,
                    "read": read,
                    "write": write,
                    "trim": IDLE,
                }
            ],
        }
    )


def post_runs(reports: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Post the runs of a host, and have the workers do what they do."""
    silence_queue(monkeypatch)
    with at_time(NOON - STEP):
        host = Host.objects.create(name="db-1")
        token = issue_token(scope=Scope.INGEST, host=host)[1]
    for run, report in enumerate(reports):
        with at_time(NOON + run * STEP + timedelta(minutes=2)):
            started_at = (NOON + run * STEP).isoformat()
            body = pack_envelope(started_at=started_at, finished_at=None, fio_output=report)
            assert post(body, token).status == 202
            tasks.normalize()
            if run >= 29:
                tasks.judge()


def test_device_that_stops_answering_opens_an_incident(client, monkeypatch) -> None:
    speeds = [10_000 + 25 * (run % 5 - 2) for run in range(30)]
    reports = [make_report(run, read_at(iops)) for run, iops in enumerate(speeds)]
    reports += [make_report(run, HANGING) for run in range(30, 40)]

    post_runs(reports, monkeypatch)

    change = Incident.objects.get().changes.get(metric="iops")
    assert (change.relative, change.is_regression) == (-1.0, True)
    client.force_login(make_user())
    with at_time(NOON + 40 * STEP):
        page = " ".join(client.get("/hosts/db-1/").content.decode().split())
    assert "1 open regression" in page
    assert "−100" in page


def test_direction_that_was_asked_for_and_did_nothing_measures_zero(monkeypatch) -> None:
    post_runs([make_report(0, HANGING)], monkeypatch)

    measurement = Measurement.objects.get()
    assert (measurement.series.direction, measurement.iops, measurement.bandwidth_bytes_per_s) == (
        "read",
        0.0,
        0.0,
    )
    assert (measurement.latency_mean_ns, measurement.latency_p99_ns, measurement.error) == (None, None, 0)
    assert measurement.missing["latency"] == "no-io"
    assert Run.objects.get().badges == ["no-io"]


@pytest.mark.parametrize(
    ("read", "write", "rw", "directions"),
    [
        # A direction that nobody asked for.
        (read_at(1000), HANGING, "randread", ["read"]),
        # Half of a mix that hangs.
        (read_at(1000), HANGING, "randrw", ["read", "write", "mixed"]),
        # A job that never ran, as one of a report that lists it twice.
        (IDLE, IDLE, "randread", []),
    ],
)
def test_only_what_was_asked_for_and_ran_is_measured(
    read: dict[str, Any], write: dict[str, Any], rw: str, directions: list[str], monkeypatch
) -> None:
    post_runs([make_report(0, read, write=write, rw=rw)], monkeypatch)

    assert (
        list(Measurement.objects.order_by("position").values_list("series__direction", flat=True))
        == directions
    )
