"""Every example of docs/filters.md is of the language that it documents."""

import re
from pathlib import Path

import pytest

from benchapp.catalog.dimensions import ALIASES, FILTER_DIMENSIONS
from benchapp.catalog.grammar import parse_filter, write_filter

TEXT = (Path(__file__).parent.parent / "docs" / "filters.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| `")]
NAMES = [row for row in ROWS if row.count("|") == 4]
EXAMPLES = [
    *re.findall(r"```filter\n(.+?)\n```", TEXT),
    *(example for row in ROWS if row not in NAMES for example in re.findall(r"`([^`]+)`", row.split("|")[1])),
    *(re.findall(r"`([^`]+)`", row.split("|")[3])[0] for row in NAMES),
    *re.findall(r"`(-?[a-z_.]+:[^`…]+)`", TEXT),
]


@pytest.mark.parametrize("example", dict.fromkeys(EXAMPLES))
def test_example_is_read_and_written_the_same(example: str) -> None:
    filter = parse_filter(example)

    assert filter.terms or filter.words
    assert parse_filter(write_filter(filter)) == filter


def test_there_are_examples_of_every_kind() -> None:
    assert len(set(EXAMPLES)) > 45


def test_every_name_is_there_with_a_short_one_that_leads_to_it() -> None:
    cells = [[cell.strip().strip("`") for cell in row.split("|")[1:4]] for row in NAMES]

    assert [name for name, _, _ in cells] == [*FILTER_DIMENSIONS, "label.NAME"]
    assert all(ALIASES[short] == name for name, short, _ in cells if short)
    named = [(name.replace("NAME", "rack"), parse_filter(example)) for name, _, example in cells]
    assert all(filter.terms[0].dimension == name for name, filter in named)
