"""Options that change which latency fio prints, from the outputs of one job to levels, pages, API and gate.

lat_percentiles=1 with clat_percentiles=0: percentiles of the total latency, here 57 % above the completion latency.
disable_lat=1: mean and maximum of the completion latency. disable_clat=1: no percentiles.
"""

import json
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from django.test import Client

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.judge import judge_due
from benchapp.models import Change, ChangeState, Host, Incident, Kind, Level, Run, Scope, Series
from tests.envelopes import make_envelope
from tests.factories import make_host, make_token
from tests.pages import Page
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db

START: Final = datetime(2026, 10, 1, 12, tzinfo=UTC)
DAY: Final = timedelta(days=1)
DEFAULT: Final[Mapping[str, str]] = {}
TOTAL: Final = {"lat_percentiles": "1", "clat_percentiles": "0"}
NO_TOTAL: Final = {"disable_lat": "1"}
NO_COMPLETION: Final = {"disable_clat": "1"}
SUBMISSION_NS: Final = 114_000
COMPLETION_NS: Final = 200_000


def make_output(options: Mapping[str, str], *, iops: float, slower: float = 1.0) -> str:
    """Return what fio 3.33 prints of one job with these options; slower: factor of its latencies."""

    def describe(mean: float, *, is_measured: bool, has_percentiles: bool) -> dict[str, Any]:
        mean = mean * slower if is_measured else 0.0
        latency = {"min": int(mean / 2), "max": int(mean * 9), "mean": mean, "stddev": mean / 4}
        latency["N"] = 60_000 if is_measured else 0
        if has_percentiles and is_measured:
            shares = {"50.000000": 1, "95.000000": 2, "99.000000": 3, "99.900000": 5}
            latency["percentile"] = {percent: int(mean * share) for percent, share in shares.items()}
        return latency

    has_total = options.get("disable_lat") != "1"
    has_completion = options.get("disable_clat") != "1"
    read = {
        "io_bytes": int(iops * 4096 * 30),
        "bw_bytes": int(iops * 4096),
        "bw": int(iops * 4),
        "iops": iops,
        "runtime": 30_000,
        "total_ios": int(iops * 30),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": describe(SUBMISSION_NS, is_measured=True, has_percentiles=False),
        "clat_ns": describe(
            COMPLETION_NS,
            is_measured=has_completion,
            has_percentiles=options.get("clat_percentiles") != "0",
        ),
        "lat_ns": describe(
            SUBMISSION_NS + COMPLETION_NS,
            is_measured=has_total,
            has_percentiles=options.get("lat_percentiles") == "1",
        ),
    }
    job = {"rw": "randread", "bs": "4k", "iodepth": "1", "ioengine": "libaio", "size": "1G", "runtime": "30"}
    document = {
        "fio version": "fio-3.33",
        "timestamp": 1_790_000_000,
        "jobs": [
            {
                "jobname": "a",
                "groupid": 0,
                "error": 0,
                "job options": {"name": "a", **job, **options},
                "job_runtime": 30_000,
                "read": read,
            }
        ],
    }
    return json.dumps(document)


def measure(host: Host, days: Iterable[int], options: Mapping[str, str], *, slower: float = 1.0) -> None:
    """Post a run a day, with a noise of 2 %, and evaluate each, as the workers do."""
    for day in days:
        noise = 1 + 0.02 * random.Random(day).uniform(-1, 1)
        iops = 3000.0 * noise / (1 if slower == 1 else slower)
        started_at = START + day * DAY
        envelope = make_envelope(
            fio_output=make_output(options, iops=iops, slower=slower / noise),
            started_at=started_at.isoformat(),
            finished_at=(started_at + timedelta(seconds=30)).isoformat(),
        )
        submission = IncomingSubmission(
            host.pk, Kind.ENVELOPE, json.dumps(envelope).encode(), UUID(envelope["id"])
        )
        accept_submission(submission, now=started_at + timedelta(minutes=1))
        normalize_batch()
        judge_due()


@pytest.fixture
def host() -> Host:
    return make_host("db-1")


def list_levels(metric: str) -> list[tuple[int, int, str]]:
    """Return day of the first run, number of runs and kind of each level of the only series."""
    levels = Level.objects.filter(metric=metric).order_by("from_at")
    return [((level.from_at - START).days, level.n, level.latency_kind) for level in levels]


