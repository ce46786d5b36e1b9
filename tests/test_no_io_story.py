"""A device that stops answering: its runs measure 0, and an incident says so."""

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from benchapp import tasks
from benchapp.accounts.write.tokens import issue_token
from benchapp.incidents.read.incidents import list_incidents_by_id
from benchapp.models import Change, Host, Incident, Measurement, Run, Scope, Series
from tests.envelopes import pack_envelope
from tests.factories import NOON, make_user
from tests.intake.api.test_posts import post
from tests.stories import at_time, silence_queue, tell_story

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


def post_runs(
    reports: Sequence[str | None], monkeypatch: pytest.MonkeyPatch, *, drives: Sequence[str] = ("/data",)
) -> list[list[tuple[str, str]]]:
    """Post the runs of a host, and have the workers do what they do; return title and severity of incidents after each.

    reports: of each run on the last of the drives; all others are as at the start.
    """
    silence_queue(monkeypatch)
    with at_time(NOON - STEP):
        host = Host.objects.create(name="db-1")
        token = issue_token(scope=Scope.INGEST, host=host)[1]
    incidents: list[list[tuple[str, str]]] = []
    for run, report in enumerate(reports):
        with at_time(NOON + run * STEP + timedelta(minutes=2)):
            started_at = (NOON + run * STEP).isoformat()
            for drive in drives:
                output = report if drive == drives[-1] else make_report(run, read_at(speed_of(run)))
                body = pack_envelope(
                    started_at=started_at, finished_at=None, fio_output=output, target={"name": drive}
                )
                assert post(body, token).status == 202
            tasks.normalize()
            if run >= 29:
                tasks.judge()
        incidents.append(list(Incident.objects.values_list("title", "severity")))
    return incidents


def speed_of(run: int) -> int:
    return 10_000 + 25 * (run % 5 - 2)


def test_drive_that_stops_answering_is_an_incident_at_once_and_failing(client, monkeypatch) -> None:
    reports = [make_report(run, read_at(speed_of(run))) for run in range(30)]
    reports += [make_report(run, HANGING) for run in range(30, 33)]

    incidents = post_runs(reports, monkeypatch, drives=("/fast", "/slow"))

    stopped = [("db-1, /slow: no I/O in 1 of 2 series", "high")]
    assert incidents[29:] == [[], [], stopped, stopped]
    change = Incident.objects.get().changes.get(metric="iops")
    assert (change.relative, change.is_regression, change.state) == (-1.0, True, "confirmed")
    client.force_login(make_user())
    with at_time(NOON + 33 * STEP):
        host = read_text(client, "/hosts/db-1/")
        series = {
            name: read_text(client, f"/series/{pk}/")
            for pk, name in Series.objects.values_list("pk", "target_name")
        }
        hosts, overview = read_text(client, "/hosts/"), read_text(client, "/")
        detection = read_text(client, f"/series/{change.series_id}/detection/?metric=iops")
    assert "1 open regression" in host
    assert "quick on /slow: no valid value since" in host
    assert "no I/O completed: the storage did not answer" in host
    assert re.findall(r"read · (/\w+)( failing)?", host)[:2] == [("/fast", ""), ("/slow", " failing")]
    assert "no valid value since" in series["/slow"]
    assert "no valid value since" not in series["/fast"]
    assert "1 failing" in hosts
    assert "1 failing host" in overview
    assert detection.count("> 99.99 %") == 1
    assert "below threshold" not in detection


def test_second_outage_is_found_as_fast_as_the_first(monkeypatch) -> None:
    outages = (30, 31, 36, 37)
    reports = [make_report(run, HANGING if run in outages else read_at(speed_of(run))) for run in range(38)]

    post_runs(reports, monkeypatch)

    changes = Change.objects.filter(metric="iops", is_regression=True).order_by("started_at")
    assert [(change.relative, change.state) for change in changes] == [(-1.0, "confirmed")] * 2


@pytest.mark.parametrize(("outage", "states"), [((30,), []), ((30, 31), ["confirmed"])])
def test_outage_of_one_run_is_no_incident_and_one_of_two_recovers(
    outage: Sequence[int], states: list[str], monkeypatch
) -> None:
    reports = [make_report(run, HANGING if run in outage else read_at(speed_of(run))) for run in range(38)]

    incidents = post_runs(reports, monkeypatch)

    assert incidents[31] == [("db-1, /data: no I/O in 1 series", "high")] * len(states)
    assert list(Change.objects.filter(metric="iops").values_list("state", flat=True)) == states
    assert not Incident.objects.filter(recovered_at=None).exists()


def read_text(client, path: str) -> str:
    """Return the text of a page without tags."""
    return unescape(" ".join(re.sub("<[^>]*>", " ", client.get(path).content.decode()).split()))


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


def test_mix_is_counted_once_in_an_incident() -> None:
    slow = [{"read": 0.6, "write": 0.6}]
    usual = [[{"read": 1 + number % 3 / 100, "write": 1 + number % 3 / 100}] for number in range(36)]
    tell_story([*usual, *[slow] * 8], step=STEP, judged=range(35, 44))

    incident = Incident.objects.get()
    assert set(incident.changes.values_list("series__direction", flat=True)) == {"read", "write", "mixed"}
    (row,) = list_incidents_by_id([incident.pk])
    assert incident.title == "db-1: IOPS −41 % in 2 of 2 series"
    assert row.series_count == 2
    assert incident.change_count == incident.changes.exclude(series__direction="mixed").count()
