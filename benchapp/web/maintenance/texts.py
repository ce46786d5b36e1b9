"""Maintenance windows and expected changes in words."""

from collections.abc import Mapping

from benchapp.pipeline.maintenance.impact import RUNS_COUNTED, Impact
from benchapp.queries.maintenance import ExpectationRow, ExpectationState


def say_list(counts: Mapping[ExpectationState, int]) -> str:
    """Return the title of the list, with the answer in it."""
    running, coming = counts[ExpectationState.RUNNING], counts[ExpectationState.COMING]
    if not running and not coming:
        return "Maintenance and expected changes: none now, none to come"
    said = [f"{running} running"] if running else []
    said += [f"{coming} to come"] if coming else []
    return f"Maintenance and expected changes: {', '.join(said)}"


def say_expectation(row: ExpectationRow) -> str:
    """Return the title of one."""
    kind = "Maintenance" if row.is_maintenance else "Expected change"
    return f"{kind} of {row.filter or 'everything'}, {row.state.label}"


def say_effect(*, is_maintenance: bool) -> str:
    """Say what it does."""
    if is_maintenance:
        return (
            "Runs within it count in no level, and hosts that fall silent within it are not told; their runs stay "
            "in the charts."
        )
    return (
        "Changes that begin within it are recorded as incidents that are resolved as expected, and tell nobody; the "
        "new level is judged like any other."
    )


def say_reach(reach: Impact) -> list[str]:
    """Say what a filter leaves, and what lies within the span already."""
    if not reach.series and not reach.hosts:
        said = ["The filter leaves no series and no host: it holds for those that come."]
    else:
        said = [f"The filter leaves {_count(reach.series, 'series', 'series')} of {_say_hosts(reach)}."]
    if reach.has_more_runs:
        said.append(f"More than {RUNS_COUNTED} runs lie within it already.")
    else:
        verb = "lies" if reach.runs == 1 else "lie"
        when = "already" if reach.runs else "yet"
        said.append(f"{_count(reach.runs, 'run', 'runs').capitalize()} {verb} within it {when}.")
    return said


def _say_hosts(reach: Impact) -> str:
    if not reach.hosts:
        return "no host in service"
    names = ", ".join(reach.host_names)
    more = reach.hosts - len(reach.host_names)
    return f"{_count(reach.hosts, 'host', 'hosts')} ({names}{f' and {more} more' if more else ''})"


def _count(number: int, one: str, many: str) -> str:
    return f"{number or 'no'} {one if number == 1 else many}"
