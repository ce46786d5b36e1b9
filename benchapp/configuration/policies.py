"""Detection policies. The policies of one metric, filter and label are one entry: the newest applies.

A policy is never changed, so that its log names who set which threshold when.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from benchapp.configuration.section import ConfigurationSection, Member, StoredEntry, Values
from benchapp.models import DetectionPolicy, User
from benchapp.pipeline.policies.policies import (
    cancel_detection_policy,
    create_detection_policy,
    read_policy_reason,
    read_threshold_plan,
)


def _normalize(values: Values) -> Values:
    plan = read_threshold_plan(
        values["metric"], values["smallest_change"], filter=values["filter"], label=values["label"]
    )
    return {**asdict(plan), "reason": read_policy_reason(values["reason"])}


def _list_stored() -> Sequence[StoredEntry]:
    """Return the policies in effect, of equals the newest: the others have no effect."""
    newest = {
        _identify_row(row): row for row in DetectionPolicy.objects.filter(canceled_at=None).order_by("pk")
    }
    return [
        StoredEntry(row, {name: getattr(row, name) for name in DETECTION_POLICIES.members})
        for row in sorted(newest.values(), key=lambda row: row.pk)
    ]


def _identify_row(row: DetectionPolicy) -> tuple[str, str, str]:
    return row.metric, row.filter, row.label


def _create(values: Values, by: User | None) -> None:
    create_detection_policy(
        values["metric"],
        values["smallest_change"],
        filter=values["filter"],
        label=values["label"],
        reason=values["reason"],
        by=by,
    )


def _remove(stored: StoredEntry, by: User | None) -> None:
    """Cancel the policy and those that it replaced, which would apply again."""
    row = stored.row
    replaced = DetectionPolicy.objects.filter(
        canceled_at=None, metric=row.metric, filter=row.filter, label=row.label
    )
    for policy_id in list(replaced.order_by("pk").values_list("pk", flat=True)):
        cancel_detection_policy(policy_id, by=by)


DETECTION_POLICIES: Final = ConfigurationSection(
    name="detection_policies",
    noun="detection policy",
    members={
        "metric": Member(str, is_required=True),
        "smallest_change": Member(float, is_required=True),
        "filter": Member(str, default=""),
        "label": Member(str, default=""),
        "reason": Member(str, is_required=True),
    },
    identify=lambda values: (values["metric"], values["filter"], values["label"]),
    title=lambda values: ", ".join(
        part for part in (values["metric"], values["filter"] or "all series", values["label"]) if part
    ),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    remove=_remove,
    is_unique=True,
)
