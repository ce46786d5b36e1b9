"""The page Choose a layout."""

import html
import re
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from benchapp.catalog.grammar import TERMS_MAXIMUM, Filter
from benchapp.charts.images.frame import ImageOptions
from benchapp.layouts.image import draw_layouts
from benchapp.layouts.read.question import LayoutQuestion
from benchapp.layouts.read.ranking import rank_layouts
from benchapp.models import Price, Run
from tests.factories import (
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_price,
    make_series,
    make_target,
    make_workload,
)
from tests.pages import Page
from tests.planted_layouts import give_directories, plant_layouts

pytestmark = pytest.mark.django_db
ASKED = "/layouts/?iops=20000&pattern=randread&block_size=4k&p99_ms=3&capacity_gb=1000"


def test_page_without_a_question_has_the_form_and_an_example(viewer: Client) -> None:
    page = Page(viewer.get("/layouts/"))

    assert "Enter a target: IOPS or MB/s." in page.words
    assert "Ranking" not in page.words


def test_answer_is_the_title_with_numbers_links_and_the_closest_miss(viewer: Client) -> None:
    series = plant_layouts(started_at=timezone.now())
    deciding = next(each for each in series if each.volume_size_bytes == 128 * 2**30 and each.iodepth == 32)
    incident = make_incident(changes=[make_change(deciding)])

    response = viewer.get(ASKED)

    words, text = Page(response).words, response.content.decode()
    assert "xfs on 8 × gp3 128 GiB" in words
    assert "meets the requirement for USD 643 per month" in words
    assert "3 of 6 measured layouts meet it, 3 miss it." in words
    assert "Closest miss: xfs on 16 × gp3 64 GiB" in words
    assert "of 20\u202f000 IOPS (−3.3 %)" in words
    assert f'href="/incidents/{incident.pk}/"' in text
    assert f'href="/series/{deciding.pk}/"' in text
    assert "no price of volume type local" in words
    assert "/api/v1/layouts?iops=20000" in text
    # Without the parameter all may vary.
    assert text.count('name="vary"') == text.count("checked") == 5


def test_answer_names_the_load_what_does_not_count_and_what_meets_it_elsewhere(viewer: Client) -> None:
    target = make_target(volume_type="gp3", volume_count=8)
    for number, iops in enumerate((25_000.0, 25_000.0, 9000.0)):
        work = make_workload(file_size_bytes=20 * 2**30)
        series = make_series([iops] * 3, host=make_host(f"db-{number}"), target=target, workload=work)
    incident = make_incident(changes=[make_change(series)])
    for size, is_direct in ((5, True), (5, False)):
        work = make_workload(file_size_bytes=size * 2**30, is_direct=is_direct)
        small = make_target(volume_type="gp3", volume_count=1)
        make_series([90_000.0 if not is_direct else 900.0] * 3, target=small, workload=work)
    calculate_levels()

    words = Page(viewer.get("/layouts/?iops=20000")).words.replace("\u202f", " ")

    assert (
        "1 of 2 measured layouts meet it, 1 misses it." in words or "1 of 2 measured layouts meet it" in words
    )
    assert "Best: 25 000 IOPS, 4k blocks, 20 GiB files, QD 8 × 1 job" in words
    assert "1 series with an open regression not counted; with all series: median only." in words
    doubt = f"only without open regressions (incident {incident.id}); surely: no layout"
    assert f"8 × gp3 meets the requirement {doubt}" in words
    assert (
        "1 layout outside the fixed values meets it: 1 × gp3, 4k blocks, 5 GiB files, buffered I/O" in words
    )
    assert "4 of 5 series: direct I/O." in words


def test_no_layout_with_the_fixed_values_meets_the_requirement(viewer: Client) -> None:
    for iops, is_direct in ((900.0, True), (90_000.0, False)):
        make_series(
            [iops] * 3, host=make_host(), target=make_target(), workload=make_workload(is_direct=is_direct)
        )
    calculate_levels()

    words = Page(viewer.get("/layouts/?iops=20000")).words

    assert "No layout with direct I/O meets the requirement; 1 other layout meets it" in words


