"""Deliver the spool to the server within a time budget."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Mapping

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
from agent.delivery.spool import Entry, Spool
from agent.exit_codes import ExitCode, worst
from agent.quantities import format_duration

# Minimum time of an attempt, also at the end of the budget: a slow link needs it.
_ATTEMPT_MINIMUM_S = 5.0


@dataclass
class Delivery:
    """The result of a delivery. urls: of delivered results, by id; problem: why some remain."""

    urls: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    remaining: int = 0
    verdict: ExitCode = ExitCode.OK
    problem: str | None = None

    def finish_entry(self, entry: Entry, finish: Callable[[Entry], None]) -> None:
        """Remove a result from the queue; after a disk error the next delivery posts it again."""
        try:
            finish(entry)
        except OSError as error:
            self.remaining += 1
            self.verdict = worst(self.verdict, ExitCode.TRY_LATER)
            self.problem = f"cannot remove {entry.path} from the queue: {error}"

    @property
    def exit_code(self) -> ExitCode:
        return worst(self.verdict, ExitCode.REJECTED if self.rejected else ExitCode.OK)


def deliver(
    spool: Spool, client: Client, *, console: Console, budget_s: float, first_id: str | None = None
) -> Delivery:
    """Post pending results, first_id first, then oldest first; requires the lock.

    A result that fails temporarily moves to the end of the queue, so that it does not block the others.
    """
    delivery = Delivery()
    deadline = time.monotonic() + budget_s
    queue = deque(sorted(spool.pending(), key=lambda entry: entry.id != first_id))
    delay_s = 0.0
    while queue:
        entry = queue.popleft()
        response = _post(client, entry, remaining_s=deadline - time.monotonic())
        outcome = classify_response(response, submission_id=entry.id)
        if outcome == DeliveryOutcome.DELIVERED:
            delivery.urls[entry.id] = _find_url(response, entry.id)
            delivery.finish_entry(entry, spool.remove)
            delay_s = 0.0
        elif outcome == DeliveryOutcome.REJECTED:
            delivery.rejected[entry.id] = response.describe()
            console.warn(f"result {entry.id} was rejected: {response.describe()}; stored in rejected/")
            delivery.finish_entry(entry, partial(spool.reject, reason=_name_reason(response)))
        elif outcome == DeliveryOutcome.REFUSED:
            queue.append(entry)
            delivery.verdict = ExitCode.CONFIGURATION
            delivery.problem = response.describe()
            break
        else:
            queue.append(entry)
            delay_s = choose_delay(delay_s, read_retry_after(response))
            delivery.problem = response.describe()
            if time.monotonic() + delay_s > deadline:
                delivery.verdict = worst(delivery.verdict, ExitCode.TRY_LATER)
                break
            console.note(f"{response.describe()}; retrying in {format_duration(delay_s)}")
            time.sleep(delay_s)
    delivery.remaining += len(queue)
    return delivery


def _post(client: Client, entry: Entry, *, remaining_s: float) -> Response:
    try:
        packed = entry.read()
    except OSError as error:
        return Response(None, {}, None, f"cannot read {entry.path}: {error}")
    return client.post_submission(
        entry.id, packed, limit_s=min(EXCHANGE_MAXIMUM_S, max(remaining_s, _ATTEMPT_MINIMUM_S))
    )


def _name_reason(response: Response) -> dict[str, Any]:
    body = response.body or {}
    return {"status": response.status, **{name: body.get(name) for name in ("code", "detail", "pointer")}}


def _find_url(response: Response, submission_id: str) -> str:
    url = (response.body or {}).get("url") or response.headers.get("location")
    return str(url) if url else f"/api/v1/submissions/{submission_id}"


@dataclass(frozen=True)
class SubmissionStatus:
    """The state of a submission on the server: received, stored or rejected."""

    state: str
    pages: tuple[str, ...]
    reason: str | None


def wait_until_processed(client: Client, submission_id: str, *, timeout_s: float) -> SubmissionStatus:
    """Poll until the submission is stored or rejected, or timeout_s has passed."""
    deadline = time.monotonic() + timeout_s
    delay_s = 0.1
    while True:
        limit_s = max(deadline - time.monotonic(), _ATTEMPT_MINIMUM_S)
        response = client.request("GET", f"/api/v1/submissions/{submission_id}", limit_s=limit_s)
        submission_status = _read_submission_status(response.body or {})
        if submission_status.state != "received" or time.monotonic() + delay_s > deadline:
            return submission_status
        time.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 2.0)


def _read_submission_status(body: Mapping[str, Any]) -> SubmissionStatus:
    state = body.get("state")
    runs = body.get("runs")
    reason = body.get("reason")
    return SubmissionStatus(
        state=state if state in ("stored", "rejected") else "received",
        pages=tuple(
            str(run["page"])
            for run in (runs if isinstance(runs, list) else [])
            if isinstance(run, dict) and run.get("page")
        ),
        reason=str(reason.get("detail") or reason.get("code")) if isinstance(reason, dict) else None,
    )
