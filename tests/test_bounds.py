"""What a document becomes is bounded, whatever its host writes into it: hostile documents, read by everybody."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.charts.read.comparison_sides import list_environment_differences
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.plan import bound_options
from benchapp.intake.posts.envelope import BadEnvelope, type_envelope
from benchapp.intake.posts.submissions import retry_submission
from benchapp.models import Host, Kind, Role, Run, Series, State, Submission, Workload
from benchapp.series.read import points
from benchapp.series.read.dimension_values import list_label_names
from benchapp.series.read.runs import list_profiles
from benchapp.series.read.titles import TITLE_MAXIMUM, describe_target, describe_workload, join_titles
from tests.access_table import TABLE
from tests.envelopes import make_envelope
from tests.factories import (
    NOON,
    make_change,
    make_environment,
    make_host,
    make_incident,
    make_run,
    make_series,
    make_target,
    make_workload,
)
from tests.hostile import (
    LATENCY,
    count_sent_bytes,
    make_job,
    make_long_option,
    make_longest_envelope,
    make_many_jobs,
    make_report,
    submit,
)
from tests.pages import Page
from tests.test_access import make_parts
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db

KIB = 1024
# Raw outputs as they were sent, and a stream of all rows.
WHOLE = {
    "runs/<int:run_id>/output",
    "api/v1/runs/<int:run_id>/output",
    "uploads/<uuid:submission_id>/raw",
    "api/v1/submissions/<uuid:submission_id>/raw",
    "api/v1/points",
}


@pytest.fixture
def host() -> Host:
    return make_host("db-1")


@pytest.fixture
def viewer() -> Client:
    return sign_in(Role.VIEWER)


def store(host: Host, *bodies: bytes) -> list[Submission]:
    """Submit documents and process them; return the submissions."""
    ids = [submit(host, body) for body in bodies]
    while normalize_batch().claimed:
        pass
    rows = Submission.objects.in_bulk(ids)
    return [rows[each] for each in ids]


def store_run(host: Host, body: bytes) -> Run:
    """Store a document with one run."""
    (row,) = store(host, body)
    assert (row.state, row.reason) == (State.STORED, "")
    return Run.objects.get(submission=row)


def test_options_within_the_bounds_are_unchanged() -> None:
    usual = {f"option_{number:02}": "v" * 200 for number in range(64)}

    assert bound_options(usual) == usual


def test_further_options_and_the_end_of_a_long_one_are_a_digest_that_keeps_workloads_apart() -> None:
    many = {f"option_{number:03}": "v" for number in range(100)}

    bounded = bound_options(many)
    others = [bound_options({**many, "option_099": "w"}), bound_options({"name": "x" * 1000})]

    assert list(bounded) == [*list(many)[:64], "more options"]
    assert bounded["more options"].startswith("36 of ")
    assert bounded != others[0]
    assert len(others[1]["name"]) == 200
    assert others[1] != bound_options({"name": "x" * 1001})
    assert [len(name) for name in bound_options({"n" * 1000: "1"})] == [200]


def test_titles_have_at_most_300_characters() -> None:
    workload = make_workload(options={f"option_{number}": "v" * 200 for number in range(64)})
    target = make_target(
        target_name="n" * 200, volume_type="v" * 100, filesystem="f" * 50, instance_type="i" * 100
    )

    titles = [describe_workload(workload), describe_target(target)]

    assert [len(title) for title in [*titles, join_titles(*titles)]] == [TITLE_MAXIMUM] * 3
    assert titles[0].startswith("4k random read")
    assert titles[0].endswith("…")


def test_long_options_of_one_host_leave_the_pages_of_everybody_small(host: Host, viewer: Client) -> None:
    bodies = [make_long_option(number, 1_000_000) for number in range(22)]
    assert max(map(count_sent_bytes, bodies)) < 40 * KIB

    store(host, *bodies)

    run, series = Run.objects.order_by("pk")[0], Series.objects.order_by("pk")[0]
    addresses = ("/series/", "/history/", f"/runs/{run.pk}/", f"/series/{series.pk}/", "/api/v1/series")
    sizes = {address: len(viewer.get(address).content) for address in addresses}
    assert Series.objects.count() == 22
    assert {address: size for address, size in sizes.items() if size > 200 * KIB} == {}
    assert max(len(str(workload.options)) for workload in Workload.objects.all()) < KIB


def test_run_page_shows_200_measurements_and_counts_the_others(host: Host, viewer: Client) -> None:
    run = store_run(host, make_many_jobs(450))

    pages = [Page(viewer.get(f"/runs/{run.pk}/?position={start}")) for start in (0, 200, 400, 600)]

    texts = [
        "Measurements 1 to 200 of 450",
        "Measurements 201 to 400 of 450",
        "Measurements 401 to 450 of 450",
    ]
    assert [text in page.words for text, page in zip(texts, pages, strict=False)] == [True] * 3
    assert "No more measurements" in pages[3].words
    assert "?position=200" in pages[0].links
    assert {"?position=0", "?position=400"} <= set(pages[1].links)
    assert "and 448 more" in pages[0].words
    assert viewer.get(f"/runs/{run.pk}/table.csv").content.count(b"\r\n") == 451


def test_api_answers_200_measurements_of_a_run_at_a_time(host: Host, viewer: Client) -> None:
    run = store_run(host, make_many_jobs(450))

    address, parts = f"/api/v1/runs/{run.pk}", []
    while address:
        answer = viewer.get(address)
        parts.append(answer.json())
        address = parts[-1]["next"]

    assert [(part["position"], len(part["measurements"])) for part in parts] == [
        (0, 200),
        (200, 200),
        (400, 50),
    ]
    assert [part["measurement_count"] for part in parts] == [450] * 3
    positions = [row["position"] for part in parts for row in part["measurements"]]
    assert positions == list(range(450))
    assert viewer.get(f"/api/v1/runs/{run.pk}")["Link"] == f'</api/v1/runs/{run.pk}?position=200>; rel="next"'


def test_gate_of_a_run_with_many_series_has_pages_of_rows(host: Host, viewer: Client) -> None:
    run = store_run(host, make_many_jobs(600))

    answers = [
        viewer.get(f"/api/v1/runs/{run.pk}/gate", {"position": start}).json() for start in (0, 500, 1000)
    ]
    lines = viewer.get(f"/api/v1/runs/{run.pk}/gate?format=csv").content.count(b"\r\n")

    parts = [(answer["position"], len(answer["rows"]), answer["next_position"]) for answer in answers]
    assert parts == [(0, 500, 500), (500, 500, 1000), (1000, 200, None)]
    assert {answer["tests"] for answer in answers} == {1200}
    assert {answer["outcome"] for answer in answers} == {"undecided"}
    assert (answers[0]["next"], answers[2]["next"]) == (f"/api/v1/runs/{run.pk}/gate?position=500", None)
    assert lines == 1201


def test_environments_of_two_sides_differ_in_at_most_200_named_fields_and_20_values() -> None:
    facts = {f"fact-{number:03}": "x" * 300 for number in range(250)}
    sides = [make_environment(kernel=f"6.{number:02}", facts={}) for number in range(25)]
    other = make_environment(kernel="7", facts=facts)

    found = list_environment_differences({row.pk: 1 for row in sides}, {other.pk: 1})

    assert (len(found), found[-1].name) == (201, "… and 51 more")
    kernel = next(difference for difference in found if difference.name == "kernel")
    assert kernel.a == (*(f"6.{number:02}" for number in range(20)), "… and 5 more")
    assert {len(value) for difference in found[1:-1] for value in difference.b} == {200}


def test_table_has_60_percentiles_and_counts_the_others(host: Host, viewer: Client) -> None:
    def make(number: int, count: int) -> dict[str, Any]:
        job = {**make_job(f"job {number}", rate_iops=str(number + 1)), "groupid": number}
        percentiles = {f"{number * 10 + place}.5": 1000 + place for place in range(count)}
        return {**job, "read": {**job["read"], "clat_ns": {**LATENCY, "percentile": percentiles}}}

    run = store_run(host, make_report([make(number, 10) for number in range(10)]))
    too_many = store_run(host, make_report([make(0, 21)]))

    assert "40 less common percentiles are in the API only." in Page(viewer.get(f"/runs/{run.pk}/")).words
    table = viewer.get(f"/runs/{run.pk}/table.csv")
    assert table.content.split(b"\r\n")[0].count(b".5_ns") == 60
    assert table["X-Omitted-Columns"] == "40"
    (measurement,) = too_many.measurements.all()
    assert (measurement.percentiles, measurement.missing["percentiles"]) == ({}, "not-reported")


def test_export_forgets_environments_and_has_the_same_rows(
    host: Host, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        submit(host, json.dumps(make_envelope(environment={"kernel": f"6.{number}"})).encode(), Kind.ENVELOPE)
    while normalize_batch().claimed:
        pass
    address = "/api/v1/points?fields=run,series,host,kernel&sort=started_at"
    before = json.loads(viewer.get(address).getvalue())

    monkeypatch.setattr(points, "_KNOWN_MAXIMUM", 0)
    monkeypatch.setattr(points, "_BATCH_ROWS", 1)

    assert json.loads(viewer.get(address).getvalue()) == before
    assert {row["kernel"] for row in before["points"]} == {f"6.{number}" for number in range(4)}


def test_list_page_ends_before_2_mb_with_the_cursor_of_its_last_row(host: Host, viewer: Client) -> None:
    options = {f"option_{number:02}": "x" * 200 for number in range(64)}
    store(
        host,
        make_report([make_job(str(number), **options, rate_iops=str(number + 1)) for number in range(200)]),
    )

    cursor, ids, sizes = "", [], []
    while cursor is not None:
        answer = viewer.get("/api/v1/series", {"limit": "1000", **({"cursor": cursor} if cursor else {})})
        page = answer.json()
        ids += [row["id"] for row in page["series"]]
        sizes.append(len(answer.content))
        cursor = page["next_cursor"]

    assert len(ids) == len(set(ids)) == 200
    assert len(sizes) == 2
    assert 1_900_000 < sizes[0] < 2_010_000


def test_result_with_more_than_10_000_measurements_is_rejected(host: Host) -> None:
    (row,) = store(host, make_many_jobs(10_001))

    assert (row.state, row.reason_code) == (State.REJECTED, "too-many-measurements")
    assert "more than 10000 measurements" in row.reason
    assert not Series.objects.exists()


def test_host_may_add_a_number_of_series_per_day(
    host: Host, viewer: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HOST_NEW_SERIES_PER_DAY = 10
    other = make_host("db-2")

    stored, refused, known = store(host, make_many_jobs(8), make_many_jobs(12), make_many_jobs(6))
    (of_other,) = store(other, make_many_jobs(9))

    states = [row.state for row in (stored, refused, known, of_other)]
    assert states == [State.STORED, State.REJECTED, State.STORED, State.STORED]
    assert refused.reason_code == "too-many-series"
    assert (
        "the result has 4 new series; this host may add 2 more until midnight UTC (10 per day"
        in refused.reason
    )
    assert "New series today8 of 10" in Page(viewer.get("/hosts/db-1/")).words
    answer = viewer.get("/api/v1/hosts/db-1").json()
    assert (answer["new_series_today"], answer["new_series_per_day"]) == (8, 10)
    assert Series.objects.filter(scope="host:db-1").count() == 8

    Host.objects.filter(pk=host.pk).update(new_series_on=timezone.now().date() - timedelta(days=1))
    assert retry_submission(refused.pk)
    while normalize_batch().claimed:
        pass

    host.refresh_from_db()
    assert Submission.objects.get(pk=refused.pk).state == State.STORED
    assert host.new_series_count == 4
    assert viewer.get("/api/v1/hosts/db-2").json()["new_series_today"] == 9


def test_body_whose_runs_repeat_too_much_is_rejected(host: Host) -> None:
    envelope = json.loads(make_longest_envelope(jobs=1))
    envelope["fio_output"] = b"".join(
        make_report([make_job(f"job {number}")]) for number in range(200)
    ).decode()

    submission_id = submit(host, json.dumps(envelope).encode(), Kind.ENVELOPE)
    normalize_batch()

    row = Submission.objects.get(pk=submission_id)
    assert (row.state, row.reason_code) == (State.REJECTED, "too-many-reports")
    assert "200 reports, whose runs would each repeat" in row.reason


def test_names_of_facts_have_at_most_200_characters() -> None:
    with pytest.raises(BadEnvelope, match="a name must have at most 200 characters"):
        type_envelope(make_envelope(environment={"n" * 201: "1"}))


@pytest.mark.parametrize("part", ["conditions", "environment", "parameters", "command"])
def test_free_parts_of_an_envelope_have_at_most_64_kib(part: str) -> None:
    long = {f"fact-{number}": "x" * 4000 for number in range(17)}
    given = {"command": {"argv": list(long.values())}, "environment": {"facts": long}}.get(part, long)

    with pytest.raises(BadEnvelope, match="bytes of JSON exceed the maximum of 65536"):
        type_envelope(make_envelope(**{part: given}))


def test_names_that_hosts_chose_are_listed_up_to_a_number(host: Host) -> None:
    for number in range(201):
        make_run(host, profile=f"p{number:03}")
    make_run(host, profile="", labels={f"{number:03}": "x" for number in range(501)})
    make_run(host, profile="", labels={"zone": "a", "500": "x"})
    make_run(host, profile="", labels={"zone": "b"})

    labels = list_label_names()

    assert list_profiles() == tuple(f"p{number:03}" for number in range(200))
    # The most frequent ones.
    assert labels == (*(f"{number:03}" for number in range(498)), "500", "zone")


def test_all_changes_of_an_incident_are_at_most_1000(viewer: Client) -> None:
    change = make_change(make_series([1.0]))
    incident = make_incident(changes=[change])
    change.refresh_from_db()
    for number in range(1, 1001):
        change.pk, change.started_at = None, NOON - timedelta(minutes=number)
        change.save(force_insert=True)

    page = Page(viewer.get(f"/incidents/{incident.pk}/"))
    longest = Page(viewer.get(f"/incidents/{incident.pk}/?changes=all"))

    assert "Show 1\u202f000 of 1\u202f001 changes" in page.words
    assert "1\u202f000 of 1\u202f001 changes. Show 10 only" in longest.words


def test_longest_documents_leave_every_answer_small() -> None:
    parts = make_parts()
    host = make_host("db-1")
    for number in range(3):
        submit(host, make_longest_envelope(number, jobs=30), Kind.ENVELOPE)
    while normalize_batch().claimed:
        pass
    run = Run.objects.filter(host=host).latest("pk")
    series = Series.objects.filter(scope="host:db-1").latest("pk")
    parts |= {"name": host.name, "run_id": run.pk, "series_id": series.pk, "submission_id": run.submission_id}
    admin = sign_in(Role.ADMIN)

    sizes, titles = {}, {}
    for route, rows in TABLE.items():
        if route in WHOLE or not any(row.method == "GET" for row in rows):
            continue
        answer = admin.get("/" + re.sub(r"<\w+:(\w+)>", lambda match: str(parts[match[1]]), route))
        sizes[route] = len(answer.getvalue() if answer.streaming else answer.content)
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            texts = re.findall(r"<(?:title|h1)[^>]*>(.*?)</", unescape(answer.text), re.S)
            titles[route] = max(map(len, texts), default=0)

    assert Run.objects.filter(host=host).count() == 3
    assert {route: size for route, size in sizes.items() if size > 2_000_000} == {}
    assert {route: length for route, length in titles.items() if length > TITLE_MAXIMUM + 20} == {}
