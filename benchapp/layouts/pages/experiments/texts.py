"""The result of an A/B experiment in words, and its plan as commands."""

import re
from shlex import quote
from typing import Final

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import (
    CATALOG,
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
)
from benchapp.layouts.read.experiments.experiment import (
    EXPERIMENT_ERROR_RATE,
    PAIRS_MINIMUM,
    PLANNED_PAIRS_MAXIMUM,
    POWER,
    Caveat,
    DriftCheck,
    Experiment,
    ExperimentResult,
    ExperimentRow,
)

_LABEL_PREFIX: Final = "label."
# What `bench-agent experiment` accepts as name of an arm and of their label.
_ARM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def describe_experiment_title(experiment: Experiment, found: ExperimentResult) -> str:
    """Return the main result."""
    rows = [row for row in found.rows if row.result]
    if not found.rows:
        return "Experiment: no matching series"
    if not rows:
        return "Experiment: no pairs of runs"
    if len(rows) == 1:
        return f"Experiment: {describe_outcome(rows[0], experiment)}, {CATALOG[experiment.metric].label}"
    worse, better = (sum(row.is_worse is flag for row in rows) for flag in (True, False))
    same = sum(row.result is not None and row.result.outcome == "equivalent" for row in rows)
    return (
        f"Experiment: of {format_count(len(rows), 'workload')} {worse} worse with B, {better} better,"
        f" {same} equivalent, {len(rows) - worse - better - same} undecided"
    )


def describe_outcome(row: ExperimentRow, experiment: Experiment) -> str:
    """Return the outcome of one row: "B is better, +10.1 % after 8 pairs"."""
    result = row.result
    if result is None:
        return "no pairs of runs"
    if result.last.low is None:
        return f"{format_count(result.last.pairs, 'pair')}: too few for an interval"
    if result.outcome == "different":
        word = "worse" if row.is_worse else "better"
        return f"B is {word}, {format_signed_percent(result.last.ratio - 1)} after {result.last.pairs} pairs"
    if result.outcome == "equivalent":
        return f"no difference of {format_percent(experiment.smallest_difference)} after {result.last.pairs} pairs"
    return f"undecided after {result.last.pairs} pairs"


def describe_plan(experiment: Experiment, found: ExperimentResult) -> str:
    """Return how many pairs are required, and how many there are."""
    if not found.rows:
        return (
            "The number of runs is planned from the spread of earlier runs of the same workload and layout."
        )
    difference = format_percent(experiment.smallest_difference)
    if found.plan is None:
        if any(row.spread is None for row in found.rows):
            return (
                f"The spread is not known. Measure each workload {PAIRS_MINIMUM} times before the experiment."
            )
        return (
            f"More than {PLANNED_PAIRS_MAXIMUM} pairs are required to find a difference of {difference}. Search for a"
            " larger difference, or reduce the spread."
        )
    measured = min(row.pairs for row in found.rows)
    return (
        f"{format_integer(found.plan.pairs)} pairs ({format_integer(2 * found.plan.pairs)} runs) find a difference of"
        f" {difference} with a probability of at least {POWER:.0%}; {format_count(measured, 'pair')} measured. The"
        " experiment ends as soon as the outcome is decided."
    ).replace("%;", " %;")


def describe_interval(found: ExperimentResult) -> str:
    """Return what the intervals mean."""
    together = (
        "" if len(found.rows) < 2 else f" together; each has an error rate of {found.row_error_rate:.2g}"
    )
    return f"{1 - EXPERIMENT_ERROR_RATE:.0%} interval that holds at every look{together}".replace("%", " %")


def list_caveats(row: ExperimentRow) -> list[str]:
    """Return the findings of the checks of one row as sentences."""
    return [_describe_caveat(caveat, row, row.check) for caveat in row.check.caveats] if row.check else []


