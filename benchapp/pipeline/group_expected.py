"""Which changes somebody expected."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.models import Expectation, ExpectationKind, Series
from benchapp.pipeline.expectations import match_expectations
from benchapp.pipeline.group_candidates import Candidate


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectation that a change falls under."""

    expectation_id: int
    reason: str


def find_expected(candidates: Sequence[Candidate]) -> dict[int, Expected]:
    """Return the expectation of each change that began within one, by the change's id."""
    if not candidates:
        return {}
    times = [candidate.at for candidate in candidates]
    held = Expectation.objects.meeting(min(times), max(times)).filter(kind=ExpectationKind.CHANGE)
    ids = {candidate.series_id for candidate in candidates}
    matched = match_expectations(held, Series.objects.filter(pk__in=ids))
    found = {}
    for candidate in candidates:
        for expectation in matched.get(candidate.series_id, ()):
            if expectation.from_at <= candidate.at < expectation.over_at:
                found[candidate.change_id] = Expected(expectation.pk, expectation.reason)
                break
    return found