def test_no_layout_meets_the_requirement(viewer: Client) -> None:
    plant_layouts()

    words = Page(viewer.get(ASKED.replace("iops=20000", "iops=500000"))).words

    assert "No measured layout meets the requirement" in words
    assert "0 of 6 measured layouts meet it, 6 miss it." in words


def test_without_measurements_or_prices_the_page_says_what_to_do(viewer: Client, editor: Client) -> None:
    words = Page(viewer.get(ASKED)).words
    assert "No measurements of this workload" in words
    assert "No results yet" in words
    plant_layouts(has_prices=False)
    words = Page(viewer.get("/layouts/?iops=1&pattern=write")).words
    assert "Choose another pattern or block size, or a wider filter." in words
    assert "No results yet" not in words

    words = Page(editor.get(ASKED)).words
    assert "layouts are ranked by margin. Add prices" in words
    assert "with the largest margin" in words
    assert (
        "No series of this pattern and block size matches" in Page(viewer.get(f"{ASKED}&q=host:other")).words
    )


def test_page_has_the_price_of_the_volumes_where_that_of_the_instance_is_unknown(viewer: Client) -> None:
    plant_layouts()
    Price.objects.exclude(instance_type="").delete()

    words, usual = (Page(viewer.get(f"{ASKED}{more}")).words for more in ("&price_of=all", ""))

    assert "Prices are of the volumes only." in usual
    assert "price includes Volumes only" in usual
    assert "meets the requirement for USD 81.92 (volumes only) per month" in usual
    assert "5 layouts with the price of the volumes only" not in usual
    assert "meets the requirement for USD 81.92 (volumes only) per month" in words
    assert "5 layouts with the price of the volumes only" in words
    assert "no price of instance type m5.4xlarge" in words


def test_layouts_with_something_required_unknown_are_not_among_those_that_miss(viewer: Client) -> None:
    plant_layouts()
    Price.objects.exclude(instance_type="").delete()

    words = Page(viewer.get(f"{ASKED}&max_price=5000")).words

    assert "0 of 6 measured layouts meet it, 3 miss it, 3 with something required unknown." in words
    assert "May meet the requirement: something required is unknown" in words
    assert "3 layouts have no full price and miss the requirement, closest first" in words


def test_page_has_what_to_measure_next_with_commands_per_host(viewer: Client) -> None:
    # The newest of three runs is two hours later.
    plant_layouts(started_at=timezone.now() - timedelta(days=191))
    missing = Page(viewer.get(ASKED)).words
    give_directories()
    Run.objects.update(
        command={"parameters": {"runtime": 4}}, finished_at=F("started_at") + timedelta(seconds=18)
    )

    words = Page(viewer.get(ASKED)).words
    certain = Page(viewer.get(ASKED.replace("iops=20000", "iops=500000"))).words

    assert "needs a new host or volume" in missing and "bench-agent run" not in missing
    assert "3 runs, 108 s in total." in words
    assert "newest run 190 days ago" in words
    assert "On db-layouts" in words and "3 × 36 s (as earlier runs)" in words
    directories = "/mnt/8-gp3-128,/mnt/1-io2-1024"
    line = f"bench-agent sweep --directories {directories} --profile quick --set runtime=4"
    assert f"for run in $(seq 3); do {line}; done" in words
    assert "Nothing to measure: more runs of these layouts would not change the answer." in certain


