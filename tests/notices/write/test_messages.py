"""Texts of notices in each channel, without database."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from benchapp.catalog.thresholds import parse_threshold
from benchapp.models import Change, Incident, IncidentEvent, Series, User
from benchapp.notices.channels.email.transport import render_html
from benchapp.notices.channels.slack.transport import render_slack
from benchapp.notices.channels.transport import Message, make_test_message, render_text
from benchapp.notices.channels.webhook.transport import render_event
from benchapp.notices.write.incident_message import make_incident_message, name_series_briefly
from benchapp.notices.write.silence_notices import (
    HostSilence,
    make_return_message,
    make_silence_message,
)
from benchapp.notices.write.thresholds import (
    ThresholdEvent,
    ViolatingSeries,
    make_threshold_message,
)
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
        "course": "lasting",
        "started_at": NOON,
        "metric": "iops",
        "relative": -0.15,
        "metric_sizes": [{"metric": "iops", "series": 9, "relative": -0.15, "low": -0.31, "high": -0.12}],
        "suspects": [{"name": "kernel", "before": "5.15", "after": "6.1", "share": 1.0}],
        "common_factors": [{"text": "all with volume type gp3"}],
        **fields,
    }
    incident = Incident(**values)
    happened = IncidentEvent(pk=3, incident=incident, kind=kind, at=NOON, **(event or {}))
    return make_incident_message(incident, happened, changes=[make_change()], change_count=9, base_url=BASE)


def test_opening_has_change_time_affected_series_and_possible_causes() -> None:
    text = render_text([make_message()])

    assert (
        text
        == f"""\
Worse, high: IOPS down 15 % on db-07

IOPS −15 % (each −12 to −31 %) in 9 series, since 21 Nov 2026 12:00 UTC.
Largest of 9 changes: IOPS 28\u202f402, down 15 % from 33\u202f415 since 21 Nov 2026
12:00 UTC (4k random read · QD 8 · 4 × gp3 · db-07).

Severity: high
Scope: db-07
Since: 21 Nov 2026 12:00 UTC
Common factor: all with volume type gp3

Affected series:
  IOPS · 4k random read · QD 8 · 4 × gp3 · db-07: −15 % (−17 % to −13 %)
    before ######################## 33\u202f415
    after  ####################     28\u202f402
  and 8 more

Possible causes:
  kernel: 5.15 → 6.1

Incident 12: {BASE}/incidents/12/

