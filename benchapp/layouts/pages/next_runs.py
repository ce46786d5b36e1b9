"""What to measure next, as a section of a page."""

from typing import Any

from benchapp.layouts.read.next_runs import NextRun, NextRuns
from benchapp.layouts.texts.next_runs import (
    NOT_POSSIBLE,
    NOTHING_DECIDES,
    describe_duration,
    describe_next_runs,
    describe_reason,
    format_queue_depth,
    write_command,
)


def show_next_runs(plan: NextRuns, *, nothing: str = NOTHING_DECIDES) -> dict[str, Any]:
    """Show a plan; nothing: the sentence without measurements."""
    return {
        "sentence": describe_next_runs(plan, nothing=nothing),
        "has_loads": any(format_queue_depth(measured) for measured in plan.measurements),
        "lines": tuple(_make_line(measured) for measured in plan.measurements),
        "commands": tuple(
            {
                "id": f"next-{number}",
                "host": command.host,
                "line": write_command(command),
                "duration": describe_duration(command),
                "job_file": command.job_file,
                "job_file_name": command.argv[3] if command.job_file else "",
            }
            for number, command in enumerate(plan.commands, start=1)
        ),
    }


def _make_line(measured: NextRun) -> dict[str, Any]:
    is_measurable = measured.runs and not measured.is_possible
    return {
        "title": measured.title,
        "load": format_queue_depth(measured),
        "reasons": tuple(describe_reason(reason, measured) for reason in measured.reasons),
        "runs": measured.runs,
        "problem": NOT_POSSIBLE if is_measurable else "",
    }
