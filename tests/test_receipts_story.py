"""What the server receives, and when: rejected results, wrong clocks, and one drive of two that is silent."""

from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.test import Client
from msgspec import UNSET

from agent.delivery.envelope import make_attempt
from agent.exit_codes import AgentError, CannotMeasure
from agent.measuring.load import TooBusy
from benchapp import tasks
from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.api.answers import ReceiptAnswer
from benchapp.intake.posts.submissions import retry_submission
from benchapp.models import Attempt, Host, Notice, Scope, Submission
from benchapp.notices.write.silence_notices import notify_silent_hosts
from tests.envelopes import pack_envelope
from tests.factories import NOON, make_token, make_user
from tests.intake.api.test_posts import post
from tests.pages import Page
from tests.received_notices import make_subscription
from tests.stories import at_time, silence_queue

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def make_nightly(monkeypatch: pytest.MonkeyPatch, *directories: str) -> str:
    """Make db-1, which is to run every day in these directories, with a subscription; return its token."""
    silence_queue(monkeypatch)
    with at_time(NOON - DAY):
        make_subscription()
        entry = {"profile": "quick", "every_s": 86_400, "splay_s": 0}
        host = Host.objects.create(
            name="db-1",
            schedule=[entry | {"directory": directory} for directory in directories],
            schedule_since_at=NOON - MINUTE,
        )
        return issue_token(scope=Scope.INGEST, host=host)[1]


def deliver(token: str, at: datetime, *, clock: timedelta = timedelta(0), **changes: Any) -> ReceiptAnswer:
    """Post a run that ended now by the clock of its host, have the workers do what they do, and return the answer."""
    times = {"started_at": (at + clock - MINUTE).isoformat(), "finished_at": (at + clock).isoformat()}
    with at_time(at):
        answer = post(pack_envelope(**times | changes), token, headers={"date": format_datetime(at + clock)})
        assert answer.status == 202
        tasks.normalize()
    assert isinstance(answer.body, ReceiptAnswer)
    return answer.body


def read_host(client: Client, at: datetime) -> dict[str, Any]:
    _, secret = make_token(Scope.READ)
    with at_time(at):
        answer: dict[str, Any] = client.get(
            "/api/v1/hosts/db-1", headers={"authorization": f"Bearer {secret}"}
        ).json()
    return answer


def list_notices(at: datetime) -> list[str]:
    with at_time(at):
        notify_silent_hosts(now=at)
    return list(Notice.objects.order_by("pk").values_list("body__sentence", flat=True))


def test_host_whose_results_are_rejected_is_told_so_and_is_failing_not_silent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_nightly(monkeypatch, "/data")

    answers = [
        deliver(token, NOON + day * DAY, **({"fio_output": "fio: command not found"} if day else {}))
        for day in range(4)
    ]

    assert [answer.rejected and answer.rejected.count for answer in answers] == [UNSET, UNSET, 1, 2]
    told = answers[3].rejected
    assert told
    assert (told.since, told.last.received_at) == (NOON + DAY, NOON + 2 * DAY)
    assert (told.last.id, told.last.page) == (answers[2].id, f"/uploads/{answers[2].id}/")
    now = NOON + 3 * DAY + MINUTE
    host = read_host(client, now)
    assert (host["silent_since"], host["failing"]) == (None, ["quick"])
    reason = Submission.objects.get(pk=answers[3].id).reason
    assert host["failing_reason"] == f"rejected: {reason}"
    (notice,) = list_notices(now)
    assert notice.startswith("db-1 has sent no valid value of quick since")
    assert f"rejected: {reason}"[:100] in notice
    client.force_login(make_user())
    with at_time(now):
        page = client.get("/hosts/db-1/").content.decode()
    assert f'<a href="/uploads/{answers[3].id}/">rejected: ' in page


