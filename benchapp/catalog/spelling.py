"""Corrections of misspelled words in a filter. Pure."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

from benchapp.catalog.filter_phrases import is_in_phrase, list_spellings
from benchapp.catalog.grammar import (
    LENGTH_MAXIMUM,
    WORDS_MAXIMUM,
    BadFilter,
    PlainWord,
    list_plain_words,
    parse_query,
)

CORRECTIONS_MAXIMUM: Final = 3
_SIMILARITY: Final = 0.7
# A correction has about as many letters. An installation has thousands of hosts, and to compare two words takes 20 µs.
_LETTERS_MORE: Final = 2


def suggest_corrections(text: str, values: Collection[str]) -> tuple[str, ...]:
    """Return the text, which may be invalid, with its misspelled words replaced; () if none is misspelled.

    Most similar first, at most CORRECTIONS_MAXIMUM. values: of the installation, as host names and volume types. A word
    is misspelled if it occurs in none of them and in no phrase, and resembles one.
    """
    lowered = {value.lower() for value in values}
    words = list_plain_words(text[:LENGTH_MAXIMUM])[: 2 * WORDS_MAXIMUM]
    unknown = [word for word in words if not _is_known(word.text.lower(), lowered)]
    similar = {word: _find_similar(word.text.lower(), lowered) for word in unknown}
    misspelled = [word for word in unknown if similar[word]]
    if not misspelled:
        return ()
    corrected = [
        _replace_words(
            text, misspelled, [similar[word][min(rank, len(similar[word]) - 1)] for word in misspelled]
        )
        for rank in range(CORRECTIONS_MAXIMUM)
    ]
    return tuple(each for each in dict.fromkeys(corrected) if is_readable(each))


def is_readable(text: str) -> bool:
    """Return whether a text can be parsed."""
    try:
        parse_query(text)
    except BadFilter:
        return False
    return True


def _is_known(word: str, values: Collection[str]) -> bool:
    return is_in_phrase(word) or any(word in value for value in values)


def _find_similar(word: str, values: Collection[str]) -> list[str]:
    near = [value for value in {*values, *list_spellings()} if abs(len(value) - len(word)) <= _LETTERS_MORE]
    return get_close_matches(word, sorted(near), n=CORRECTIONS_MAXIMUM, cutoff=_SIMILARITY)


def _replace_words(text: str, words: Sequence[PlainWord], instead: Sequence[str]) -> str:
    for word, other in reversed(list(zip(words, instead, strict=True))):
        text = f"{text[: word.start]}{other}{text[word.end :]}"
    return text
