"""Detection policies. The policies of one metric, filter and label are one entry: the newest applies.

A policy is never changed, so that its log names who set which threshold when.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from benchapp.models import DetectionPolicy, User
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    StoredEntry,
    list_members,
    normalize_entry,
)
from benchapp.policies.write import POLICIES


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


def _remove(stored: StoredEntry, by: User | None) -> None:
    """Cancel the policy and those that it replaced, which would apply again."""
    row = stored.row
    replaced = DetectionPolicy.objects.filter(
        canceled_at=None, metric=row.metric, filter=row.filter, label=row.label
    )
    for policy_id in list(replaced.order_by("pk").values_list("pk", flat=True)):
        POLICIES.cancel(policy_id, by=by)


DETECTION_POLICIES: Final = ConfigurationSection(
    name="detection_policies",
    noun="detection policy",
    members=list_members(DetectionPolicy),
    identify=lambda values: (values["metric"], values["filter"], values["label"]),
    title=lambda values: ", ".join(
        part for part in (values["metric"], values["filter"] or "all series", values["label"]) if part
    ),
    normalize=partial(normalize_entry, POLICIES),
    list_stored=_list_stored,
    create=lambda values, by: POLICIES.create(DetectionPolicy(**values), by=by),
    remove=_remove,
    is_unique=True,
)
