"""Secrets are removed from what hosts send: the same cases for the server and the agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent import redaction as agent_redaction
from benchapp.fio import read_output, redaction

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "secrets.json").read_text())
OUTPUTS = sorted(path for path in (DATA / "fio").rglob("*") if path.is_file() and path.suffix != ".md")
BOTH = pytest.mark.parametrize("side", [redaction, agent_redaction], ids=["server", "agent"])


@BOTH
@pytest.mark.parametrize("case", CASES, ids=[case["text"][:30] for case in CASES])
def test_secrets_are_removed(side: Any, case: dict[str, Any]) -> None:
    clean = case["text"] if case["clean"] is None else case["clean"]

    assert side.remove_secrets(case["text"]) == clean
    assert side.remove_secrets(clean) == clean


@BOTH
def test_secrets_in_a_document_are_removed_everywhere(side: Any) -> None:
    document = {
        "command": {
            "argv": ["fio", "--http_pass=SECRET 123", "--http_s3_key", "SECRET456", "--bs=4k"],
            "n": 5,
        },
        "labels": {"s3_token": "SECRET789", "rack": "SECRET789"},
        "fio_output": 'fio: SECRET456\n{"http_s3_key" : "SECRET456"}',
    }

    assert side.remove_from_document(document) == {
        "command": {
            "argv": ["fio", "--http_pass=(removed)", "--http_s3_key", "(removed)", "--bs=4k"],
            "n": 5,
        },
        "labels": {"s3_token": "(removed)", "rack": "(removed)"},
        "fio_output": 'fio: (removed)\n{"http_s3_key" : "(removed)"}',
    }


@BOTH
def test_outputs_without_secrets_stay_as_they_are(side: Any) -> None:
    changed = [
        path.name
        for path in OUTPUTS
        if side.remove_secrets(text := path.read_bytes().decode("latin-1")) != text
    ]

    assert changed == []


def test_report_without_its_secret_has_the_same_values() -> None:
    text = (DATA / "fio" / "generated" / "07_json.out").read_text()
    place = text.index('"job options" : {') + len('"job options" : {')
    body = (text[:place] + '\n "http_pass" : "SECRET\\"1",' + text[place:]).encode()

    cleaned = redaction.remove_from_body(body, is_document=False)

    assert b"SECRET" not in cleaned
    before, after = read_output(body).documents[0], read_output(cleaned).documents[0]
    assert after.jobs[0].directions == before.jobs[0].directions


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_bytes_around_a_secret_stay_in_any_encoding(encoding: str) -> None:
    body = "descriptión=é\nhttp_pass=SÉCRET\nbs=4k\n".encode(encoding)

    cleaned = redaction.remove_from_body(body, is_document=False)

    assert cleaned == "descriptión=é\nhttp_pass=(removed)\nbs=4k\n".encode(encoding)


@pytest.mark.parametrize("depth", [300, 1000, 100_000])
def test_deeply_nested_document_is_cleaned_as_text(depth: int) -> None:
    body = b'{"a": ' * depth + b'{"http_pass": "SECRET"}' + b"}" * depth

    assert redaction.remove_from_body(body, is_document=True) == body.replace(b"SECRET", b"(removed)")


HOSTILE = (
    f"//{':' * 300}" * 2_000,
    "password" * 50_000,
    "a" * 400_000,
    "pass=" * 80_000,
    "pass=${" * 100_000,
    "--pass=[" * 100_000,
    "://" * 100_000,
    '\\"' * 200_000,
    'pass="' + '\\"' * 200_000,
    "".join("pass=" + "\\" * level + '"' for level in range(900)),
)


@BOTH
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_read_to_its_end(side: Any, text: str) -> None:
    assert side.remove_secrets(f"{text}\nhttp_pass=SECRET\nbs=4k").endswith("\nhttp_pass=(removed)\nbs=4k")
