"""Create, cancel and restore detection policies; cancel can be undone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog
from django.db import transaction
from django.utils import timezone

from benchapp.grammar import BadFilter, canonicalize_filter, parse_filter
from benchapp.metrics import JUDGED_METRICS
from benchapp.models import (
    THRESHOLD_MAXIMUM,
    THRESHOLD_MINIMUM,
    AuditKind,
    DetectionPolicy,
    DetectionPolicyAction,
    DetectionPolicyLogEntry,
    Series,
    User,
)
from benchapp.models.policies.thresholds import list_matching_series
from benchapp.pipeline.audit import record_write, snapshot
from benchapp.pipeline.bad_value import BadValue
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.detection.pooled import repeat_pooled_evaluations

log = structlog.get_logger(__name__)

POLICY_REASON_MAXIMUM: Final = 500
LABEL_MAXIMUM: Final = 300
# Detection evaluates each different filter for each batch of series.
POLICIES_MAXIMUM: Final = 100
_AUDITED: Final = ("metric", "smallest_change", "filter", "label", "reason", "canceled_at")


class BadDetectionPolicy(BadValue):
    """An invalid policy."""


class UnknownDetectionPolicy(Exception):
    """A policy that does not exist."""


@dataclass(frozen=True, slots=True)
class ThresholdPlan:
    """A validated threshold for the series of a filter and a label, as of `DetectionPolicy`."""

    metric: str
    smallest_change: float
    filter: str
    label: str


def read_threshold_plan(metric: str, smallest_change: float, *, filter: str, label: str) -> ThresholdPlan:
    """Return the validated values. smallest_change: relative. Raises BadDetectionPolicy."""
    if metric not in JUDGED_METRICS:
        raise BadDetectionPolicy("metric", f"choose one of {', '.join(JUDGED_METRICS)}")
    # Also false for NaN.
    if not THRESHOLD_MINIMUM <= smallest_change <= THRESHOLD_MAXIMUM:
        raise BadDetectionPolicy(
            "smallest_change", f"choose {THRESHOLD_MINIMUM * 100:.0f} to {THRESHOLD_MAXIMUM * 100:.0f} %"
        )
    try:
        written = canonicalize_filter(filter)
        terms = parse_filter(written).fact_terms
    except BadFilter as error:
        raise BadDetectionPolicy("filter", str(error)) from error
    if terms:
        # The runs of a series differ in them: the threshold would change with the next upgrade.
        raise BadDetectionPolicy(
            "filter", f"{terms[0].dimension} is a fact of runs; name hosts, pools, layouts or workloads"
        )
    key, separator, value = (part.strip() for part in label.partition("="))
    text = f"{key}{separator}{value}"
    if text and not (separator and key and value):
        raise BadDetectionPolicy("label", "write KEY=VALUE")
    if len(text) > LABEL_MAXIMUM or "\x00" in text:
        raise BadDetectionPolicy("label", f"at most {LABEL_MAXIMUM} characters, without NUL")
    return ThresholdPlan(metric, smallest_change, written, text)


def read_policy_reason(reason: str) -> str:
    """Return the reason in one line. Raises BadDetectionPolicy."""
    text = " ".join(reason.replace("\x00", "\ufffd").split())
    if not text:
        raise BadDetectionPolicy("reason", "a reason is required")
    if len(text) > POLICY_REASON_MAXIMUM:
        raise BadDetectionPolicy(
            "reason", f"at most {POLICY_REASON_MAXIMUM} characters; this has {len(text)}"
        )
    return text


@retry_conflicts
def create_detection_policy(
    metric: str,
    smallest_change: float,
    *,
    filter: str,
    label: str,
    reason: str,
    by: User | None,
    via: str = "",
) -> DetectionPolicy:
    """Create a policy for present and future series that match; their metrics are evaluated again.

    by: the owner; via: the API token, for the activity log. Raises BadDetectionPolicy.
    """
    plan = read_threshold_plan(metric, smallest_change, filter=filter, label=label)
    text = read_policy_reason(reason)
    with transaction.atomic():
        _refuse_too_many()
        policy = DetectionPolicy.objects.create(
            metric=plan.metric,
            smallest_change=plan.smallest_change,
            filter=plan.filter,
            label=plan.label,
            reason=text,
            created_by=by,
        )
        _log_action(policy, DetectionPolicyAction.CREATED, by=by, via=via, at=policy.created_at)
    return policy


@retry_conflicts
def cancel_detection_policy(policy_id: int, *, by: User | None, via: str = "") -> DetectionPolicy:
    """Cancel a policy and return it; canceling it again changes nothing. Raises UnknownDetectionPolicy."""
    with transaction.atomic():
        policy, now = _lock(policy_id), timezone.now()
        if policy.canceled_at is None:
            before = snapshot(policy, *_AUDITED)
            _change(policy, canceled_at=now, canceled_by=by)
            _log_action(policy, DetectionPolicyAction.CANCELED, by=by, via=via, at=now, before=before)
    return policy


@retry_conflicts
def restore_detection_policy(policy_id: int, *, by: User | None, via: str = "") -> DetectionPolicy:
    """Restore a canceled policy and return it; restoring it again changes nothing.

    Raises UnknownDetectionPolicy, or BadDetectionPolicy if there are too many.
    """
    with transaction.atomic():
        policy = _lock(policy_id)
        if policy.canceled_at is not None:
            _refuse_too_many()
            before, now = snapshot(policy, *_AUDITED), timezone.now()
            _change(policy, canceled_at=None, canceled_by=None)
            _log_action(policy, DetectionPolicyAction.RESTORED, by=by, via=via, at=now, before=before)
    return policy


def _refuse_too_many() -> None:
    if DetectionPolicy.objects.filter(canceled_at=None).count() >= POLICIES_MAXIMUM:
        raise BadDetectionPolicy(
            "", f"the limit of {POLICIES_MAXIMUM} policies is reached: cancel some first"
        )


def _lock(policy_id: int) -> DetectionPolicy:
    policy = DetectionPolicy.objects.select_for_update(no_key=True).filter(pk=policy_id).first()
    if policy is None:
        raise UnknownDetectionPolicy(f"detection policy {policy_id} does not exist")
    return policy


def _change(policy: DetectionPolicy, **values: Any) -> None:
    for name, value in values.items():
        setattr(policy, name, value)
    policy.save(update_fields=list(values))


def _log_action(
    policy: DetectionPolicy,
    action: DetectionPolicyAction,
    *,
    by: User | None,
    via: str,
    at: datetime,
    before: dict[str, Any] | None = None,
) -> None:
    """Write an entry of the activity log, and mark matching series and their pooled levels for evaluation.

    Rows are locked in the order of ids.
    """
    DetectionPolicyLogEntry.objects.create(policy=policy, at=at, by=by, via=via, action=action)
    record_write(
        AuditKind.DETECTION_POLICY,
        action.value,
        object_id=policy.pk,
        name=policy.reason,
        before=before,
        after=snapshot(policy, *_AUDITED),
        by=by,
    )
    ids = list_matching_series(policy.filter, policy.label)
    list(Series.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk"))
    Series.objects.filter(pk__in=ids).update(judging_is_due=True)
    repeat_pooled_evaluations(ids)
    log.info(
        "detection_policy.action",
        policy=policy.pk,
        action=action.value,
        by=by.username if by else "",
        via=via,
    )
