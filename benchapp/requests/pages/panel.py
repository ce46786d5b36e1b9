"""The section "Requested runs" of the pages of a run, a series, a host and an incident."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest

from benchapp.catalog.metrics import format_percent
from benchapp.framework.pages.access import can
from benchapp.framework.pages.page_context import find_visitor
from benchapp.models import Role, RunRequestState
from benchapp.models.request_policy import REFUSALS, describe_parameters
from benchapp.requests.read.run_requests import (
    Repeatability,
    RequestFilter,
    RunRequestRow,
    page_run_requests,
    read_repeatability,
)

REQUESTS_ON_A_PAGE: Final = 10
# Runs that one button requests: the newest ones of an incident, each on another host or of another profile.
RUNS_REQUESTED_MAXIMUM: Final = 3
_CLASSES: Final = {
    RunRequestState.PENDING: "waiting",
    RunRequestState.RUNNING: "waiting",
    RunRequestState.DONE: "good",
    RunRequestState.FAILED: "bad",
    RunRequestState.DECLINED: "bad",
}


@dataclass(frozen=True, slots=True)
class RequestPanel:
    """The section. run_ids: what the button repeats, "" without one; offer: as text; obstacle: why there is no button.

    series_id, incident_id: of the page, to list its requests. has_more: older requests are left out.
    """

    lines: tuple[dict[str, Any], ...]
    has_more: bool
    run_ids: str
    offer: tuple[str, ...]
    obstacle: str
    series_id: int | None
    incident_id: int | None

    @property
    def is_shown(self) -> bool:
        """Return whether a page has the section: not where nobody can request a run, and nobody did."""
        return bool(self.lines or self.run_ids or self.obstacle)


def make_request_panel(
    request: HttpRequest, chosen: RequestFilter, *, find_runs: Callable[[], Sequence[int]]
) -> RequestPanel:
    """Return the section of a page. find_runs: returns what its button repeats, most important first; for editors."""
    page = page_run_requests(chosen, limit=REQUESTS_ON_A_PAGE)
    runs = read_repeatability(find_runs()) if can(find_visitor(request), Role.EDITOR) else []
    possible = _list_distinct([run for run in runs if run.refusal is None])
    refusals = {run.refusal for run in runs} - {None, "policy-unknown"}
    refusal = next((run.refusal for run in runs if run.refusal in refusals), None)
    return RequestPanel(
        lines=make_request_lines(page.items),
        has_more=page.next_cursor is not None,
        run_ids=",".join(str(run.run_id) for run in possible),
        offer=tuple(map(_describe_offer, possible)),
        obstacle=REFUSALS[refusal] if refusal and not possible else "",
        series_id=chosen.series_id,
        incident_id=chosen.incident_id,
    )


def make_request_lines(rows: Sequence[RunRequestRow]) -> tuple[dict[str, Any], ...]:
    """Return the rows of the table."""
    return tuple(map(_make_line, rows))


def _list_distinct(runs: Sequence[Repeatability]) -> list[Repeatability]:
    """Return one run for each host and specification, at most three."""
    found: dict[str, Repeatability] = {}
    for run in runs:
        found.setdefault(_describe_offer(run), run)
    return list(found.values())[:RUNS_REQUESTED_MAXIMUM]


def _describe_offer(run: Repeatability) -> str:
    """Return "quick runtime=10 on db-1, in /data"."""
    wanted = run.specification
    if wanted is None:
        return run.host_name
    parameters = describe_parameters(wanted.parameters)
    return f"{f'{wanted.profile} {parameters}'.strip()} on {run.host_name}, in {wanted.directory}"


def _make_line(row: RunRequestRow) -> dict[str, Any]:
    state = row.state.label.lower()
    if row.progress is not None:
        state = f"{state}, {format_percent(round(row.progress, 2))}"
    return {
        "row": row,
        "state": state,
        "css": _CLASSES.get(row.state, ""),
        "parameters": describe_parameters(row.parameters),
        "can_be_canceled": row.state == RunRequestState.PENDING,
    }
