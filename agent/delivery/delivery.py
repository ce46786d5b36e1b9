"""Bring what is in the spool to the server, within a budget of time."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Mapping

from agent.console import Console
from agent.delivery.client import (
    EXCHANGE_MAXIMUM_S,
    Answer,
    Client,
    Fate,
    choose_delay,
    judge_answer,
    read_retry_after,
)
from agent.delivery.spool import Entry, Spool
from agent.exit_codes import ExitCode, worst
from agent.quantities import format_duration

# Even at the end of its budget an attempt gets this long; less than a slow link needs would be no attempt.
_ATTEMPT_MINIMUM_S = 5.0


@dataclass
class Delivery:
    """What became of the spool. urls: where the delivered ones are, by id; problem: why some remain."""

    urls: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    remaining: int = 0
    verdict: ExitCode = ExitCode.OK
    problem: str | None = None

    def put_away(self, entry: Entry, put: Callable[[Entry], None]) -> None:
        """Move a result out of the queue; where the disk refuses, it is posted again with the next delivery."""
        try:
            put(entry)
        except OSError as error:
            self.remaining += 1
            self.verdict = worst(self.verdict, ExitCode.TRY_LATER)
            self.problem = f"{entry.path} cannot be put away: {error}"

    @property
    def exit_code(self) -> ExitCode:
        return worst(self.verdict, ExitCode.REJECTED if self.rejected else ExitCode.OK)


def deliver(
    spool: Spool, client: Client, *, console: Console, budget_s: float, first_id: str | None = None
) -> Delivery:
    """Post what waits, oldest first but first_id before all; call it under the lock.

    What the server cannot take now goes to the end of the queue, so that one result on which it stumbles does not
    hold up the others.
    """
    delivery = Delivery()
    deadline = time.monotonic() + budget_s
    queue = deque(sorted(spool.pending(), key=lambda entry: entry.id != first_id))
    delay_s = 0.0
    while queue:
        entry = queue.popleft()
        answer = _post(client, entry, remaining_s=deadline - time.monotonic())
        fate = judge_answer(answer, submission_id=entry.id)
        if fate == Fate.DELIVERED:
            delivery.urls[entry.id] = _find_url(answer, entry.id)
            delivery.put_away(entry, spool.remove)
            delay_s = 0.0
        elif fate == Fate.REJECTED:
            delivery.rejected[entry.id] = answer.describe()
            console.warn(f"result {entry.id} was rejected: {answer.describe()}; it is kept in rejected/")
            delivery.put_away(entry, partial(spool.reject, reason=_name_reason(answer)))
        elif fate == Fate.REFUSED:
            queue.append(entry)
            delivery.verdict = ExitCode.CONFIGURATION
            delivery.problem = answer.describe()
            break
        else:
            queue.append(entry)
            delay_s = choose_delay(delay_s, read_retry_after(answer))
            delivery.problem = answer.describe()
            if time.monotonic() + delay_s > deadline:
                delivery.verdict = worst(delivery.verdict, ExitCode.TRY_LATER)
                break
            console.note(f"{answer.describe()}; trying again in {format_duration(delay_s)}")
            time.sleep(delay_s)
    delivery.remaining += len(queue)
    return delivery


def _post(client: Client, entry: Entry, *, remaining_s: float) -> Answer:
    try:
        packed = entry.read()
    except OSError as error:
        return Answer(None, {}, None, f"{entry.path} cannot be read: {error}")
    return client.post_submission(
        entry.id, packed, limit_s=min(EXCHANGE_MAXIMUM_S, max(remaining_s, _ATTEMPT_MINIMUM_S))
    )


def _name_reason(answer: Answer) -> dict[str, Any]:
    body = answer.body or {}
    return {"status": answer.status, **{name: body.get(name) for name in ("code", "detail", "pointer")}}


def _find_url(answer: Answer, submission_id: str) -> str:
    url = (answer.body or {}).get("url") or answer.headers.get("location")
    return str(url) if url else f"/api/v1/submissions/{submission_id}"


@dataclass(frozen=True)
class Settlement:
    """What the server made of a submission. state: as the server says, or "received" while it does not."""

    state: str
    pages: tuple[str, ...]
    reason: str | None


def wait_until_settled(client: Client, submission_id: str, *, timeout_s: float) -> Settlement:
    """Ask until the submission is stored or rejected, or timeout_s is over."""
    deadline = time.monotonic() + timeout_s
    delay_s = 0.1
    while True:
        limit_s = max(deadline - time.monotonic(), _ATTEMPT_MINIMUM_S)
        answer = client.request("GET", f"/api/v1/submissions/{submission_id}", limit_s=limit_s)
        settlement = _read_settlement(answer.body or {})
        if settlement.state != "received" or time.monotonic() + delay_s > deadline:
            return settlement
        time.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 2.0)


def _read_settlement(body: Mapping[str, Any]) -> Settlement:
    state = body.get("state")
    runs = body.get("runs")
    reason = body.get("reason")
    return Settlement(
        state=state if state in ("stored", "rejected") else "received",
        pages=tuple(
            str(run["page"])
            for run in (runs if isinstance(runs, list) else [])
            if isinstance(run, dict) and run.get("page")
        ),
        reason=str(reason.get("detail") or reason.get("code")) if isinstance(reason, dict) else None,
    )
