"""Secrets that a page shows once, right after they were made."""

from dataclasses import asdict, dataclass
from typing import Final

from django.http import HttpRequest

# In the session, not in a message: messages travel in a cookie. Taken out by the very next page.
_KEY: Final = "shown_once"


@dataclass(frozen=True, slots=True)
class ShownOnce:
    """A secret and the words above it; command is a line that uses it, empty where there is none."""

    title: str
    secret: str
    command: str = ""


def keep_for_next_page(request: HttpRequest, title: str, secret: str, *, command: str = "") -> None:
    """Keep a secret for the page that the answer redirects to."""
    request.session[_KEY] = asdict(ShownOnce(title, secret, command))


def take_from_last_page(request: HttpRequest) -> ShownOnce | None:
    """Return what the last page left for this one, and forget it."""
    kept = request.session.pop(_KEY, None)
    return ShownOnce(**kept) if kept else None
