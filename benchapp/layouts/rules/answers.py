"""The answer to a layout question as it is remembered, and when and why another one is reported: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from benchapp.layouts.rules.ranking import Verdict

Cause = Literal["price", "incident", "run", "gone", "other"]


@dataclass(frozen=True, slots=True)
class LayoutFacts:
    """A layout of an answer. load, price: as text. runs: of the level; last_at: start of the newest, ISO 8601.

    incidents: open ones of its series.
    """

    title: str
    verdict: Verdict
    load: str
    price: str
    runs: int
    last_at: str
    incidents: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return stored facts."""
        return cls(**{**stored, "incidents": tuple(stored.get("incidents", ()))})


@dataclass(frozen=True, slots=True)
class RememberedAnswer:
    """An answer. sentence: the answer; best: the first layout of the ranking, whether it meets the requirement or not.

    closest: the closest miss; lacks: what it lacks, as text. prices: identifies the prices that were valid.
    """

    sentence: str
    best: LayoutFacts | None
    closest: LayoutFacts | None
    lacks: str
    prices: str

    @property
    def key(self) -> tuple[str, ...]:
        """Return what makes an answer another one: best layout, its verdict, closest miss."""
        best, closest = self.best, self.closest
        return (
            best.title if best else "",
            best.verdict if best else "",
            closest.title if closest else "",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return a stored answer."""
        both = {
            name: LayoutFacts.from_json(stored[name]) if stored[name] else None
            for name in ("best", "closest")
        }
        return cls(**{**stored, **both})


@dataclass(frozen=True, slots=True)
class AnswerState:
    """What is remembered: the reported answer, and another one that was found once, None if there is none."""

    reported: RememberedAnswer
    pending: RememberedAnswer | None = None


def advance_answer(state: AnswerState | None, found: RememberedAnswer) -> tuple[AnswerState, bool]:
    """Return the state after an answer was found, and whether it is news; the first one is none.

    Another answer is reported when it is found twice in succession, or at once if prices have changed since.
    """
    if state is None or found.key == state.reported.key:
        return AnswerState(found), False
    is_confirmed = state.pending is not None and state.pending.key == found.key
    if is_confirmed or found.prices != state.reported.prices:
        return AnswerState(found), True
    return AnswerState(state.reported, found), False


def find_cause(
    before: RememberedAnswer, after: RememberedAnswer, known: Sequence[LayoutFacts]
) -> tuple[Cause, str]:
    """Return what changed an answer, and a sentence. known: the layouts of both answers as they are now."""
    if before.prices != after.prices:
        return "price", "Prices changed."
    now = {each.title: each for each in known}
    earlier = [each for each in (before.best, before.closest) if each is not None]
    for old in earlier:
        if old.title not in now:
            return "gone", f"{old.title} has no measurements that count any more."
        opened = sorted(set(now[old.title].incidents) - set(old.incidents))
        if opened:
            named = ", ".join(map(str, opened))
            return "incident", f"Open incident of {old.title}: {named}."
    newer = [now[old.title] for old in earlier if _has_new_runs(now[old.title], old)]
    titles = {each.title for each in earlier}
    newer += [each for each in (after.best, after.closest) if each is not None and each.title not in titles]
    if newer:
        named = "; ".join(f"{each.title}: {each.load}" for each in dict.fromkeys(newer))
        return "run", f"New runs: {named}."
    return "other", "Runs were excluded, became too old, or their levels were evaluated again."


def _has_new_runs(now: LayoutFacts, old: LayoutFacts) -> bool:
    return (now.last_at, now.runs) != (old.last_at, old.runs)
