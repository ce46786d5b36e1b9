"""What to measure next, as a section of a page."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class NextRunLine:
    """A row of the table."""

    title: str
    load: str
    reasons: tuple[str, ...]
    runs: int
    problem: str


@dataclass(frozen=True, slots=True)
class NextRunCommand:
    """A command with its host. id: of its line. job_file: its text, "" without one; job_file_name: in the command."""

    id: str
    host: str
    line: str
    duration: str
    job_file: str
    job_file_name: str


@dataclass(frozen=True, slots=True)
class NextRunsSection:
    """What `_next_runs.html` shows."""

    sentence: str
    has_loads: bool
    lines: tuple[NextRunLine, ...]
    commands: tuple[NextRunCommand, ...]


def show_next_runs(plan: NextRuns, *, nothing: str = NOTHING_DECIDES) -> NextRunsSection:
    """Show a plan; nothing: the sentence without measurements."""
    return NextRunsSection(
        describe_next_runs(plan, nothing=nothing),
        any(format_queue_depth(measured) for measured in plan.measurements),
        tuple(_make_line(measured) for measured in plan.measurements),
        tuple(
            NextRunCommand(
                id=f"next-{number}",
                host=command.host,
                line=write_command(command),
                duration=describe_duration(command),
                job_file=command.job_file,
                job_file_name=command.argv[3] if command.job_file else "",
            )
            for number, command in enumerate(plan.commands, start=1)
        ),
    )


def _make_line(measured: NextRun) -> NextRunLine:
    is_measurable = measured.runs and not measured.is_possible
    return NextRunLine(
        measured.title,
        format_queue_depth(measured),
        tuple(describe_reason(reason, measured) for reason in measured.reasons),
        measured.runs,
        NOT_POSSIBLE if is_measurable else "",
    )