-- \nbenchapp · notification settings: {BASE}/subscriptions/
"""
    )


@pytest.mark.parametrize(
    ("kind", "fields", "event", "subject", "beginning"),
    [
        ("grew", {}, {}, "Grew, high: ", "IOPS −15 %"),
        ("opened", {"course": "suspected"}, {}, "Suspected, high: ", "IOPS −15 %"),
        ("intermittent", {"course": "intermittent"}, {}, "Comes and goes, high: ", "No more notices until"),
        ("recovered", {"recovered_at": NOON}, {}, "Over: ", "IOPS −15 %"),
        (
            "resolved",
            {"verdict": "fixed", "state": "resolved"},
            {"by": User(username="anna")},
            "Over (fixed): ",
            "Resolved by anna. ",
        ),
        ("resolved", {"state": "resolved"}, {}, "Over: ", "Resolved automatically. "),
        (
            "accepted",
            {"state": "resolved"},
            {"by": User(username="anna")},
            "Over (accepted): ",
            "Accepted as new baseline by anna. ",
        ),
    ],
)
def test_each_transition_has_its_words(
    kind: str, fields: dict[str, Any], event: dict[str, Any], subject: str, beginning: str
) -> None:
    message = make_message(kind, event=event, **fields)

    assert message.subject.startswith(subject)
    assert message.sentence.startswith(beginning)


def test_what_people_wrote_is_escaped_in_html() -> None:
    message = make_message(title="<img src=x>\r\nevil", event={"text": "<script>alert(1)</script>"})

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


def test_bars_of_the_chart_begin_at_zero_and_name_the_direction() -> None:
    html = render_html([make_message()], title="x")

    assert re.findall(r'<td width="(\d+)%" height="12"', html) == ["100", "85"]
    assert "regression" in html


def test_blocks_of_slack_neither_mention_nor_link() -> None:
    message = make_message(title="<!channel> & <https://evil.example|here>")

    slack = json.dumps(render_slack([message]), ensure_ascii=False)

    assert "<!channel>" not in slack.replace('"plain_text", "text": "Worse, high: <!channel>', "")
    assert "&lt;!channel&gt; &amp;" in slack
    assert f"<{BASE}/incidents/12/|Incident 12>" in slack


def test_blocks_of_slack_stay_within_its_limits() -> None:
    message = make_message(title="t" * 300, event={"text": "w" * 5000})
    slack = render_slack([message] * 40)

    assert len(slack["blocks"]) <= 50
    for block in slack["blocks"]:
        assert len(block["text"]["text"]) <= (150 if block["type"] == "header" else 3000)


def test_program_gets_base_units_and_the_incident() -> None:
    event = render_event([make_message()], at=NOON)

    assert (event["type"], event["timestamp"]) == ("incident.worse", "2026-11-21T12:00:00Z")
    assert event["data"]["incident"]["id"] == 12
    assert event["data"]["changes"][0]["before"] == 33415.0
    assert event["data"]["url"] == f"{BASE}/incidents/12/"


def test_digest_holds_all_of_its_notices() -> None:
    messages = [make_message(), make_message("recovered", recovered_at=NOON)]

    assert [each["type"] for each in render_event(messages, at=NOON)["data"]["notices"]] == [
        "incident.worse",
        "incident.over",
    ]
    assert render_text(messages).count("Affected series:") == 2


def test_message_survives_json() -> None:
    message = make_message()

    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message
    assert Message.from_json({**message.to_json(), "of_a_later_version": 1}) == message


def test_message_has_no_links_without_public_url() -> None:
    incident = Incident(pk=12, title="x", scope="", severity="low", started_at=NOON, relative=0.1)
    event = IncidentEvent(pk=1, incident=incident, kind="opened", at=NOON)

    message = make_incident_message(incident, event, changes=[make_change()], change_count=1, base_url="")

    assert "http" not in render_text([message])
    assert "href" not in render_html([message], title="x")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "4k random read · QD 8 · 4 × gp3 · db-07"),
        ({"rw": "randrw"}, "4k random read/write, reads · QD 8 · 4 × gp3 · db-07"),
        ({"volume_type": None, "stripe_count": 2}, "4k random read · QD 8 · 4 × volume · 2 stripes · db-07"),
        (
            {"block_size_bytes": None, "block_size_text": "4k-64k", "iodepth": None, "volume_count": None},
            "4k-64k random read · gp3 · db-07",
        ),
    ],
)
def test_cell_has_a_short_name(fields: dict[str, Any], expected: str) -> None:
    assert name_series_briefly(make_series(**fields)) == expected


def make_silence(name: str) -> HostSilence:
    return HostSilence(name, "", "silent", NOON, ("quick",), NOON - timedelta(hours=8))


def test_silence_of_one_host_names_the_missed_profile() -> None:
    message = make_silence_message([make_silence("db-1")], base_url=BASE)

    assert message.sentence == (
        "db-1 has missed its scheduled run of quick: overdue since 21 Nov 2026 12:00 UTC; "
        "last seen 21 Nov 2026 04:00 UTC."
    )
    assert message.url == f"{BASE}/hosts/db-1/"


def test_silence_of_many_names_the_first_fifty() -> None:
    message = make_silence_message([make_silence(f"db-{number:03}") for number in range(60)], base_url=BASE)

    assert message.subject == "60 silent hosts"
    assert (len(message.details), message.details[-1]) == (51, ("and", "10 more"))
    assert len(message.facts["hosts"]) == 60


def test_return_of_many_is_one_sentence() -> None:
    message = make_return_message([make_silence("db-1"), make_silence("db-2")], base_url=BASE)

    assert (message.subject, message.sentence) == (
        "2 hosts are back",
        "2 silent hosts run again.",
    )


def test_test_message_names_its_subscription() -> None:
    assert "email to anna@example.org" in render_text(
        [make_test_message("email to anna@example.org", base_url="")]
    )


def make_violating(count: int = 1) -> list[ViolatingSeries]:
    return [
        ViolatingSeries(
            make_series(pk=number, scope=f"host:<db-{number}>"), [4e6, 6.214e6, 7e6], NOON - timedelta(days=9)
        )
        for number in range(1, count + 1)
    ]


def test_violated_threshold_in_each_channel() -> None:
    message = make_threshold_message(
        ThresholdEvent.VIOLATED,
        parse_threshold("p99 5ms"),
        make_violating(),
        subscription_id=3,
        base_url=BASE,
    )

    assert (message.kind, message.thread[:10]) == ("threshold.violated", "threshold-")
    assert (
        message.subject == "Threshold violated: p99 latency < 5 ms: 4k random read · QD 8 · 4 × gp3 · <db-1>"
    )
    text = " ".join(render_text([message]).split())
    assert "p99 latency 6.21 ms, median of the newest 3 runs, does not meet p99 latency < 5 ms, since" in text
    assert "https://bench.example.org/series/1/?metric=latency_p99_ns" in text
    assert "&lt;db-1&gt;" in render_html([message], title="x")
    assert "<db-1>" not in json.dumps(render_slack([message])["blocks"][1])
    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message
    event = render_event([message], at=NOON)
    assert event["type"] == "threshold.violated"
    assert event["data"]["series"] == [
        {
            "id": 1,
            "name": "4k random read · QD 8 · 4 × gp3 · <db-1>",
            "value": 6.214e6,
            "since_at": "2026-11-12T12:00:00Z",
            "url": "https://bench.example.org/series/1/?metric=latency_p99_ns",
        }
    ]


def test_many_series_of_a_threshold_are_one_message_with_bounded_lists() -> None:
    message = make_threshold_message(
        ThresholdEvent.MET, parse_threshold("p99 5ms"), make_violating(120), subscription_id=3, base_url=BASE
    )

    assert message.kind == "threshold.met"
    assert message.subject == "Threshold met in 120 series: p99 latency < 5 ms"
    assert (len(message.details), message.details[-1]) == (11, ("and", "110 more"))
    assert (message.facts["series_count"], len(message.facts["series"])) == (120, 100)
    assert message.url == "https://bench.example.org/subscriptions/3/"


def test_series_that_no_longer_match_the_filter_are_one_message() -> None:
    message = make_threshold_message(
        ThresholdEvent.UNMATCHED,
        parse_threshold("p99 5ms"),
        make_violating(3),
        subscription_id=3,
        base_url=BASE,
    )

    assert message.kind == "threshold.unmatched"
    assert message.subject == "Threshold no longer applies to 3 series: p99 latency < 5 ms"
    assert "they no longer match the filter of the subscription" in message.sentence
    assert message.url == "https://bench.example.org/subscriptions/3/"