@pytest.mark.parametrize(
    "error",
    [
        CannotMeasure("fio is not installed; run apt install fio", reason_code="fio-missing"),
        CannotMeasure("not enough space: /data has 1 GiB free", reason_code="no-space"),
        TooBusy("load 9.5 exceeds the limit of 4"),
    ],
)
def test_attempt_of_the_agent_is_in_the_history_of_its_host(
    error: AgentError, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_nightly(monkeypatch, "/data")
    names = {"profile": "quick", "target_name": "/data"}
    attempt = make_attempt(str(uuid4()), error, started_at=NOON.timestamp(), **names)

    answer = post(orjson.dumps(attempt), token)

    client.force_login(make_user())
    with at_time(NOON + MINUTE):
        page = Page(client.get("/hosts/db-1/")).words
        (listed,) = client.get("/api/v1/hosts/db-1/attempts").json()["attempts"]
    assert answer.status == 202
    assert f"21 Nov 2026 12:00 UTCquick/data{error}" in page
    assert (listed["reason_code"], listed["reason"]) == (error.reason_code, str(error))


def test_result_that_is_no_longer_rejected_is_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = deliver(make_nightly(monkeypatch), NOON, fio_output="")
    assert list(Attempt.objects.values_list("sender_id", "reason_code")) == [(rejected.id, "rejected")]

    assert retry_submission(rejected.id)

    assert not Attempt.objects.exists()


@pytest.mark.parametrize(
    ("clock", "state", "age"),
    [
        (timedelta(seconds=80), "", ""),
        (-timedelta(seconds=80), "", ""),
        (10 * MINUTE, "ahead", "10 min"),
        (-10 * MINUTE, "behind", "10 min"),
        (300 * DAY, "ahead", "300 d"),
        (-300 * DAY, "behind", "300 d"),
    ],
)
def test_silence_is_judged_by_receipt_and_a_clock_that_is_wrong_is_shown(
    clock: timedelta, state: str, age: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_nightly(monkeypatch, "/data")
    deliver(token, NOON, clock=clock)

    late = read_host(client, NOON + 1.2 * DAY)
    silent = read_host(client, NOON + 1.3 * DAY)

    assert (late["silent_since"], silent["silent_since"]) == (None, "2026-11-22T18:00:00Z")
    assert late["clock_offset_s"] == (clock.total_seconds() if state else None)
    client.force_login(make_user())
    words = Page(client.get("/hosts/db-1/")).words
    assert ("as its agent said on" in words) == bool(state)
    assert f"{state} by {age}" in words or not state
    deliver(token, NOON + DAY)
    assert read_host(client, NOON + DAY)["clock_offset_s"] is None


@pytest.mark.parametrize(
    "date",
    [
        "yesterday",
        "",
        "Sat, 21 Nov 2026 12:00:00",
        "Sat, 99 Nov 99999 12:00:00 GMT",
        "Mon, 01 Jan 99999999999 00:00:00 GMT",
    ],
)
def test_date_of_a_sender_that_is_no_time_is_no_error(
    date: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_nightly(monkeypatch, "/data")

    with at_time(NOON):
        assert post(pack_envelope(), token, headers={"date": date}).status == 202

    assert read_host(client, NOON)["clock_offset_s"] is None


def test_runs_of_one_drive_do_not_hide_the_silence_of_another(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_nightly(monkeypatch, "/fast/bench", "/slow/bench")
    for drive in ("/fast", "/slow"):
        deliver(token, NOON, target={"name": drive})
    deliver(token, NOON + DAY, target={"name": "/fast"})
    now = NOON + 1.3 * DAY

    host = read_host(client, now)

    assert [(each["directory"], each["silent_since"]) for each in host["schedule"]["entries"]] == [
        ("/fast/bench", None),
        ("/slow/bench", "2026-11-22T18:00:00Z"),
    ]
    (notice,) = list_notices(now)
    assert "has missed its scheduled run of quick in /slow/bench" in notice
    client.force_login(make_user())
    with at_time(now):
        page, overview = (client.get(path).content.decode() for path in ("/hosts/db-1/", "/"))
    assert "quick in /slow/bench: overdue since" in page
    assert "quick in /fast/bench" not in page
    assert "quick in /slow/bench" in overview
