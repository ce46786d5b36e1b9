"""What a document becomes is bounded, whatever its host writes into it: hostile documents, read by people and programs."""

import pytest
from django.test import Client

from benchapp.models import Host, Role, Run, Series, State, Submission, Workload
from benchapp.pipeline.normalize.batch import normalize_batch
from benchapp.pipeline.normalize.plan import bound_options
from benchapp.queries.titles import TITLE_MAXIMUM, describe_target, describe_workload, join_titles
from tests.factories import make_host, make_target, make_workload
from tests.hostile import (
    count_sent_bytes,
    make_long_option,
    make_many_jobs,
    submit,
)
from tests.visitors import sign_in
from tests.web.pages import Page

pytestmark = pytest.mark.django_db

KIB = 1024
MIB = 1024 * KIB


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
