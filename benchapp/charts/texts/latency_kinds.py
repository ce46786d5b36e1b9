"""Which latency of fio a chart is of, and what is not compared with it."""

from collections.abc import Mapping
from datetime import datetime

from benchapp.catalog.metrics import KIND_NAMES, format_count
from benchapp.framework.times import format_day


def describe_kind(kind: str, switched_at: datetime | None) -> str:
    """Return the kind of a level, and since when if values of the other kind came before; "" if unknown."""
    if not kind:
        return ""
    name = f"{KIND_NAMES[kind][0].upper()}{KIND_NAMES[kind][1:]}"
    if switched_at is None:
        return f"{name}."
    (other,) = KIND_NAMES.keys() - {kind}
    return f"{name} since {format_day(switched_at)}; {KIND_NAMES[other]} before is not compared."


def describe_mixed_kinds(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence if a chart has series of both kinds. counts: of the series of each kind."""
    known = [(count, KIND_NAMES[kind]) for kind, count in sorted(counts.items()) if kind and count]
    if len(known) < 2:
        return []
    named = ", ".join(f"{name} of {format_count(count, 'series')}" for count, name in known)
    return [f"Two kinds of latency: {named}. They differ by the submission latency."]
