"""Remembered answers to layout questions: what is news, and why an answer changed."""

from dataclasses import replace
from typing import Any

import pytest

from benchapp.layouts.rules.answers import (
    AnswerState,
    LayoutFacts,
    RememberedAnswer,
    advance_answer,
    find_cause,
)


def make_facts(title: str, **fields: Any) -> LayoutFacts:
    values = {
        "verdict": "meets",
        "load": "20 000 IOPS",
        "price": "USD 5.00",
        "runs": 3,
        "last_at": "2026-11-21T12:00:00Z",
        **fields,
    }
    return LayoutFacts(title=title, **values)


def make_answer(best: str = "gp3", closest: str = "io2", **fields: Any) -> RememberedAnswer:
    values = {
        "sentence": f"{best} meets the requirement",
        "best": make_facts(best),
        "closest": make_facts(closest, verdict="misses"),
        "lacks": "IOPS",
        "prices": "p1",
        **fields,
    }
    return RememberedAnswer(**values)


def test_first_answer_and_the_same_one_with_other_numbers_are_no_news() -> None:
    first = make_answer()
    later = make_answer(best="gp3", lacks="p99 latency", prices="p2")

    begun = advance_answer(None, first)
    following = advance_answer(begun[0], later)

    assert begun == (AnswerState(first), False)
    assert following == (AnswerState(later), False)


@pytest.mark.parametrize(
    "other",
    [
        make_answer(best="io2"),
        make_answer(closest="st1"),
        make_answer(closest="st1", best="io2"),
        replace(make_answer(), best=make_facts("gp3", verdict="median-only")),
        replace(make_answer(), best=None, closest=None),
    ],
)
def test_other_answer_is_news_when_it_is_found_twice(other: RememberedAnswer) -> None:
    once = advance_answer(AnswerState(make_answer()), other)
    twice = advance_answer(once[0], other)

    assert once == (AnswerState(make_answer(), other), False)
    assert twice == (AnswerState(other), True)


def test_answers_that_alternate_are_no_news() -> None:
    state = AnswerState(make_answer())
    for best in ("io2", "gp3", "io2", "gp3", "io2", "st1", "io2"):
        state, is_news = advance_answer(state, make_answer(best=best))
        assert not is_news

    assert state.reported.key == make_answer().key


def test_other_answer_by_a_price_is_news_at_once() -> None:
    _, is_news = advance_answer(AnswerState(make_answer()), make_answer(best="io2", prices="p2"))

    assert is_news


@pytest.mark.parametrize(
    ("after", "known", "cause", "words"),
    [
        (make_answer("io2", prices="p2"), [], "price", "Prices changed."),
        (make_answer("io2"), [make_facts("io2")], "gone", "gp3 has no measurements that count any more."),
        (
            make_answer("io2"),
            [make_facts("gp3", incidents=(7, 9)), make_facts("io2")],
            "incident",
            "Open incident of gp3: 7, 9.",
        ),
        (
            make_answer("io2"),
            [make_facts("gp3", runs=4, load="100 IOPS"), make_facts("io2")],
            "run",
            "New runs: gp3: 100 IOPS.",
        ),
        (
            make_answer("st1"),
            [make_facts("gp3"), make_facts("io2", verdict="misses")],
            "run",
            "New runs: st1: 20 000 IOPS.",
        ),
        (make_answer("io2", "gp3"), [make_facts("gp3"), make_facts("io2")], "other", "excluded"),
    ],
)
def test_cause_is_price_lost_layout_incident_or_new_runs(
    after: RememberedAnswer, known: list[LayoutFacts], cause: str, words: str
) -> None:
    found, text = find_cause(make_answer(), after, known)

    assert found == cause
    assert words in text


@pytest.mark.parametrize("answer", [make_answer(), replace(make_answer(), best=None, closest=None)])
def test_answer_survives_storage(answer: RememberedAnswer) -> None:
    assert RememberedAnswer.from_json(answer.to_json()) == answer
