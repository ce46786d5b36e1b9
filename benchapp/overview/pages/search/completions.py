"""Completions of a word in a filter: phrases, and values of the installation with their dimension."""

from dataclasses import dataclass, replace
from typing import Final

from benchapp.catalog.dimensions import FILTER_DIMENSIONS, get_filter_dimension
from benchapp.catalog.filter_phrases import list_phrases
from benchapp.catalog.grammar import Filter, parse_term, write_filter
from benchapp.series.read.dimension_values import read_known_values

COMPLETIONS_MAXIMUM: Final = 8
# Phrases have synonyms, as "random read" and "rand reads": some are enough.
_PHRASES_MAXIMUM: Final = 3


@dataclass(frozen=True, slots=True)
class WordCompletion:
    """written: the term in the filter; shown: the phrase or value; note: what it is."""

    written: str
    shown: str
    note: str


def list_completions(text: str) -> list[WordCompletion]:
    """Return completions of a word, phrases first, at most COMPLETIONS_MAXIMUM; () for "". One query."""
    if not text:
        return []
    found: dict[str, WordCompletion] = {}
    for words, phrase in list_phrases(text):
        term = parse_term(phrase.name, phrase.values)
        written = write_filter(Filter((replace(term, is_negated=phrase.is_negated),)))
        found.setdefault(written, WordCompletion(written, words, written))
    phrases = list(found.values())[:_PHRASES_MAXIMUM]
    values = [
        known
        for known in read_known_values()
        if known.dimension in FILTER_DIMENSIONS and known.value.lower().startswith(text.lower())
    ]
    for known in values[: COMPLETIONS_MAXIMUM - len(phrases)]:
        written = write_filter(Filter().with_value(known.dimension, known.value))
        phrases.append(WordCompletion(written, known.value, get_filter_dimension(known.dimension).label))
    return phrases
