from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.framework.read.pagination import BadCursor, Cursor, cut_page, read_cursor

TIMES = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))


@given(at=TIMES, number=st.integers(0, 2**63 - 1))
def test_cursor_of_a_number_comes_back_as_it_was(at, number):
    assert Cursor.decode(Cursor(at, number).encode()) == Cursor(at, number)


@given(at=TIMES, unique=st.uuids())
def test_cursor_of_a_uuid_comes_back_as_it_was(at, unique):
    assert Cursor.decode(Cursor(at, unique).encode()) == Cursor(at, unique)


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_other_text_is_a_bad_cursor_or_one_that_decodes(text):
    try:
        cursor = Cursor.decode(text)
    except BadCursor:
        return

    assert isinstance(cursor.at, datetime)


@pytest.mark.parametrize("text", ["", "x", "AAAA", "ä", "%00", "A" * 300, "/w==", "~~~~"])
def test_bad_cursor_is_named(text):
    with pytest.raises(BadCursor, match="take `next`"):
        Cursor.decode(text)


def test_cursor_is_safe_in_a_url():
    text = Cursor(datetime(2026, 11, 21, tzinfo=UTC), 2**62).encode()

    assert text.replace("-", "").replace("_", "").isalnum()


def test_cursor_of_another_list_is_refused():
    text = Cursor(datetime(2026, 11, 21, tzinfo=UTC), 7).encode()

    with pytest.raises(BadCursor, match="another list"):
        read_cursor(text, UUID)


def test_no_cursor_is_the_first_page():
    assert read_cursor(None) is None


def test_page_says_that_there_is_more_only_when_there_is():
    start = datetime(2026, 11, 21, tzinfo=UTC)

    def cursor_of(number: int) -> Cursor:
        return Cursor(start + timedelta(seconds=number), number)

    assert cut_page([1, 2], 2, cursor_of=cursor_of).next_cursor is None
    assert cut_page([1, 2, 3], 2, cursor_of=cursor_of).next_cursor == cursor_of(2).encode()
    assert cut_page([], 2, cursor_of=cursor_of).items == ()
