"""A real headless Chromium against a real web process, on the test database.

The rows are committed once for this folder and removed after it: a page in a browser cannot see a transaction.
"""

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from benchapp.operation.embedded.child import spawn, stop, wait_until
from tests.browser.tabs import Tabs
from tests.browser.watch import PATIENCE_MS, Watched, watch
from tests.browser.world import PASSWORD, World, make_world
from tests.ports import find_free_port

ROOT = Path(__file__).parents[2]
# The first has no windows, tabs and extensions, and takes half of the CPU time of the others.
COMMANDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, COMMANDS)), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Each page compiles axe again: optimized code takes more time to make than it saves.
    "--js-flags=--no-maglev --no-turbofan",
    # Whatever Chromium would ask of another machine is not found, before anything is sent.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder, and skip it with a reason where it cannot run."""
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        # As text: all tests of the run are looked at, and few lie here.
        if not str(item.path).startswith(folder):
            continue
        item.add_marker(pytest.mark.browser)
        # For the test database to be made; the tests themselves ask over HTTP.
        item.add_marker(pytest.mark.django_db)
        if CHROMIUM is None:
            item.add_marker(pytest.mark.skip(reason="no Chromium: apt-get install chromium-headless-shell"))


@pytest.fixture(scope="package")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """Give the rows that the pages show."""
    # Playwright keeps an event loop in this thread, which Django takes for an asynchronous program.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with django_db_blocker.unblock():
        made = make_world()
    yield made
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="package")
def server(world: World, collected: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the web process as compose does; return its address."""
    log = tmp_path_factory.mktemp("web") / "web.log"
    port = find_free_port()
    argv = [
        sys.executable,
        "-m",
        "granian",
        "--interface",
        "asginl",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    argv += ["--workers", "1", "--no-ws", "benchapp.asgi:application"]
    database = (
        urlsplit(os.environ["DATABASE_URL"])
        ._replace(path=f"/{settings.DATABASES['default']['NAME']}")
        .geturl()
    )
    env = os.environ | {
        "DATABASE_URL": database,
        "BENCHAPP_ROLE": "web",
        "BENCHAPP_STATIC_ROOT": str(collected),
        "PYTHONPATH": f"{ROOT}:{os.environ['PYTHONPATH']}",
    }
    process = spawn(argv, log=log, account=None, env=env, cwd=ROOT)
    wait_until(lambda: _listens(port), process, name="web", log=log, timeout_s=180)
    yield f"http://127.0.0.1:{port}"
    stop(process)


@pytest.fixture(scope="package")
def browser(server: str) -> Iterator[Any]:
    """Start Chromium."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
        # Beside a running loop Django keeps connections of its own, which nobody would find after it.
        connections.close_all()


@pytest.fixture(scope="package")
def signed_in(browser: Any, server: str, world: World) -> Any:
    """Return the cookies of the admin, got by the sign-in page."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{server}/sign-in/")
    page.get_by_label("User name").fill(world.admin)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{server}/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="package")
def tabs(browser: Any, server: str) -> Tabs:
    """Give the tabs of the browser."""
    return Tabs(browser, server)


@pytest.fixture
def visit(tabs: Tabs, signed_in: Any) -> Iterator[Callable[..., Watched]]:
    """Open pages, as the admin unless told otherwise, and watch what goes wrong on them."""

    def open_page(
        path: str,
        *,
        is_stranger: bool = False,
        width: int = 1440,
        color_scheme: str = "light",
        **options: Any,
    ) -> Watched:
        cookies = [] if is_stranger else signed_in["cookies"]
        watched = watch(tabs.open(cookies, width=width, color_scheme=color_scheme, **options))
        watched.page.goto(path)
        return watched

    yield open_page
    tabs.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