@pytest.mark.parametrize(
    ("options", "metric", "levels"),
    [
        (TOTAL, "latency_p99_ns", [(0, 20, "clat"), (20, 12, "lat")]),
        (TOTAL, "latency_p50_ns", [(0, 20, "clat"), (20, 12, "lat")]),
        (TOTAL, "latency_mean_ns", [(0, 32, "lat")]),
        (NO_TOTAL, "latency_mean_ns", [(0, 20, "lat"), (20, 12, "clat")]),
        (NO_TOTAL, "latency_max_ns", [(0, 20, "lat"), (20, 12, "clat")]),
        (NO_TOTAL, "latency_p99_ns", [(0, 32, "clat")]),
        (NO_COMPLETION, "latency_p99_ns", [(0, 20, "clat")]),
    ],
)
def test_switch_of_the_kind_begins_a_level_and_is_no_change(host, options, metric, levels) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, range(20, 32), options)

    assert list_levels(metric) == levels
    assert list_levels("iops") == [(0, 32, "")]
    assert not Change.objects.exists()
    assert Series.objects.count() == 1


def test_regression_after_the_switch_is_found_among_values_of_its_kind(host) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, range(20, 32), TOTAL)
    measure(host, range(32, 40), TOTAL, slower=1.57)

    changes = {change.metric: change for change in Change.objects.exclude(state=ChangeState.WITHDRAWN)}
    assert changes["latency_p99_ns"].relative == pytest.approx(0.57, abs=0.03)
    assert (changes["latency_p99_ns"].started_at - START).days == 32
    # The history of IOPS is one: of 32 runs before, and not of the 12 since the switch.
    assert (changes["iops"].before_n, changes["latency_p99_ns"].before_n) == (32, 12)
    assert Incident.objects.count() == 1


def test_kinds_that_alternate_open_nothing(host) -> None:
    for day in range(30):
        measure(host, [day], TOTAL if day % 2 else DEFAULT)

    assert not Change.objects.exists()
    # Of the kind of the newest run; the first run came before the first of this kind.
    assert list_levels("latency_p99_ns") == [(0, 1, "clat"), (1, 15, "lat")]


def test_one_run_of_another_kind_does_not_end_the_level(host) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, [20], TOTAL)
    measure(host, range(21, 28), DEFAULT)

    assert list_levels("latency_p99_ns") == [(0, 27, "clat")]
    assert not Change.objects.exists()


def test_open_regression_is_kept_by_a_switch(host) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, range(20, 28), DEFAULT, slower=1.57)
    incident = Incident.objects.get()

    measure(host, range(28, 40), TOTAL, slower=1.57)

    states = set(Change.objects.filter(metric="latency_p99_ns").values_list("state", flat=True))
    assert states == {ChangeState.CONFIRMED}
    assert Incident.objects.get() == incident
    assert list_levels("latency_p99_ns") == [(0, 20, "clat"), (20, 8, "clat"), (28, 12, "lat")]


def ask_gate(host: Host, **query: str) -> list[tuple[Any, ...]]:
    token = make_token(Scope.INGEST, host=host)[1]
    client = Client(headers={"Authorization": f"Bearer {token}"})
    run = Run.objects.latest("started_at")
    query = {"metric": "iops,latency_p99_ns", **query}
    rows = client.get(f"/api/v1/runs/{run.pk}/gate", query).json()["rows"]
    names = ("metric", "outcome", "reason", "latency_kind", "baseline_latency_kind", "change", "baseline_n")
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("baseline", ["accepted", "2026-10-01.."])
def test_gate_does_not_compare_kinds(host, baseline) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, [20], TOTAL)

    iops, p99 = ask_gate(host, baseline=baseline)

    assert (iops[1], iops[-1]) == ("passed", 20)
    assert p99 == ("latency_p99_ns", "undecided", "other-kind", "lat", "clat", None, 0)


@pytest.mark.parametrize("baseline", ["accepted", "2026-10-01.."])
def test_gate_compares_with_runs_of_its_kind(host, baseline) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, range(20, 32), TOTAL)
    measure(host, [32], TOTAL, slower=1.57)

    iops, p99 = ask_gate(host, baseline=baseline)

    assert iops[1] == "regressed"
    assert p99[:5] == ("latency_p99_ns", "regressed", "", "lat", "lat")
    assert (p99[5], p99[6]) == (pytest.approx(0.57, abs=0.06), 12)


@pytest.fixture
def switched(host) -> Series:
    measure(host, range(20), DEFAULT)
    measure(host, range(20, 32), TOTAL)
    return Series.objects.get()


def read(path: str, **query: Any) -> Page:
    return Page(sign_in().get(path, query, follow=True))


