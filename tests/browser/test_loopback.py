"""Chromium is kept on this machine as well: the guard of the tests (tests/network.py) sees only Python."""

from typing import Any
from urllib.parse import urlsplit

import pytest


def test_addresses_other_than_the_server_are_not_found(browser: Any, server: str) -> None:
    from playwright.sync_api import Error

    page = browser.new_page()

    # Also of this machine, so that nothing leaves it where the rule is missing: the port would refuse it then.
    with pytest.raises(Error, match="ERR_NAME_NOT_RESOLVED"):
        page.goto(f"http://127.0.0.2:{urlsplit(server).port}/")

    page.close()
