"""Addresses that are secrets are not among the recent pages of a browser."""

import re
from pathlib import Path

from benchapp.overview.pages.urls import urlpatterns

RECENT = Path(__file__).parents[3] / "static" / "js" / "site" / "recent.js"


def test_every_address_with_a_secret_is_left_out() -> None:
    found = re.search(r"^const SECRET_PATH = /(.+)/;$", RECENT.read_text(), re.MULTILINE)
    assert found is not None
    secret_path = re.compile(found[1].replace("\\/", "/"))
    routes = [f"/{pattern.pattern}" for pattern in urlpatterns]
    secret = [route for route in routes if re.search(r"<(\w+:)?(secret|token)>", route)]

    assert len(secret) >= 5
    assert [route for route in secret if not secret_path.match(route)] == []
    # No other page is left out.
    assert {route for route in routes if secret_path.match(route)} == set(secret)
