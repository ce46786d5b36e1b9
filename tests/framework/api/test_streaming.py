import gc
import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncRequestFactory, RequestFactory
from rest_framework.request import Request

from benchapp.framework.api import lists
from benchapp.framework.api.lists import (
    STREAMS_MAXIMUM,
    STREAMS_OF_CLIENT_MAXIMUM,
    WAITING_MAXIMUM,
    answer_stream,
)
from benchapp.framework.api.problems import Problem
from benchapp.framework.write.audit import WriteSource, write_from
from benchapp.models import name_person, shown_to
from tests.servers import wait_for

# Django closes a response with a signal that looks at the connection.
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True, scope="module")
def _responses_of_other_tests_are_gone():
    """Take away responses that tests of other files left unread: each holds a place."""
    gc.collect()


@pytest.fixture(autouse=True)
def _places_are_freed():
    """Wait until every place is free again: threads end behind the test."""
    yield
    taken = [lists._FREE.acquire(timeout=10) for _ in range(STREAMS_MAXIMUM)]
    for _ in taken:
        lists._FREE.release()
    assert all(taken)


class Parts:
    """Parts of a body that say when they were closed."""

    def __init__(self, *parts):
        self.closed = threading.Event()
        self.threads = set()
        self.iterator = self._make(parts)

    def _make(self, parts):
        try:
            for part in parts:
                self.threads.add(threading.get_ident())
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.closed.set()


def open_stream(parts, *, factory=RequestFactory, client="192.0.2.1", **headers):
    request = Request(factory().get("/api/v1/points", headers=headers))
    with write_from(WriteSource(lambda: None, address=client)):
        return answer_stream(request, parts.iterator, content_type="text/plain", headers={})


def open_async(parts, **headers):
    return open_stream(parts, factory=AsyncRequestFactory, **headers)


@async_to_sync
async def read_async(response, *, count=None):
    found = []
    stream = aiter(response)
    async for part in stream:
        found.append(part)
        if len(found) == count:
            break
    await stream.aclose()
    return found


def fill_places():
    return [open_stream(Parts(b"a"), client=f"192.0.2.{100 + place}") for place in range(STREAMS_MAXIMUM)]


def test_a_client_is_sent_a_few_at_a_time_and_others_are_not_affected():
    opened = [open_stream(Parts(b"a")) for _ in range(STREAMS_OF_CLIENT_MAXIMUM)]

    with pytest.raises(Problem, match="2 complete lists") as refused:
        open_stream(Parts(b"a"))
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "2")
    assert open_stream(Parts(b"b"), client="192.0.2.2").getvalue() == b"b"
    opened.pop().close()
    assert open_stream(Parts(b"c")).getvalue() == b"c"
    for response in opened:
        response.close()
    assert not lists._CLIENTS


def test_parts_are_sent_in_order_and_closed():
    parts = Parts(b"a", b"b")

    assert open_stream(parts).getvalue() == b"ab"
    assert parts.closed.is_set()


def test_parts_of_a_server_with_asgi_are_made_in_one_other_thread():
    parts = Parts(b"a", b"b")

    assert read_async(open_async(parts)) == [b"a", b"b"]
    assert parts.closed.wait(10)
    assert len(parts.threads) == 1
    assert threading.get_ident() not in parts.threads


def test_parts_that_are_made_in_another_thread_are_those_for_the_reader():
    def write_names():
        yield name_person("eve").encode()
        yield name_person("eve").encode()

    parts = Parts()
    parts.iterator = write_names()
    with shown_to(lambda: True):
        response = open_async(parts)

    assert read_async(response) == [b"a user", b"a user"]


@pytest.mark.parametrize("open_it", [open_stream, open_async])
def test_a_problem_before_the_first_part_is_raised_before_the_status(open_it):
    parts = Parts(Problem(400, "parameter-invalid", "Bad", "x"))

    with pytest.raises(Problem):
        open_it(parts)

    assert parts.closed.wait(10)


def test_an_error_in_a_later_part_does_not_end_the_body():
    parts = Parts(b"a", OSError("gone"))

    with pytest.raises(OSError, match="gone"):
        read_async(open_async(parts))

    assert parts.closed.wait(10)


def test_a_client_that_leaves_ends_the_parts():
    parts = Parts(b"a", b"b", b"c")

    assert read_async(open_async(parts), count=1) == [b"a"]

    assert parts.closed.wait(10)


def test_a_response_that_is_never_sent_ends_its_parts():
    parts = Parts(b"a", b"b")

    open_async(parts)

    assert parts.closed.wait(10)


@pytest.mark.parametrize("open_it", [open_stream, open_async])
def test_a_response_in_a_reference_cycle_ends_its_parts(open_it):
    parts = Parts(b"a", b"b")
    response = open_it(parts)
    response.itself = response

    del response
    gc.collect()

    assert parts.closed.wait(10)


def test_only_a_few_are_sent_at_a_time(monkeypatch):
    monkeypatch.setattr(lists, "WAIT_S", 0)
    opened = fill_places()

    with pytest.raises(Problem, match="long lists") as refused:
        open_stream(Parts(b"a"))
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "2")
    opened.pop().close()
    assert open_stream(Parts(b"b")).getvalue() == b"b"
    # The traceback of the refusal keeps them.
    for response in opened:
        response.close()


def test_a_request_that_waits_gets_the_place_of_a_stream_that_ends():
    opened = fill_places()
    with ThreadPoolExecutor(1) as asking:
        waiting = asking.submit(open_stream, Parts(b"b"))
        wait_for(lambda: lists._WAITING._value == WAITING_MAXIMUM - 1, within_s=60, what="a request waits")
        opened.pop().close()

        assert waiting.result(timeout=60).getvalue() == b"b"

    assert lists._WAITING._value == WAITING_MAXIMUM
    for response in opened:
        response.close()


def test_requests_beyond_those_that_may_wait_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(lists, "WAIT_S", 600)
    opened = fill_places()
    with ThreadPoolExecutor(WAITING_MAXIMUM) as asking:
        # Read by the thread that waited: places are given in any order.
        waiting = [
            asking.submit(
                lambda client: open_stream(Parts(b"b"), client=client).getvalue(), f"192.0.2.{place}"
            )
            for place in range(WAITING_MAXIMUM)
        ]
        wait_for(lambda: lists._WAITING._value == 0, within_s=60, what="all wait that may")

        with pytest.raises(Problem, match="long lists") as refused:
            open_stream(Parts(b"c"), client="192.0.2.50")

        for response in opened:
            response.close()
        assert [each.result(timeout=60) for each in waiting] == [b"b"] * WAITING_MAXIMUM
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "2")


def test_gzip_is_made_part_by_part():
    response = open_stream(Parts(b"a" * 1000, b"b"), **{"Accept-Encoding": "gzip"})

    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(response.getvalue()) == b"a" * 1000 + b"b"
