"""Wait until the server has stored or rejected a submission."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from agent.delivery.client import Client, DeliveryOutcome, classify_response
from agent.exit_codes import ConfigurationError

# Minimum time of a request, also at the end of the wait: a slow link needs it.
_REQUEST_MINIMUM_S = 5.0


@dataclass(frozen=True)
class SubmissionStatus:
    """The state of a submission on the server: received, stored or rejected. run_ids, pages: of its runs."""

    state: str
    run_ids: tuple[int, ...]
    pages: tuple[str, ...]
    reason: str | None


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
