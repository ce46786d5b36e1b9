"""What a reader sees of a person: the user name, or only that there is one.

Anybody may read with BENCHAPP_PUBLIC_READ, and shared studies. Names are for those who signed in, and for tokens that
read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from benchapp.models.account import User

SOMEBODY: Final = "a user"
# Outside of requests (workers, commands) there is no stranger. Each request runs in a copy of the context (handler.py).
_IS_STRANGER: Final[ContextVar[Callable[[], bool]]] = ContextVar("is_stranger", default=lambda: False)


@contextmanager
def shown_to(is_stranger: Callable[[], bool]) -> Iterator[None]:
    """Name the reader of what is made within. is_stranger: asked when there is a name to show."""
    earlier = _IS_STRANGER.set(is_stranger)
    try:
        yield
    finally:
        _IS_STRANGER.reset(earlier)


def note_reader(*, is_stranger: bool) -> None:
    """Name the reader of the current request, until `shown_to` ends."""
    _IS_STRANGER.set(lambda: is_stranger)


def is_shown_to_stranger() -> bool:
    """Return whether the reader sees no names."""
    return _IS_STRANGER.get()()


def name_person(person: User | str | None) -> str:
    """Return the name of a user, or a user name, as the reader sees it; "" without a person."""
    username = person.username if isinstance(person, User) else person or ""
    return SOMEBODY if username and is_shown_to_stranger() else username