def _describe_caveat(caveat: Caveat, row: ExperimentRow, check: DriftCheck) -> str:
    if caveat == "not-interleaved":
        return (
            f"{row.unpaired} runs are not used: no run of the other arm is next to them. Alternate the arms."
        )
    if caveat == "unbalanced":
        return "Most pairs begin with the same arm: a drift does not cancel."
    if caveat == "drift" and check.drift:
        change = format_signed_percent(check.drift.change)
        return f"Both arms drift: {change} over the experiment. Pairs in ABBA order cancel a linear drift."
    if caveat == "difference-drifts" and check.difference:
        change = format_signed_percent(check.difference.change)
        return f"B / A changes by {change} over the experiment: no single ratio describes it."
    change = format_signed_percent(check.order.change) if check.order else ""
    return f"Pairs that begin with B have another ratio ({change}): a run depends on the one before it."


def write_commands(experiment: Experiment, pairs: int) -> str:
    """Return the command that runs so many pairs of the arms in ABBA order.

    Labels and profile are those that the filters name; what sets an arm up is for the reader to fill in. Arms that
    differ in more than one label are a shell loop.
    """
    named = _name_arms(experiment)
    if named is None:
        return _write_loop(experiment, pairs)
    label, arms = named
    profile = _find_value(experiment.common, "profile") or _find_value(experiment.a, "profile") or "PROFILE"
    own = "" if label == "arm" else f" --arm-label {quote(label)}"
    own += "" if arms == ("a", "b") else f" --arms {quote(','.join(arms))}"
    # Each experiment has its own id as this label.
    labels = "".join(
        f" --label {quote(f'{key}={value}')}"
        for key, value in _list_labels(experiment.common).items()
        if key != "experiment"
    )
    return (
        f"bench-agent experiment --pairs {pairs} --profile {quote(profile)}{labels}{own}"
        " --switch-command './set-up \"$BENCH_AGENT_ARM\"'"
    )


def _name_arms(experiment: Experiment) -> tuple[str, tuple[str, str]] | None:
    """Return the label of the arms and its values; None if the agent's command cannot run them."""
    if _find_value(experiment.a, "profile") != _find_value(experiment.b, "profile"):
        return None
    a, b = _list_labels(experiment.a), _list_labels(experiment.b)
    if not a and not b:
        return "arm", ("a", "b")
    names = (*a.values(), *b.values())
    if len(a) != 1 or a.keys() != b.keys() or names[0] == names[1]:
        return None
    key = next(iter(a))
    is_valid = all(_ARM.fullmatch(text) for text in (key, *names))
    return (key, (names[0], names[1])) if is_valid and key != "experiment" else None


def _write_loop(experiment: Experiment, pairs: int) -> str:
    profile = _find_value(experiment.common, "profile") or "PROFILE"
    lines = [f"for arm in $(yes 'a b b a' | head -n {(pairs + 1) // 2}); do", "    case $arm in"]
    for name, arm in (("a", experiment.a), ("b", experiment.b)):
        labels = "".join(
            f" --label {quote(f'{key}={value}')}"
            for key, value in _list_labels(experiment.common, arm).items()
        )
        own = _find_value(arm, "profile") or profile
        lines.append(f"        {name}) ./set-up-{name} && bench-agent run --profile {quote(own)}{labels} ;;")
    return "\n".join([*lines, "    esac || break", "done"])


def _list_labels(*filters: Filter) -> dict[str, str]:
    return {
        term.dimension.removeprefix(_LABEL_PREFIX): value
        for filter in filters
        for term in filter.terms
        if term.dimension.startswith(_LABEL_PREFIX) and (value := _find_value(filter, term.dimension))
    }


def _find_value(filter: Filter, dimension: str) -> str:
    """Return the one value that a filter has for a dimension; "" for several or none.

    "" also for one with control characters: filters come from links, and a terminal acts on them between quotation
    marks.
    """
    for term in filter.terms:
        if term.dimension == dimension and not term.is_negated and len(term.tests) == 1:
            (test,) = term.tests
            value = str(test.values[0]) if test.operator == "=" else ""
            return value if value.isprintable() else ""
    return ""
