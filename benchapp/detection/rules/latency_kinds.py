"""Divide the values of a latency metric by the kind of latency that fio measured: clat and lat are not compared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class KindSection:
    """The values of one kind, "" if all are of unknown kind. is_member: of each value."""

    kind: str
    is_member: NDArray[np.bool_]


def divide_kinds(
    kinds: NDArray[np.str_], times: NDArray[np.int64], is_known: NDArray[np.bool_]
) -> list[KindSection]:
    """Return the sections of the known values of a metric, the newest last; empty without known values.

    kinds: "clat", "lat", or "" for a value that belongs to either. times: ascending. The newest section has all values
    of the newest kind. What came before its first value is divided likewise. Values of another kind in between are in
    no section: a single run with other options ends no level.
    """
    sections: list[KindSection] = []
    is_left = is_known
    while (named := np.flatnonzero(is_left & (kinds != ""))).size:
        kind = str(kinds[named[-1]])
        first = times[np.flatnonzero(is_left & (kinds == kind))[0]]
        is_member = is_left & (times >= first) & ((kinds == kind) | (kinds == ""))
        sections.append(KindSection(kind, is_member))
        is_left = is_left & (times < first)
    if is_left.any():
        oldest = sections.pop() if sections else KindSection("", is_left)
        sections.append(KindSection(oldest.kind, oldest.is_member | is_left))
    return sections[::-1]


def find_newest_kind(kinds: Sequence[str]) -> str:
    """Return the newest known kind of values, oldest first; "" if all are unknown."""
    return next((kind for kind in reversed(kinds) if kind), "")
