"""Take the screenshots of README.md in docs/img from a running server, in headless Chromium.

    python docs/take_screenshots.py http://127.0.0.1:8000 --user ada      (asks for the password; or BENCHAPP_PASSWORD)
    python docs/take_screenshots.py http://127.0.0.1:8000                 (where BENCHAPP_PUBLIC_READ is on)

The screenshots show the scaling page with default settings, for which the sample has enough (`make up SAMPLE=1`); the
open incident of the most series and the history of one of them, which are skipped where no incident is open.
"""

import argparse
import getpass
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

IMAGES: Final = Path(__file__).parent / "img"
SIZE: Final = {"width": 1200, "height": 720}
# An incident as far as the matrix of its cells.
TALL: Final = 1560
FLAGS: Final = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]


def main() -> int:
    """Take all screenshots; return 1 if the server has no data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="address of a running server")
    parser.add_argument("--user", help="who signs in")
    arguments = parser.parse_args()
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-headless-shell")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        sys.exit("no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport=SIZE, base_url=arguments.server, reduced_motion="reduce")
        if arguments.user:
            _sign_in(page, arguments.user)
        taken = _take_all(page)
        browser.close()
    return 0 if taken else 1


def _sign_in(page: Any, user: str) -> None:
    password = os.environ.get("BENCHAPP_PASSWORD") or getpass.getpass(f"Password of {user}: ")
    page.goto("/sign-in/")
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/sign-in/" not in url)


def _take_all(page: Any) -> bool:
    if not page.request.get("/api/v1/series?limit=1").json()["series"]:
        print("no runs found; load data first", file=sys.stderr)
        return False
    _take(page, "/scaling/", "scaling")
    _take_incident(page)
    return True


def _take_incident(page: Any) -> None:
    """Take the broadest open incident, down to the matrix of its cells, and one of its series."""
    incidents = page.request.get("/api/v1/incidents?tab=open").json()["incidents"]
    if not incidents:
        print("no open incident found; its screenshots are skipped", file=sys.stderr)
        return
    broadest = max(incidents, key=lambda each: each["series_count"])
    page.set_viewport_size(SIZE | {"height": TALL})
    _take(page, broadest["page"], "incident")
    page.set_viewport_size(SIZE)
    # A confirmed change has enough runs after it for a level with a spread.
    confirmed = page.locator(".level-changes tr", has_text="confirmed")
    row = (confirmed if confirmed.count() else page.locator(".level-changes tbody tr")).first
    _take(page, row.locator("th[scope=row] a").get_attribute("href"), "history")


def _take(page: Any, path: str, name: str) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(path)
    if page.query_selector(".chart-box"):
        page.wait_for_selector("[data-drawn]")
    IMAGES.mkdir(exist_ok=True)
    target = IMAGES / f"{name}.png"
    page.screenshot(path=target)
    print(f"{target} {target.stat().st_size / 1000:.0f} KB  {path}")


if __name__ == "__main__":
    sys.exit(main())
