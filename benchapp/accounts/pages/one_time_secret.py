"""Secrets that a page shows once, directly after creation."""

from dataclasses import asdict, dataclass
from typing import Final

from django.http import HttpRequest

from benchapp.framework.pages.security import mark_secret

# In the session, not in a message: messages are stored in a cookie. Removed by the next page.
_KEY: Final = "one_time_secret"


@dataclass(frozen=True, slots=True)
class OneTimeSecret:
    """A secret with its title. command: shell lines that use it, "" for none."""

    title: str
    secret: str
    command: str = ""


def keep_for_next_page(request: HttpRequest, title: str, secret: str, *, command: str = "") -> None:
    """Store a secret for the next page."""
    request.session[_KEY] = asdict(OneTimeSecret(title, secret, command))


def take_from_last_page(request: HttpRequest) -> OneTimeSecret | None:
    """Return the secret that the previous request stored, and remove it."""
    stored = request.session.pop(_KEY, None)
    if stored is None:
        return None
    mark_secret(request)
    return OneTimeSecret(**stored)
