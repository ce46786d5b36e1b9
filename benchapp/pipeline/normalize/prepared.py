"""Store new results in one step: those of files, which need no durable copy before they are processed.

A result is prepared without the database, also in another process: packed, parsed and converted to rows. Submissions
and runs are stored in one transaction, so that a kill at any instant leaves none of them or all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import orjson
from django.db import transaction
from django.utils import timezone

from benchapp.fio import PARSER_VERSION
from benchapp.models import Host, State
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.intake.submissions import (
    IncomingSubmission,
    PackedSubmission,
    SettledSubmission,
    insert_settled,
    pack_submission,
)
from benchapp.pipeline.normalize.batch import Rejection, exclude_imports, list_failures, plan_or_reject
from benchapp.pipeline.normalize.plan import Plan
from benchapp.pipeline.normalize.sender_context import SubmissionSource
from benchapp.pipeline.normalize.store import store_plans
from benchapp.pipeline.requests.polling import settle_requests


class ScopeChanged(Exception):
    """The host got another pool after its results were prepared."""


@dataclass(frozen=True, slots=True)
class PreparedSubmission:
    """A submission with its rows, or the reason of its rejection. scope: of its host when it was prepared."""

    packed: PackedSubmission
    scope: str
    received_at: datetime
    outcome: Plan | Rejection


def prepare_submission(
    submission: IncomingSubmission, *, scope: str, received_at: datetime
) -> PreparedSubmission:
    """Return a submission with its rows, without its unpacked body; reads and writes nothing."""
    packed = pack_submission(submission)
    source = SubmissionSource(
        submission_id=packed.id,
        host_id=packed.host_id,
        scope=scope,
        kind=packed.kind,
        body=packed.unpack().body,
        parameters=orjson.loads(packed.parameters),
        received_at=received_at,
    )
    outcome = plan_or_reject(source)
    if isinstance(outcome, Plan):
        source = replace(source, body=b"")
        runs = tuple(replace(run, source=source) for run in outcome.runs)
        outcome = replace(outcome, source=source, runs=runs)
    return PreparedSubmission(packed, scope, received_at, outcome)


@retry_conflicts
@transaction.atomic
def store_prepared(submissions: Sequence[PreparedSubmission]) -> set[UUID]:
    """Store those whose ids are not known, with their runs; return their ids. Of two with the same id the first counts.

    All have the same host. Raises ScopeChanged, or ImportRunning while an archive is imported.
    """
    exclude_imports()
    for host in Host.objects.filter(pk__in={each.packed.host_id for each in submissions}):
        if any(each.scope != host.scope for each in submissions):
            raise ScopeChanged(f"host {host.name} belongs to {host.scope} now")
    now = timezone.now()
    first = {each.packed.id: each for each in reversed(submissions)}
    new = insert_settled([_settle(each) for each in first.values()], parser_version=PARSER_VERSION, now=now)
    outcomes = [
        each.outcome for each in submissions if first[each.packed.id] is each and each.packed.id in new
    ]
    plans = [outcome for outcome in outcomes if isinstance(outcome, Plan)]
    rejections = [outcome for outcome in outcomes if isinstance(outcome, Rejection)]
    store_plans(plans)
    settle_requests(
        [plan.source.submission_id for plan in plans],
        list_failures(plans, rejections),
        now=now,
    )
    return new


def _settle(prepared: PreparedSubmission) -> SettledSubmission:
    outcome = prepared.outcome
    if isinstance(outcome, Plan):
        return SettledSubmission(prepared.packed, prepared.scope, prepared.received_at, State.STORED)
    return SettledSubmission(
        prepared.packed,
        prepared.scope,
        prepared.received_at,
        State.REJECTED,
        reason_code=outcome.code,
        reason=outcome.stored_reason,
    )
