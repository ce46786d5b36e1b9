"""Context of the fio output as sent: envelope, parameters, or published document."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from benchapp.catalog.metrics import INCOMPLETE, describe_error
from benchapp.fio import UnreadableOutput
from benchapp.fio.report import Report
from benchapp.intake.posts.envelope import BadEnvelope, SendingAgent, locate_parameter, read_envelope
from benchapp.intake.posts.metadata import read_environment, read_target
from benchapp.intake.posts.published_document import ReportedRun
from benchapp.models import Kind
from benchapp.series.validity.rules import RunFailure
from benchapp.storage.rules.target_name import NameMapping

# fio exits with status 0 after a signal that killed one of its jobs, old versions after any signal.
_SIGNAL: Final = re.compile(
    r"^fio: (?:terminating on signal |pid=\d{1,10}, got signal=)(\d{1,2})\b", re.MULTILINE
)
# As agents without command.failure report what they stopped.
_STOPPED: Final = re.compile(r"^bench-agent: (stopped .+)$", re.MULTILINE)


def find_failure(report: Report, number: int, command: Mapping[str, Any]) -> RunFailure | None:
    """Return why the run of a document failed, None if it did not.

    command: as the agent sent it, {} without one. What it reports holds for all documents of a submission, a signal
    that only the output reports for the last one.
    """
    document = report.documents[number]
    job = next((job for job in document.jobs if job.error), None)
    is_last = number == len(report.documents) - 1
    signal = _SIGNAL.search("\n".join(report.messages)) if is_last else None
    if reason := command.get("failure") or describe_exit(command):
        pass
    elif signal:
        reason = f"fio or one of its jobs was stopped by signal {signal.group(1)}"
    elif job:
        reason = f"fio reported {describe_error(job.error)} of job {job.name}"
    elif document.is_partial and not document.has_faults:
        reason = "the report of fio is incomplete"
    else:
        return None
    return RunFailure(job.error if job else INCOMPLETE, reason)


def describe_exit(command: Mapping[str, Any]) -> str:
    """Return how the agent says that fio ended, "" if it ended normally."""
    error_output = str(command.get("stderr") or "")
    if stopped := _STOPPED.search(error_output):
        return f"fio was {stopped.group(1)}"
    if command.get("signal"):
        return f"fio was killed by signal {command['signal']}"
    if command.get("exit_status"):
        return f"fio exited with status {command['exit_status']}"
    signal = _SIGNAL.search(error_output)
    return f"fio or one of its jobs was stopped by signal {signal.group(1)}" if signal else ""


class Unstorable(Exception):
    """A submission that cannot be stored; a retry does not help. `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class SubmissionSource:
    """A submission as the plan needs it: scope and mappings are the host's, body the exact bytes received.

    changes: by document, what people relabeled.
    """

    submission_id: UUID
    host_id: int
    scope: str
    kind: str
    body: bytes
    parameters: Mapping[str, Any]
    received_at: datetime
    mappings: Sequence[NameMapping] = ()
    changes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SenderContext:
    """Context of the fio output as sent: envelope, parameters, or published document.

    parameters: of the profile; None if unknown. targets: as in `Envelope`. time_zone: of dates in text output.
    relabeled: members of the target that go before what an agent describes.
    """

    output: bytes
    profile: str
    parameters: Mapping[str, int | str] | None
    started_at: datetime | None
    finished_at: datetime | None
    target: Mapping[str, Any]
    labels: Mapping[str, str]
    environment: Mapping[str, Any]
    conditions: Mapping[str, Any]
    command: Mapping[str, Any]
    sweep_id: UUID | None
    agent: SendingAgent
    logs: Mapping[str, str]
    targets: Sequence[Mapping[str, Any]] = ()
    time_zone: ZoneInfo | None = None
    relabeled: Mapping[str, Any] = field(default_factory=dict)


def parse_context(source: SubmissionSource) -> SenderContext:
    """Return the output of a submission and its context. Raises Unstorable for an invalid envelope."""
    if source.kind == Kind.ENVELOPE:
        try:
            envelope = read_envelope(source.body)
        except BadEnvelope as error:
            raise Unstorable(error.code, str(error)) from error
        return SenderContext(
            output=envelope.fio_output.encode(),
            profile=envelope.profile,
            parameters=envelope.parameters,
            started_at=envelope.started_at,
            finished_at=envelope.finished_at,
            target=envelope.target,
            labels=envelope.labels,
            environment={**envelope.environment, "agent_version": envelope.agent.version or None},
            conditions=envelope.conditions,
            command=envelope.command,
            sweep_id=envelope.sweep_id,
            agent=envelope.agent,
            logs=envelope.logs,
            targets=envelope.targets,
        )
    parameters = source.parameters
    started_at = parameters.get("started_at")
    return SenderContext(
        output=source.body,
        profile=parameters.get("profile") or "",
        parameters=None,
        started_at=datetime.fromisoformat(started_at) if started_at else None,
        finished_at=None,
        target=parameters.get("target") or read_target({}),
        labels=parameters.get("labels") or {},
        environment=parameters.get("environment") or read_environment({}),
        conditions={},
        command={},
        sweep_id=None,
        agent=SendingAgent(),
        logs={},
        time_zone=find_time_zone(parameters),
    )


_Stated = TypeVar("_Stated", SenderContext, ReportedRun)


def relabel(sender: _Stated, changes: Mapping[str, Any]) -> tuple[_Stated, dict[str, Any] | None]:
    """Return the context as people relabeled it, and what the sender stated instead, None for unchanged ones."""
    if not changes:
        return sender, None
    parts: dict[str, dict[str, Any]] = {
        "target": dict(sender.target),
        "labels": dict(sender.labels),
        "environment": dict(sender.environment),
        "run": {"profile": sender.profile},
    }
    stated = {}
    for name, value in changes.items():
        part, member = locate_parameter(name)
        stated[name] = parts[part].pop(member, None)
        if value is not None or part != "labels":
            parts[part][member] = value
    more: dict[str, Any] = {"profile": parts.pop("run")["profile"], **parts}
    if isinstance(sender, SenderContext):
        members = (member for part, member in map(locate_parameter, changes) if part == "target")
        more["relabeled"] = {member: parts["target"][member] for member in members}
    return replace(sender, **more), stated


def find_time_zone(parameters: Mapping[str, Any]) -> ZoneInfo | None:
    """Return the time zone that a sender named for dates in text output."""
    name = parameters.get("time_zone")
    return ZoneInfo(name) if name else None


def describe_unreadable(error: UnreadableOutput, command: Mapping[str, Any]) -> str:
    """Return why the output cannot be parsed, with fio's exit status and last error message if they were sent."""
    parts = [error.detail]
    if how := describe_exit(command):
        parts.append(how)
    error_output = str(command.get("stderr") or "").strip()
    if error_output:
        parts.append(f"fio printed: {error_output.splitlines()[-1][:500]}")
    return "; ".join(parts)
