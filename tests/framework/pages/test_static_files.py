"""Collected files straight from ASGI."""

import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchapp.framework.pages.static_files import _read_index, answer_static_file

STYLE = b"body { margin: 0 }\n" * 50


@pytest.fixture
def collected(tmp_path: Path, settings) -> Iterator[Path]:
    (tmp_path / "css" / "site").mkdir(parents=True)
    (tmp_path / "css" / "site" / "base.css").write_bytes(STYLE)
    (tmp_path / "css" / "site" / "base.css.gz").write_bytes(gzip.compress(STYLE))
    settings.STATIC_ROOT = tmp_path
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = False
    _read_index.cache_clear()
    yield tmp_path
    _read_index.cache_clear()


def ask(path: str, method: str = "GET", **headers: str) -> tuple[bool, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    names = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    scope = {"type": "http", "method": method, "path": path, "headers": list(names.items())}
    return asyncio.run(answer_static_file(scope, send)), sent


def test_file_comes_compressed_to_who_unpacks(collected: Path) -> None:
    is_answered, (start, body) = ask("/static/css/site/base.css", accept_encoding="gzip, br")

    headers = dict(start["headers"])
    assert (is_answered, start["status"]) == (True, 200)
    assert gzip.decompress(body["body"]) == STYLE
    assert headers[b"content-encoding"] == b"gzip"
    assert headers[b"x-content-type-options"] == b"nosniff"


def test_file_comes_plain_to_others(collected: Path) -> None:
    _, (start, body) = ask("/static/css/site/base.css")

    assert body["body"] == STYLE
    assert dict(start["headers"])[b"content-type"].startswith(b"text/css")


def test_file_that_is_known_does_not_come_again(collected: Path) -> None:
    _, (start, _) = ask("/static/css/site/base.css")
    etag = dict(start["headers"])[b"etag"].decode()

    _, (again, body) = ask("/static/css/site/base.css", if_none_match=etag)

    assert (again["status"], body["body"]) == (304, b"")


def test_head_has_no_body_and_post_is_refused(collected: Path) -> None:
    _, (start, body) = ask("/static/css/site/base.css", "HEAD")
    _, (refused, _) = ask("/static/css/site/base.css", "POST")

    assert (start["status"], body["body"], refused["status"]) == (200, b"", 405)


@pytest.mark.parametrize(
    "path", ["/static/css/other.css", "/static/../settings.py", "/static/css/", "/runs/"]
)
def test_what_was_not_collected_is_left_to_django(path: str, collected: Path) -> None:
    assert ask(path) == (False, [])


def test_file_of_a_checkout_comes_as_it_lies_there_now(collected: Path, settings) -> None:
    settings.WHITENOISE_AUTOREFRESH = True
    _read_index.cache_clear()
    ask("/static/css/site/base.css")
    (collected / "css" / "site" / "base.css").write_bytes(b"p { margin: 0 }\n")

    is_answered, (start, body) = ask("/static/css/site/base.css")

    assert (is_answered, start["status"], body["body"]) == (True, 200, b"p { margin: 0 }\n")


@pytest.mark.parametrize(
    "path", ["/static/css/other.css", "/static/../settings.py", "/static/css/", "/static/css", "/static/%00"]
)
def test_what_a_checkout_has_not_is_left_to_django(path: str, collected: Path, settings) -> None:
    settings.WHITENOISE_AUTOREFRESH = True
    _read_index.cache_clear()

    assert ask(path) == (False, [])