def test_form_csv_and_curl_line_ask_the_same_question(viewer: Client) -> None:
    plant_layouts(started_at=timezone.now())
    work = make_workload(block_size_bytes=65_536, is_direct=False)
    other = make_series([1000.0], target=make_target(filesystem="ext4"), workload=work)
    calculate_levels([other.pk])
    submitted = (
        "iops=20000&mb_per_s=&p99_ms=3.5&pattern=randread&block_size=&vary=volume_type&vary=volume_count&q="
    )

    page = viewer.get(f"/layouts/?{submitted}")
    text = html.unescape(page.content.decode())
    query = re.search(r'href="/api/v1/layouts\?(.*)&format=csv"', text)[1]  # type: ignore[index]
    answer = viewer.get(f"/api/v1/layouts?{query}")
    again = viewer.get(f"/layouts/?{query}")

    assert query.startswith("iops=20000&p99_ms=3.5&vary=volume_type,volume_count")
    assert f"/api/v1/layouts?{query}'" in text
    assert (page.status_code, answer.status_code, again.status_code) == (200, 200, 200)
    assert [row["title"] for row in answer.json()["layouts"]] == [
        row.layout.title for row in page.context["ranking"].all_rows
    ]
    assert again.content.decode().count("checked") == 2
    # Every link to any value of a fixed dimension is valid.
    links = [url for _, _, url in page.context["figure"]["fixed"]]
    assert links
    assert {viewer.get(url).status_code for url in links} == {200}


def test_region_of_the_address_must_have_prices(viewer: Client) -> None:
    make_price(region="eu")

    known, unknown = (viewer.get(f"/layouts/?iops=1&region={region}") for region in ("EU", "mars"))

    assert (known.status_code, unknown.status_code) == (200, 400)
    assert known.context["ranking"].region == "eu"
    assert "Available: eu." in Page(unknown).words


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("p99_ms=3", "Enter a target: IOPS or MB/s."),
        ("iops=-5", "greater than or equal to 0.001"),
        ("iops=1&block_size=big", "big"),
        ("iops=1&q=host:", "host"),
        # The question adds terms to those of the filter.
        (f"iops=1&q={'+'.join(f'host:h{place}' for place in range(TERMS_MAXIMUM))}", "at most"),
        ("iops=1&pattern=backwards", "Select a valid choice"),
    ],
)
def test_invalid_field_is_explained(query: str, error: str, viewer: Client) -> None:
    response = viewer.get(f"/layouts/?{query}")

    assert response.status_code == 400
    assert error in Page(response).words


def test_mix_counts_as_measured_and_the_address_of_an_estimate_still_works(viewer: Client) -> None:
    pure, mixed = (make_target(volume_type=name, volume_count=1) for name in ("io1", "gp3"))
    for target, rw, direction, share, iops in (
        (pure, "randread", "read", 100, 40_000.0),
        (pure, "randwrite", "write", 0, 40_000.0),
        (mixed, "randrw", "read", 70, 7000.0),
        (mixed, "randrw", "write", 70, 3000.0),
    ):
        work = make_workload(rw=rw, read_share_percent=share)
        make_series([iops] * 3, target=target, workload=work, direction=direction)
    calculate_levels()

    response = viewer.get("/layouts/?iops=9000&pattern=randrw&read_share=70&mixes=interpolated")

    words, text = Page(response).words.replace("\u202f", " "), html.unescape(response.content.decode())
    assert "Required: 9 000 IOPS, random mixed, 70 % reads." in words
    assert "1 of 1 measured layout meet it." in words
    assert "Best: 10 000 IOPS" in words
    # The API refuses parameters that it does not know.
    (query,) = set(re.findall(r'"/api/v1/layouts\?(.*?)&format=csv"', text))
    assert query == "iops=9000&pattern=randrw&read_share=70"


def test_image_with_prices_names_the_block_size_of_the_question() -> None:
    plant_layouts()
    ranking = rank_layouts(LayoutQuestion(Filter(), iops=15_000, block_size="4k"))

    image = draw_layouts(ranking, ImageOptions("svg")).decode()

    assert ranking.currency
    assert "block_size_bytes" in image
