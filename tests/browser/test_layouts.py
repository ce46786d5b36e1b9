"""Choose a layout: a requirement with a known answer, and one that no layout meets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone

from benchapp.models import Host, Measurement, Price, Run, Series, Submission
from tests.browser.watch import Watched
from tests.browser.world import World
from tests.factories import make_price
from tests.planted_layouts import plant_layouts

Visit = Callable[..., Watched]


@pytest.fixture(scope="module")
def planted(world: World, django_db_blocker: Any) -> Iterator[None]:
    """Add the layouts of tests/planted_layouts.py; the world has the prices of gp3 and of the instance."""
    with django_db_blocker.unblock():
        plant_layouts(started_at=timezone.now(), has_prices=False)
        io2 = make_price(volume_type="io2", per_gib_month=0.125, per_iops_month=0.065)
        host = Host.objects.get(name="db-layouts")
    yield
    with django_db_blocker.unblock():
        Measurement.objects.filter(run__host=host).delete()
        Series.objects.filter(host=host).delete()
        Run.objects.filter(host=host).delete()
        Submission.objects.filter(host=host).delete()
        host.delete()
        Price.objects.filter(pk=io2.pk).delete()


def test_cheapest_layout_for_a_requirement_is_found_and_none_for_a_larger_one(
    visit: Visit, planted: None
) -> None:
    watched = visit("/layouts/", width=1440)
    page = watched.page
    page.get_by_label("IOPS, at least").fill("20000")
    page.get_by_label("p99 latency, ms at most").fill("3")
    page.get_by_label("Capacity, GB at least").fill("1000")
    page.get_by_label("Block size").fill("4k")
    page.get_by_label("Data from").fill("host:db-layouts")
    page.get_by_role("button", name="Rank layouts").click()

    page.wait_for_selector(".chart-box[data-drawn]")
    assert "8 × gp3 128 GiB" in page.inner_text("h1")
    assert "for USD 643 per month" in page.inner_text("h1")
    assert page.locator("section[aria-labelledby=layouts-ranking] tbody tr").count() == 2
    page.get_by_text("3 layouts miss the requirement, closest first").click()
    assert page.locator("#layouts-ranking-missed").is_visible()
    assert "no price of volume type local" in page.inner_text("section[aria-labelledby=layouts-unpriced]")
    assert "Nothing to measure" in page.inner_text("section[aria-labelledby=next-runs]")
    box = page.locator(".chart-box")
    box.focus()
    box.press("ArrowRight")
    page.wait_for_selector(".chart-readout:has-text('per month')")
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)

    page.locator(".scope a", has_text="20000").click()
    page.get_by_label("IOPS, at least").fill("500000")
    page.get_by_role("button", name="Rank layouts").click()
    page.wait_for_selector("h1:has-text('No measured layout meets the requirement')")
    assert "Closest miss:" in page.inner_text("main")
    assert page.get_by_label("Data from").input_value() == "host:db-layouts"
    assert watched.complaints == []
    assert watched.violations() == []
