"""Deliver the spool to the server within a time budget, report schedules, and wait until a result is stored."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence
from urllib.parse import urljoin

from agent.console import Console
from agent.delivery.client import (
    EXCHANGE_MAXIMUM_S,
    Client,
    DeliveryOutcome,
    Response,
    choose_delay,
    classify_response,
    read_retry_after,
)
from agent.delivery.spool import Entry, Spool, describe_rejections
from agent.exit_codes import ConfigurationError, ExitCode, worst
from agent.files import replace_file
from agent.quantities import format_duration

_SCHEDULE_FILE = "schedule.json"
_FIRST_MEMBERS = ("profile", "every_s", "splay_s", "directory")
_DETAIL_MAXIMUM = 500
# Minimum time of a request, also at the end of the wait: a slow link needs it.
_REQUEST_MINIMUM_S = 5.0


@dataclass
class Delivery:
    """The result of a delivery.

    urls: of delivered results, rejected: reasons, both by id; remaining: results still in the queue; problem: why.
    rejections: of results that the server had accepted, as in its last answer; None if there are none.
    """

    urls: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    remaining: int = 0
    exit_code: ExitCode = ExitCode.OK
    problem: str | None = None
    rejections: dict[str, Any] | None = None


@dataclass(frozen=True)
class SubmissionStatus:
    """The state of a submission on the server: received, stored or rejected. run_ids, pages: of its runs."""

    state: str
    run_ids: tuple[int, ...]
    pages: tuple[str, ...]
    reason: str | None


def deliver(
    spool: Spool,
    client: Client,
    *,
    console: Console,
    budget_s: float,
    first_id: str | None = None,
    retries: bool = True,
) -> Delivery:
    """Post pending results within budget_s, first_id first, then oldest first; requires the lock.

    A result that fails temporarily moves to the end of the queue, so that it does not block the others; without
    retries the delivery ends there.
    """
    delivery = Delivery()
    deadline = time.monotonic() + budget_s
    queue = deque(sorted(spool.pending(), key=lambda entry: entry.id != first_id))
    delay_s = 0.0
    while queue:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            delivery.problem = f"the budget of {format_duration(budget_s)} is used up"
            delivery.exit_code = worst(delivery.exit_code, ExitCode.TRY_LATER)
            break
        entry = queue.popleft()
        response = _post(client, entry, limit_s=remaining_s)
        outcome = classify_response(response, submission_id=entry.id)
        try:
            if outcome == DeliveryOutcome.DELIVERED:
                delivery.urls[entry.id] = _find_url(response, entry.id)
                delivery.rejections = read_rejections(response.body or {}, client.url)
                delay_s = 0.0
                spool.remove(entry)
                continue
            if (response.body or {}).get("code") == "envelope-kind":
                spool.remove(entry)  # an attempt, which earlier versions of the server do not know
                continue
            if outcome == DeliveryOutcome.REJECTED:
                delivery.rejected[entry.id] = response.describe()
                delivery.exit_code = worst(delivery.exit_code, ExitCode.REJECTED)
                console.warn(f"result {entry.id} was rejected: {response.describe()}; stored in rejected/")
                spool.reject(entry, _name_reason(response))
                continue
        except OSError as error:
            # The server has answered: not posted again before the next delivery.
            delivery.remaining += 1
            delivery.exit_code = worst(delivery.exit_code, ExitCode.TRY_LATER)
            delivery.problem = f"cannot remove {entry.path} from the queue: {error}"
            continue
        queue.append(entry)
        delivery.problem = response.describe()
        if outcome == DeliveryOutcome.REFUSED:
            delivery.exit_code = ExitCode.CONFIGURATION
            break
        delay_s = choose_delay(delay_s, read_retry_after(response))
        if not retries or time.monotonic() + delay_s > deadline:
            delivery.exit_code = worst(delivery.exit_code, ExitCode.TRY_LATER)
            break
        console.note(f"{response.describe()}; retrying in {format_duration(delay_s)}")
        time.sleep(delay_s)
    delivery.remaining += len(queue)
    if delivery.urls and spool.keep_rejections(delivery.rejections):
        delivery.exit_code = worst(delivery.exit_code, ExitCode.REJECTED)
        console.warn(describe_rejections(delivery.rejections or {}))
    return delivery


def read_rejections(body: Mapping[str, Any], url: str) -> dict[str, Any] | None:
    """Return what the server says about results that it accepted and rejected later; None without any.

    Members: count, since and received_at (of the oldest and the newest, RFC 3339), detail and page of the newest.
    """
    try:
        last = body["rejected"]["last"]
        return {
            "count": int(body["rejected"]["count"]),
            "since": str(body["rejected"]["since"]),
            "received_at": str(last["received_at"]),
            "detail": str(last["detail"])[:_DETAIL_MAXIMUM],
            "page": urljoin(f"{url}/", str(last["page"])),
        }
    except (LookupError, TypeError, ValueError):
        return None


def _post(client: Client, entry: Entry, *, limit_s: float) -> Response:
    """Post one result; a file that cannot be read is retried like a server without a response."""
    try:
        packed = entry.read()
    except OSError as error:
        return Response(problem=f"cannot read {entry.path}: {error}")
    return client.post_submission(entry.id, packed, limit_s=limit_s)


def _name_reason(response: Response) -> dict[str, Any]:
    body = response.body or {}
    return {"status": response.status, **{name: body.get(name) for name in ("code", "detail", "pointer")}}


def _find_url(response: Response, submission_id: str) -> str:
    url = (response.body or {}).get("url") or response.headers.get("location")
    return str(url) if url else f"/api/v1/submissions/{submission_id}"


def store_pending_schedule(spool: Spool, entries: Sequence[dict[str, Any]]) -> None:
    """Store the schedules to be reported durably, replacing unreported earlier ones.

    Needs no lock, which a run may own for hours: the file is replaced atomically.
    """
    spool.prepare()
    path = os.path.join(spool.directory, _SCHEDULE_FILE)
    try:
        replace_file(path, json.dumps({"entries": list(entries)}) + "\n", mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error}") from None


def send_pending_schedule(
    spool: Spool, client: Client, *, console: Console, limit_s: float = EXCHANGE_MAXIMUM_S
) -> ExitCode:
    """Send stored schedules within limit_s and return the result; a failure does not fail the run."""
    path = os.path.join(spool.directory, _SCHEDULE_FILE)
    text = _read_schedule_file(path)
    if text is None:
        return ExitCode.OK
    deadline = time.monotonic() + limit_s
    try:
        entries = json.loads(text)["entries"]
    except (ValueError, KeyError, TypeError):
        os.unlink(path)  # not written by the agent
        return ExitCode.OK
    response = _put_schedule(client, entries, limit_s=limit_s)
    if response.status == 400 and any(set(entry) - set(_FIRST_MEMBERS) for entry in entries):
        # A server of an earlier version refuses the members that it does not know.
        entries = [{name: entry[name] for name in _FIRST_MEMBERS} for entry in entries]
        response = _put_schedule(client, entries, limit_s=deadline - time.monotonic())
    if response.status == 200 and "entries" in (response.body or {}):  # a captive portal returns 200, too
        _remove_if_unchanged(path, text)
        return ExitCode.OK
    if _is_final(response):
        console.warn(f"the server rejected the schedule: {response.describe()}")
        _remove_if_unchanged(path, text)
        return ExitCode.REJECTED
    # Not "the next": after `uninstall` there is none.
    console.note(f"the schedule is not reported: {response.describe()}; each delivery tries again")
    return ExitCode.TRY_LATER


def _put_schedule(client: Client, entries: Sequence[Mapping[str, Any]], *, limit_s: float) -> Response:
    document = {"entries": list(entries)}
    return client.request("PUT", "/api/v1/hosts/me/schedule", document=document, limit_s=limit_s)


def _is_final(response: Response) -> bool:
    """Return whether a retry would be rejected again; a server without schedules may be upgraded."""
    return response.status in (400, 413, 422) and "code" in (response.body or {})


def _remove_if_unchanged(path: str, text: str) -> None:
    """Remove the reported schedules unless they were replaced meanwhile."""
    if _read_schedule_file(path) == text:
        os.unlink(path)


def _read_schedule_file(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def wait_until_processed(
    client: Client, submission_id: str, *, timeout_s: float, tick: Callable[[], None] = lambda: None
) -> SubmissionStatus:
    """Poll until the submission is stored or rejected, or timeout_s has passed; tick: called between requests.

    ConfigurationError if the server refuses to tell (401, 403, 404): the token is revoked or the host retired.
    """
    deadline = time.monotonic() + timeout_s
    delay_s = 0.1
    while True:
        limit_s = max(deadline - time.monotonic(), _REQUEST_MINIMUM_S)
        response = client.request("GET", f"/api/v1/submissions/{submission_id}", limit_s=limit_s)
        if classify_response(response, submission_id=submission_id) == DeliveryOutcome.REFUSED:
            raise ConfigurationError(
                f"submission {submission_id} was received, but its state cannot be read: {response.describe()}"
            )
        submission_status = _read_submission_status(response.body or {})
        if submission_status.state != "received" or time.monotonic() + delay_s > deadline:
            return submission_status
        tick()
        time.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 2.0)


def _read_submission_status(body: Mapping[str, Any]) -> SubmissionStatus:
    state = body.get("state")
    listed = body.get("runs")
    runs = [run for run in listed if isinstance(run, dict)] if isinstance(listed, list) else []
    reason = body.get("reason")
    return SubmissionStatus(
        state=state if state in ("stored", "rejected") else "received",
        run_ids=tuple(run["id"] for run in runs if isinstance(run.get("id"), int)),
        pages=tuple(str(run["page"]) for run in runs if run.get("page")),
        reason=str(reason.get("detail") or reason.get("code")) if isinstance(reason, dict) else None,
    )
