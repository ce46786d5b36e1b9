"""The section with recent environment changes: each leads to its comparison on all hosts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import format_count, lower_label
from benchapp.overview.read.environment_changes import RecentChange
from benchapp.series.read.environment_changes import link_comparison
from benchapp.series.read.titles import describe_value

SHOWN_MAXIMUM: Final = 6
_NAMED_MAXIMUM: Final = 3


@dataclass(frozen=True, slots=True)
class ChangeLink:
    """One change. text: "kernel 5.15 → 6.1"; where: "on 7 hosts", "on db-09"; url: of its comparison."""

    text: str
    where: str
    since_at: datetime
    url: str | None


def make_change_links(changes: Sequence[RecentChange]) -> list[ChangeLink]:
    """Return the first changes as links."""
    return [
        ChangeLink(
            text=f"{lower_label(DIMENSIONS[change.name].label)} {describe_value(change.name, change.before)} →"
            f" {describe_value(change.name, change.after)}",
            where=_describe_scopes(change.scopes),
            since_at=change.since_at,
            url=link_comparison(change.name, change.before, change.after),
        )
        for change in changes[:SHOWN_MAXIMUM]
    ]


def _describe_scopes(scopes: Sequence[str]) -> str:
    if len(scopes) <= _NAMED_MAXIMUM:
        return f"on {', '.join(scopes)}"
    return f"on {format_count(len(scopes), 'host')}"
