"""What notices say, over each channel. Nothing here asks a database."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from benchapp.models import Change, Incident, IncidentEvent, Series, User
from benchapp.pipeline.notifications.host_message import HostSilence, tell_return, tell_silence
from benchapp.pipeline.notifications.incident_message import name_cell, tell_incident
from benchapp.pipeline.notifications.message import Message, tell_test
from benchapp.pipeline.notifications.render import render_event, render_html, render_slack, render_text
from tests.factories import NOON

BASE = "https://bench.example.org"


def make_series(**fields: Any) -> Series:
    values = {
        "pk": 7,
        "scope": "host:db-07",
        "rw": "randread",
        "direction": "read",
        "block_size_bytes": 4096,
        "iodepth": 8,
        "volume_type": "gp3",
        "volume_count": 4,
    }
    return Series(**{**values, **fields})


def make_change(**fields: Any) -> Change:
    values = {
        "pk": 1,
        "series": make_series(),
        "metric": "iops",
        "is_regression": True,
        "started_at": NOON,
        "before_median": 33_415.0,
        "after_median": 28_402.0,
        "relative": -0.15,
        "relative_low": -0.171,
        "relative_high": -0.128,
        "confidence": 0.999,
    }
    return Change(**{**values, **fields})


def make_message(kind: str = "opened", *, event: dict[str, Any] | None = None, **fields: Any) -> Message:
    values = {
        "pk": 12,
        "title": "IOPS down 15 % on db-07",
        "scope": "host:db-07",
        "severity": "high",
        "started_at": NOON,
        "relative": -0.15,
        "suspects": [{"name": "kernel", "before": "5.15", "after": "6.1", "share": 1.0}],
        "explained_by": [{"words": "all with volume type gp3"}],
        **fields,
    }
    incident = Incident(**values)
    happened = IncidentEvent(pk=3, incident=incident, kind=kind, at=NOON, **(event or {}))
    return tell_incident(incident, happened, changes=[make_change()], change_count=9, base_url=BASE)


def test_opening_says_what_moved_how_much_since_when_and_what_else_changed() -> None:
    text = render_text([make_message()])

    assert (
        text
        == f"""\
Regression, high: IOPS down 15 % on db-07

IOPS 28\u202f402, down 15 % from 33\u202f415 since 21 Nov 2026 12:00 UTC (4k randread
· depth 8 · 4 × gp3 · db-07); 8 other cells moved too.

Severity: high
Where: db-07
Since: 21 Nov 2026 12:00 UTC
Explained by: all with volume type gp3

What moved:
  IOPS · 4k randread · depth 8 · 4 × gp3 · db-07: −15 % (−17 % to −13 %)
    before ######################## 33\u202f415
    after  ####################     28\u202f402
  and 8 more

What else changed:
  kernel: 5.15 → 6.1

Incident 12: {BASE}/incidents/12/

