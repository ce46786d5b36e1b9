"""Automatic confirmation of changes, per pool; a pool without an entry has none."""

from collections.abc import Sequence
from typing import Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import CONFIRMATION_RUNS_MAXIMUM, DAILY_SHARE_DEFAULT, ConfirmationPolicy, User
from benchapp.operation.configuration.hosts import read_pool
from benchapp.operation.configuration.section import ConfigurationSection, Member, StoredEntry, Values
from benchapp.requests.write.confirmation import check_confirmation_policy, set_confirmation_policy


def _normalize(values: Values) -> Values:
    if values["runs"] == 0:
        raise BadValue(
            "runs", f"choose 1 to {CONFIRMATION_RUNS_MAXIMUM} runs; a pool without any has no entry"
        )
    check_confirmation_policy(runs=values["runs"], daily_share=values["daily_share"])
    return {**values, "pool": read_pool(values["pool"])}


def _list_stored() -> Sequence[StoredEntry]:
    return [
        StoredEntry(row, {"pool": row.pool, "runs": row.runs, "daily_share": row.daily_share})
        for row in ConfirmationPolicy.objects.order_by("pool")
    ]


def _create(values: Values, by: User | None) -> None:
    set_confirmation_policy(values["pool"], runs=values["runs"], daily_share=values["daily_share"], by=by)


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    _create(values, by)


def _remove(stored: StoredEntry, by: User | None) -> None:
    set_confirmation_policy(stored.row.pool, runs=0, daily_share=stored.row.daily_share, by=by)


CONFIRMATION_POLICIES: Final = ConfigurationSection(
    name="confirmation_policies",
    noun="confirmation policy",
    members={
        "pool": Member(str, is_required=True),
        "runs": Member(int, is_required=True),
        "daily_share": Member(float, default=DAILY_SHARE_DEFAULT),
    },
    identify=lambda values: values["pool"],
    title=lambda values: f"of pool {values['pool']}" if values["pool"] else "of hosts without a pool",
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
    is_unique=True,
)