def test_pages_of_a_series_name_the_kind_and_what_is_not_compared(switched) -> None:
    sentence = "Total latency (lat) since 21 Oct 2026; completion latency (clat) before is not compared."

    words = read(f"/series/{switched.pk}/", metric="latency_p99_ns").words

    assert sentence in words
    assert "Was " not in words
    assert sentence in read("/history/", series=switched.pk, metric="latency_p99_ns").words
    # Of the charts of percentiles below.
    assert read(f"/series/{switched.pk}/", metric="iops").words.count(sentence) == 1


def test_history_has_the_kind_of_each_level(switched) -> None:
    query = {"series": switched.pk, "metrics": "latency_p99_ns"}

    (line,) = sign_in().get("/api/v1/history", query).json()["lines"]

    assert [level["latency_kind"] for level in line["levels"]["latency_p99_ns"]] == ["clat", "lat"]
    assert line["changes"] == []


def test_image_of_a_history_is_drawn_across_a_switch(switched) -> None:
    answer = sign_in().get("/api/v1/charts/history.svg", {"series": switched.pk, "metrics": "latency_p99_ns"})

    assert answer.status_code == 200, answer.content
    assert "total latency (lat)" in answer.content.decode()


@pytest.fixture
def two_kinds(host) -> None:
    measure(host, range(8), DEFAULT)
    measure(make_host("db-2"), range(8), TOTAL)


def test_compare_does_not_compare_kinds(two_kinds) -> None:
    query = {"a": "host:db-1", "b": "host:db-2", "metrics": "iops,latency_p99_ns"}

    answer = sign_in().get("/api/v1/comparison", query).json()
    words = read("/compare/", a="host:db-1", b="host:db-2", metric="latency_p99_ns").words

    assert [pair["metric"] for pair in answer["pairs"]] == ["iops"]
    (other,) = answer["not_compared"]
    assert (other["metric"], other["a_latency_kinds"], other["b_latency_kinds"]) == (
        "latency_p99_ns",
        ["clat"],
        ["lat"],
    )
    assert (
        "Not compared: p99 latency of 1 series, completion latency (clat) against total latency (lat)."
        in words
    )


def test_periods_of_a_series_with_other_kinds_are_not_compared(switched) -> None:
    query = {"a_to": "2026-10-21T00:00:00Z", "b_from": "2026-10-21T00:00:00Z"}

    answer = sign_in().get("/api/v1/comparison", {**query, "metrics": "iops,latency_p99_ns"}).json()

    assert [pair["metric"] for pair in answer["pairs"]] == ["iops"]
    assert [row["metric"] for row in answer["not_compared"]] == ["latency_p99_ns"]


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("/scaling/", {"x": "host", "metric": "latency_p99_ns"}),
        ("/matrix/", {"x": "host", "metric": "latency_p99_ns"}),
        ("/layouts/", {"iops": "100", "pattern": "randread"}),
        ("/history/", {"metric": "latency_p99_ns"}),
    ],
)
def test_charts_of_series_of_two_kinds_say_so(two_kinds, page, query) -> None:
    words = read(page, **query).words

    assert (
        "Two kinds of latency: completion latency (clat) of 1 series, total latency (lat) of 1 series."
        in words
    )
    assert "Two kinds of latency" not in read(page, **query, q="host:db-1").words


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ({"q": "kernel:6.1*"}, 24),
        ({"q": "label.rack:r1"}, 24),
        ({"to": "2026-10-16T00:00:00Z"}, 15),
        ({}, 24),
    ],
)
def test_number_of_a_series_has_one_kind(host, query, n) -> None:
    measure(host, range(20), DEFAULT)
    measure(host, [10], TOTAL, slower=3)
    measure(host, range(20, 24), DEFAULT)

    (cell,) = sign_in().get("/api/v1/matrix", {"metric": "latency_p99_ns", **query}).json()["cells"]

    assert cell["n"] == n


def test_detection_report_states_what_is_not_compared(switched) -> None:
    path = f"/api/v1/series/{switched.pk}/detection"

    now = sign_in().get(path, {"metric": "latency_p99_ns"}).json()
    earlier = (
        sign_in()
        .get(path, {"metric": "latency_p99_ns", "until": "2026-10-11T00:00:00Z", "dry_run": "1"})
        .json()
    )

    reason = (
        "The values are total latency (lat), as in the newest run: 20 runs with completion latency (clat) are not"
        " compared."
    )
    assert reason in now["why_not"]
    assert (len(now["inputs"]), now["without_value"], len(earlier["inputs"])) == (12, 0, 10)
    assert not any("not compared" in each for each in earlier["why_not"])
