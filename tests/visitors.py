"""Signed-in clients."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from django.utils.crypto import get_random_string

from benchapp.models import Role, User
from tests.factories import make_user
from tests.row_insertion import insert_row


class SharedClient(Client):
    """A client whose copy has its cookies and headers and shares neither: for `tests.shared_rows`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedClient":
        other = SharedClient(
            self.handler.enforce_csrf_checks, raise_request_exception=self.raise_request_exception
        )
        other.defaults = dict(self.defaults)
        other.cookies.load(self.cookies.output(header="", sep=";"))
        return other


def sign_in(role: Role = Role.VIEWER) -> SharedClient:
    """Return a client of a new person with this role."""
    return sign_in_person(make_user(role))


def sign_in_person(user: User) -> SharedClient:
    """Return a client of a person, as `force_login` does: with one statement instead of eleven."""
    session = {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: settings.AUTHENTICATION_BACKENDS[0],
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }
    key = get_random_string(32, "abcdefghijklmnopqrstuvwxyz0123456789")
    insert_row(
        Session(
            session_key=key,
            session_data=Session.get_session_store_class()().encode(session),
            expire_date=timezone.now() + timedelta(days=14),
        )
    )
    client = SharedClient()
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    return client
