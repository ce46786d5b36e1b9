"""Deliver the spool to the server within a time budget."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from agent.console import Console
from agent.delivery.client import (
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


@dataclass
class Delivery:
    """The result of a delivery.

    urls: of delivered results, rejected: reasons, both by id; remaining: results still in the queue; problem: why.
    """

    urls: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    remaining: int = 0
    exit_code: ExitCode = ExitCode.OK
    problem: str | None = None


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
                delay_s = 0.0
                spool.remove(entry)
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
    return delivery


def _post(client: Client, entry: Entry, *, limit_s: float) -> Response:
    """Post one result; a file that cannot be read is retried like a server without a response."""
    try:
        packed = entry.read()
    except OSError as error:
        return Response(None, {}, None, f"cannot read {entry.path}: {error}")
    return client.post_submission(entry.id, packed, limit_s=limit_s)


def _name_reason(response: Response) -> dict[str, Any]:
    body = response.body or {}
    return {"status": response.status, **{name: body.get(name) for name in ("code", "detail", "pointer")}}


def _find_url(response: Response, submission_id: str) -> str:
    url = (response.body or {}).get("url") or response.headers.get("location")
    return str(url) if url else f"/api/v1/submissions/{submission_id}"
