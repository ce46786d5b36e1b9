"""The remembered answer to the layout question of a subscription."""

from dataclasses import dataclass
from datetime import datetime

from benchapp.layouts.rules.answers import LayoutFacts, RememberedAnswer
from benchapp.models import StoredLayoutAnswer

__all__ = ["LayoutAnswerRow", "LayoutFacts", "read_layout_answer"]


@dataclass(frozen=True, slots=True)
class LayoutAnswerRow:
    """An answer. problem: why there is none today, "" if there is one. pending_sentence: of another answer that was
    found once, "" if there is none. changed_at: None if the answer never changed."""

    answer: RememberedAnswer | None
    pending_sentence: str
    problem: str
    evaluated_at: datetime
    changed_at: datetime | None

    @property
    def closest(self) -> LayoutFacts | None:
        """Return the closest miss."""
        return None if self.answer is None else self.answer.closest


def read_layout_answer(subscription_id: int) -> LayoutAnswerRow | None:
    """Return the remembered answer; None before the first evaluation. One query."""
    stored = StoredLayoutAnswer.objects.filter(subscription_id=subscription_id).first()
    if stored is None:
        return None
    return LayoutAnswerRow(
        answer=None if stored.answer is None else RememberedAnswer.from_json(stored.answer),
        pending_sentence="" if stored.pending is None else stored.pending["sentence"],
        problem=stored.problem,
        evaluated_at=stored.evaluated_at,
        changed_at=stored.changed_at,
    )
