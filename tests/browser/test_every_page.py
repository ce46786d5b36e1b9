"""Every page in both themes and at two widths: nothing complains, nothing sticks out, nobody is shut out."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.tabs import Tabs
from tests.browser.watch import Watched, watch
from tests.browser.world import World

# Pages with a time range.
RANGED = {
    "overview": "/",
    "chart of the overview": "/overview/charts/regressions/",
    "scaling": "/scaling/",
    "matrix": "/matrix/",
    "series": "/series/",
    "runs": "/runs/",
    "history": "{history}",
    "several histories": "/history/",
    "host": "/hosts/db-09/",
    "metric by condition": "/scaling/?x=extents&q=host:db-09",
}
PAGES = {
    "overview": "/",
    "chart of the overview": "/overview/charts/regressions/",
    **{
        f"{page} before any run": f"{path}{'&' if '?' in path else '?'}from=2019-01-01&to=2019-01-31"
        for page, path in RANGED.items()
    },
    **{
        f"{page} as of a past end": f"{RANGED[page]}?from=-90d&to=-1d"
        for page in ("overview", "matrix", "host")
    },
    "host in the future": "/hosts/db-09/?from=%2B1d",
    "search": "/search/?text=db-0",
    "search without results": "/search/?text=zzzzqq",
    "matrix": "/matrix/",
    "matrix of latency": "/matrix/?metric=latency_p99_ns&x=host&q=host:*",
    "matrix that nothing fits": "/matrix/?q=host:nobody",
    "series by a filter": "/series/?q=host:db-*+-volume_type:io2+bs:4k",
    "runs": "/runs/",
    "runs that fit no filter": "/runs/?host=nobody",
    "run": "{run}",
    "failed run": "{failed_run}",
    "hostile run": "{hostile_run}",
    "run with traces": "{traced_run}",
    "report of a run": "{traced_run}report/",
    "series": "/series/",
    "series as a table": "/series/?view=table&group=layout",
    "series of latency": "/series/?metric=latency_p99_ns&group=host&sort=spread",
    "history": "{history}",
    "detection of a series": "{history}detection/",
    "history on a log axis": "{history}?metric=latency_p99_ns&scale=log",
    "several histories": "/history/",
    "hosts": "/hosts/",
    "hosts in groups": "/hosts/?group=pool&sort=-worst",
    "host": "{host}",
    "host with an incident": "/hosts/db-09/",
    "settings of a host": "{host}settings/",
    "preview of a target name": "{host}target-name?scope=host:db-01&pattern=*&target_name=data",
    "requested runs": "/requests/",
    "schedules": "/schedules/",
    "schedules of a pool": "/schedules/scope/?pool=",
    "uploads": "/uploads/",
    "rejected upload": "{rejected}",
    "tokens": "/tokens/",
    "subscriptions": "/subscriptions/",
    "subscription": "{subscription}",
    "unconfirmed subscription": "{unconfirmed}",
    "subscribe": "/subscriptions/add",
    "change a subscription": "{subscription}edit",
    "maintenance": "/maintenance/",
    "past maintenance": "/maintenance/?tab=past&kind=maintenance",
    "one maintenance": "{planned_event}",
    "schedule maintenance": "/maintenance/add?host=cache-07",
    "detection policies": "/policies/",
    "detection policy": "{policy}",
    "new detection policy": "/policies/add?metric=iops&threshold=2",
    "correction": "{correction}",
    "corrections": "/corrections/",
    "new deletion": "/corrections/delete?q=host:db-01",
    "new relabeling": "/corrections/relabel?q=host:db-01",
    "new retention": "/corrections/retention",
    "rename": "/rename?scope=host:db-01&name=web-01",
    "split": "/split?scope=host:db-01",
    "dry run": "{dry_run}",
    "layouts": "/layouts/?iops=1",
    "layouts without a question": "/layouts/",
    "metric by condition": "/scaling/?x=extents&q=host:nobody",
    "experiment": "/experiment/?q=host:db-01&a=rw:randread&b=rw:randwrite&from=2020-01-01",
    "experiment without arms": "/experiment/",
    "prices": "/prices/",
    "add prices": "/prices/add",
    "audit": "/audit/",
    "status": "/status/",
    "people": "/people/",
    "saved views": "/views/",
    "account": "/account/",
    "signed links": "/links/",
    "badges": "/docs/badges",
    "error codes": "/docs/errors",
    "documentation": "/docs/",
    "documentation page": "/docs/operations",
    "API reference": "/docs/api/reference",
    # The shortest with every kind of element.
    "API reference of schedules": "/docs/api/reference/schedules",
    "search of the documentation": "/docs/search?text=level",
    "search that finds nothing": "/docs/search?text=nosuchword",
}
STRANGERS_PAGES = {
    "sign in": "/sign-in/",
    "set-up link": "{invitation}",
    "used link": "/setup/nothing/",
    "used password link": "/reset-password/nothing/",
    "confirmation of an address": "{confirmation}",
    "used confirmation": f"/confirm-address/{'n' * 43}/",
}


def check_everywhere(watched: Watched) -> None:
    """Look at an open page in each theme and at each width; colors do not change what fits into a width."""
    page = watched.page
    for width, scheme in ((1440, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        watched.wait_for_charts()
        where = f"{page.url} at {width} px, {scheme}"
        assert watched.overhang_px() == 0, f"{where} can be scrolled sideways"
        # All rules once: axe takes most of the time of these tests.
        assert watched.barriers(of_looks=width == 390) == [], where
    assert watched.complaints == []
    assert watched.violations() == []


@pytest.fixture(scope="module")
def tab(tabs: Tabs) -> Iterator[Watched]:
    """Open one tab for all pages: Chromium keeps the process, with the scripts that it compiled."""
    watched = watch(tabs.open([], width=1440, color_scheme="light"))
    watched.prepare_barriers()
    yield watched
    tabs.close()


@pytest.fixture
def show(tab: Watched, signed_in: Any) -> Iterator[Callable[..., Watched]]:
    """Show pages in the tab, as the admin unless told otherwise, and forget what they have kept."""

    def show_page(path: str, *, is_stranger: bool = False) -> Watched:
        tab.page.context.clear_cookies()
        tab.page.context.add_cookies([] if is_stranger else signed_in["cookies"])
        tab.page.set_viewport_size({"width": 1440, "height": 900})
        tab.page.emulate_media(color_scheme="light", reduced_motion="reduce")
        tab.complaints.clear()
        tab.page.goto(path)
        return tab

    yield show_page
    tab.page.evaluate("localStorage.clear(); sessionStorage.clear()")


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_page_is_sound(path: str, show: Callable[..., Watched], world: World) -> None:
    check_everywhere(show(path.format_map(vars(world))))


@pytest.mark.parametrize("path", STRANGERS_PAGES.values(), ids=STRANGERS_PAGES)
def test_page_of_strangers_is_sound(path: str, show: Callable[..., Watched], world: World) -> None:
    watched = show(path.format_map(vars(world)), is_stranger=True)
    # The answer to a used link is 410, which the console reports.
    watched.complaints = [said for said in watched.complaints if "410" not in said]

    check_everywhere(watched)


def test_page_that_is_none_is_sound(show: Callable[..., Watched]) -> None:
    watched = show("/runs/999999/")
    watched.complaints = [said for said in watched.complaints if "404" not in said]

    check_everywhere(watched)
