"""Texts about what to measure next."""

from datetime import timedelta
from shlex import join
from typing import Final

from benchapp.catalog.metrics import CATALOG, format_count, format_percent, format_with_unit, lower_label
from benchapp.layouts.read.next_runs import RUNS_MAXIMUM, NextRun, NextRuns, RunReason
from benchapp.layouts.read.run_commands import RunCommand

NOT_POSSIBLE: Final = (
    "needs a new host or volume: no host has this layout in a directory whose newest run is of the last year"
)
_OTHER_DIRECTION: Final = {"read": "writes", "write": "reads"}


NOTHING_DECIDES: Final = "Nothing to measure: more runs of these layouts would not change the answer."
NOTHING_MISSING: Final = (
    "Nothing to measure: no combination has a gap, few runs, an old level or a wide interval."
)


def describe_next_runs(plan: NextRuns, *, nothing: str = NOTHING_DECIDES) -> str:
    """Return the plan in a sentence. nothing: the sentence without measurements."""
    if not plan.measurements:
        return nothing
    if not plan.commands:
        return "No host can carry out these runs."
    duration = format_duration(plan.duration_s)
    took = f", {duration}" if duration else ", duration unknown"
    more = f" {format_count(plan.more, 'more gap')} not listed." if plan.more else ""
    return f"{format_count(plan.run_count, 'run')}{took} in total.{more}"


def describe_reason(reason: RunReason, measured: NextRun) -> str:
    """Return why to measure: "only 2 runs", "newest run 190 days ago"."""
    if reason.name == "few-runs":
        return f"only {format_count(measured.n, 'run')}"
    if reason.name == "missing":
        return "never measured"
    if reason.name == "failed":
        return "every run failed"
    if reason.name == "wide":
        spread = "" if reason.spread is None else format_percent(reason.spread)
        text = f"95 % interval of the median wider than ±5 %, spread {spread}"
        return text if reason.runs is not None else f"{text}: more than {RUNS_MAXIMUM} runs would be needed"
    if reason.name == "old":
        age = measured.age or timedelta()
        return f"newest run {format_count(age.days, 'day')} ago"
    if reason.name == "one-direction":
        missing = ", ".join(_OTHER_DIRECTION.get(each, each) for each in measured.directions)
        return f"{missing} of the mix not measured"
    name = "" if reason.metric is None else lower_label(CATALOG[reason.metric].label)
    if reason.name == "unknown":
        at = "this load" if measured.iops is None else format_with_unit(measured.iops, CATALOG["iops"])
        return f"{name} at {at} unknown"
    gap = "" if reason.gap is None else format_percent(reason.gap)
    spread = "" if reason.spread is None else format_percent(reason.spread)
    other = "the requirement" if reason.name == "near-requirement" else "that of the other candidate"
    text = f"{name} {gap} from {other}, spread {spread}"
    return text if reason.runs is not None else f"{text}: more than {RUNS_MAXIMUM} runs would be needed"


def format_queue_depth(measured: NextRun) -> str:
    """Return queue depth and jobs: "32 × 1"; "" for a combination of a chart."""
    if measured.iodepth is None and measured.numjobs is None:
        return ""
    return " × ".join("?" if each is None else str(each) for each in (measured.iodepth, measured.numjobs))


def write_command(command: RunCommand) -> str:
    """Return the shell line of a command; several runs are a loop."""
    line = join(command.argv)
    if command.runs == 1:
        return line
    return f"for run in $(seq {command.runs}); do {line}; done"


def describe_duration(command: RunCommand) -> str:
    """Return the expected duration of a command: "4 × 18 s", and where it comes from."""
    one = format_duration(command.duration_s)
    if not one:
        return "duration unknown"
    source = "as earlier runs" if command.is_duration_stored else "runtime of the workload"
    return f"{one if command.runs == 1 else f'{command.runs} × {one}'} ({source})"


def format_duration(duration_s: float | None) -> str:
    """Return a duration in its largest unit: "18 s", "12 min", "3.5 h"; "" if unknown."""
    if duration_s is None:
        return ""
    if duration_s < 120:
        return f"{max(1, round(duration_s))} s"
    if duration_s < 7200:
        return f"{round(duration_s / 60)} min"
    return f"{duration_s / 3600:.1f} h"
