"""What can be said of series at all, in words: learning, steady, too noisy, stale."""

from collections.abc import Sequence

from benchapp.metrics import CATALOGUE, SMALLEST_CHANGES, Metric
from benchapp.models import Standing
from benchapp.queries.incidents.detection_status import JudgedCounts, JudgementRow
from benchapp.web.incidents.texts import count_runs, describe_percent, say_since
from benchapp.web.site.value_texts import with_unit


def describe_status(counts: JudgedCounts) -> list[tuple[str, str]]:
    """Return (standing, words) of what is watched: "412 cells judged", "37 learning", "5 too noisy"."""
    known = counts.by_standing
    total = sum(known.values())
    said = f"more than {total - 1}" if counts.has_more else f"{total}"
    parts = [("", f"{said} {'cell' if total == 1 else 'cells'} judged")]
    for standing, words in (
        (Standing.LEARNING, "learning"),
        (Standing.NOISY, "too noisy"),
        (Standing.STALE, "stale"),
    ):
        if known.get(standing):
            parts.append((standing.value, f"{known[standing]} {words}"))
    return parts


def say_standings(rows: Sequence[JudgementRow], metric: Metric) -> list[str]:
    """Say what can be said of a metric of a series; another is named where that one stands for it."""
    by_metric = {row.metric: row for row in rows}
    if not by_metric:
        return ["Not judged yet: a series is looked at from its sixth run on."]
    own = by_metric.get(metric.name)
    if own is not None:
        return [say_standing(own)]
    # With one block size IOPS and bandwidth are one signal, of which one is judged.
    twin = {"iops": "bandwidth_bytes_per_s", "bandwidth_bytes_per_s": "iops"}.get(metric.name, "")
    if twin in by_metric:
        return [f"{CATALOGUE[twin].label} stands for {metric.label}. {say_standing(by_metric[twin])}"]
    judged = ", ".join(CATALOGUE[name].label for name in by_metric)
    return [f"Changes are not looked for in this metric; they are in {judged}."]


def say_standing(row: JudgementRow) -> str:
    """Say what can be said of a metric of a series at all, and what it would take to say more."""
    metric = CATALOGUE[row.metric]
    said = {
        Standing.LEARNING: _say_learning,
        Standing.NOISY: _say_noisy,
        Standing.STEADY: _say_steady,
        Standing.STALE: _say_stale,
    }[Standing(row.standing)](row, metric)
    if row.baseline_from_at is not None:
        since = say_since(row.baseline_from_at)
        said = f"{said} Its level since {since} was accepted: nothing before is compared."
    return said


def _say_learning(row: JudgementRow, metric: Metric) -> str:
    needed = f" {count_runs(row.runs_needed)} more until its noise is known." if row.runs_needed else ""
    return f"Learning: {count_runs(row.n)} so far.{needed}"


def _say_noisy(row: JudgementRow, metric: Metric) -> str:
    least = (
        f"what moves by less than {describe_percent(row.least_change)} is not found"
        if row.least_change
        else ""
    )
    wanted = f"{describe_percent(SMALLEST_CHANGES.get(row.metric, 0.05))} is worth saying"
    more = (
        f" It would take {count_runs(row.runs_needed)} after a change to see that." if row.runs_needed else ""
    )
    return f"Too noisy: {least or 'its runs lie too far apart'}; {wanted}.{more}"


def _say_steady(row: JudgementRow, metric: Metric) -> str:
    spread = f", spread {describe_percent(row.spread)}" if row.spread is not None else ""
    level = f"Steady at {with_unit(row.level, metric)}{spread}." if row.level is not None else "Steady."
    least = f" Five runs show a change of {describe_percent(row.least_change)}." if row.least_change else ""
    wanted = describe_percent(SMALLEST_CHANGES.get(row.metric, 0.05))
    more = f" One of {wanted} takes {count_runs(row.runs_needed)}." if row.runs_needed else ""
    return f"{level}{least}{more}"


def _say_stale(row: JudgementRow, metric: Metric) -> str:
    level = f"; it stood at {with_unit(row.level, metric)}" if row.level is not None else ""
    return f"Stale: no run for long{level}."