-- \nbenchapp · change what you get: {BASE}/subscriptions/
"""
    )


@pytest.mark.parametrize(
    ("kind", "fields", "event", "subject", "beginning"),
    [
        ("grew", {}, {}, "Worse, high: ", "IOPS 28"),
        ("reopened", {}, {}, "Reopened, high: ", "It was resolved and is there again. IOPS"),
        ("recovered", {}, {}, "Recovered: ", "The level is back where it was. IOPS"),
        (
            "resolved",
            {"verdict": "fixed"},
            {"by": User(username="anna")},
            "Resolved (fixed): ",
            "Resolved by anna. ",
        ),
        ("resolved", {}, {}, "Resolved: ", "Resolved by itself. "),
    ],
)
def test_each_transition_has_its_words(
    kind: str, fields: dict[str, Any], event: dict[str, Any], subject: str, beginning: str
) -> None:
    message = make_message(kind, event=event, **fields)

    assert message.subject.startswith(subject)
    assert message.sentence.startswith(beginning)


def test_what_people_wrote_is_escaped_in_html() -> None:
    message = make_message(title="<img src=x>\r\nevil", event={"words": "<script>alert(1)</script>"})

    html = render_html([message], title=message.subject)

    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;img src=x&gt; evil" in html


def test_html_loads_nothing_and_styles_inline() -> None:
    html = render_html([make_message()], title="x")

    assert not re.search(r"<(img|script|link|style|iframe)|url\(|src=", html)
    assert set(re.findall(r'href="([^"]*)"', html)) == {
        f"{BASE}/incidents/12/",
        f"{BASE}/series/7/?metric=iops",
        f"{BASE}/subscriptions/",
    }


def test_bars_of_the_chart_begin_at_zero_and_say_the_direction_in_words() -> None:
    html = render_html([make_message()], title="x")

    assert re.findall(r'<td width="(\d+)%" height="12"', html) == ["100", "85"]
    assert "regression" in html


def test_blocks_of_slack_neither_mention_nor_link() -> None:
    message = make_message(title="<!channel> & <https://evil.example|here>")

    slack = json.dumps(render_slack([message]), ensure_ascii=False)

    assert "<!channel>" not in slack.replace('"plain_text", "text": "Regression, high: <!channel>', "")
    assert "&lt;!channel&gt; &amp;" in slack
    assert f"<{BASE}/incidents/12/|Incident 12>" in slack


def test_blocks_of_slack_stay_within_its_limits() -> None:
    message = make_message(title="t" * 300, event={"words": "w" * 5000})
    slack = render_slack([message] * 40)

    assert len(slack["blocks"]) <= 50
    for block in slack["blocks"]:
        assert len(block["text"]["text"]) <= (150 if block["type"] == "header" else 3000)


def test_program_gets_base_units_and_the_incident() -> None:
    event = render_event([make_message()], at=NOON)

    assert (event["type"], event["timestamp"]) == ("incident.opened", "2026-11-21T12:00:00Z")
    assert event["data"]["incident"]["id"] == 12
    assert event["data"]["changes"][0]["before"] == 33415.0
    assert event["data"]["url"] == f"{BASE}/incidents/12/"


def test_digest_holds_all_of_its_notices() -> None:
    messages = [make_message(), make_message("recovered")]

    assert [each["type"] for each in render_event(messages, at=NOON)["data"]["notices"]] == [
        "incident.opened",
        "incident.recovered",
    ]
    assert render_text(messages).count("What moved:") == 2


def test_message_is_kept_as_json_and_read_again() -> None:
    message = make_message()

    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message
    assert Message.from_json({**message.to_json(), "of_a_later_version": 1}) == message


def test_without_an_address_of_its_own_the_server_gives_no_links() -> None:
    incident = Incident(pk=12, title="x", scope="", severity="low", started_at=NOON, relative=0.1)
    event = IncidentEvent(pk=1, incident=incident, kind="opened", at=NOON)

    message = tell_incident(incident, event, changes=[make_change()], change_count=1, base_url="")

    assert "http" not in render_text([message])
    assert "href" not in render_html([message], title="x")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "4k randread · depth 8 · 4 × gp3 · db-07"),
        ({"rw": "randrw"}, "4k randrw read · depth 8 · 4 × gp3 · db-07"),
        ({"volume_type": None, "stripe_count": 2}, "4k randread · depth 8 · 4 × volume · 2 stripes · db-07"),
        (
            {"block_size_bytes": None, "block_size_text": "4k-64k", "iodepth": None, "volume_count": None},
            "4k-64k randread · gp3 · db-07",
        ),
    ],
)
def test_cell_has_a_short_name(fields: dict[str, Any], expected: str) -> None:
    assert name_cell(make_series(**fields)) == expected


def make_silence(name: str) -> HostSilence:
    return HostSilence(name, "", NOON, ("quick",), NOON - timedelta(hours=8))


def test_silence_of_one_host_says_what_it_did_not_run() -> None:
    message = tell_silence([make_silence("db-1")], base_url=BASE)

    assert message.sentence == (
        "db-1 has not run quick since its time was over at 21 Nov 2026 12:00 UTC; "
        "last heard of 21 Nov 2026 04:00 UTC."
    )
    assert message.url == f"{BASE}/hosts/db-1/"


def test_silence_of_many_names_the_first_fifty() -> None:
    message = tell_silence([make_silence(f"db-{number:03}") for number in range(60)], base_url=BASE)

    assert message.subject == "60 hosts fell silent together"
    assert (len(message.details), message.details[-1]) == (51, ("and", "10 more"))
    assert len(message.facts["hosts"]) == 60


def test_return_of_many_is_one_sentence() -> None:
    message = tell_return([make_silence("db-1"), make_silence("db-2")], base_url=BASE)

    assert (message.subject, message.sentence) == (
        "2 silent hosts are back again",
        "2 hosts run again that were silent.",
    )


def test_test_says_that_it_is_one() -> None:
    assert "Somebody pressed “Send a test”" in render_text(
        [tell_test("email to anna@example.org", base_url="")]
    )
