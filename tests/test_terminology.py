"""One term per concept: no name with two meanings, and none of the phrases that the glossary replaces."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# File → number of lines that still have a replaced phrase. The list only gets shorter.
EXCEPTIONS = json.loads((ROOT / "tests" / "data" / "terminology_exceptions.json").read_text())

PHRASES = re.compile(
    r"\b(held still|hold still|what moved|the gravest|to look at|be told|is told|are told|tells (of|that)|"
    r"nobody is told|"
    r"the same in numbers|from a program|say a maintenance|put back|put off|taken back|take back|hand(ed)? in|"
    r"what there is|borne|the worst of it|how sure|is no (number|day|metric|host|uuid|valid|name)|stands at|by itself|"
    r"of its own|of their own|that there are|a picture|the picture|pictures|parcels?|ghost)\b",
    re.IGNORECASE,
)
# The project is written in American English.
BRITISH = re.compile(
    r"\b\w*(catalogue|neighbour|colour|favour|behaviour|centre(?!d)|labell(?!edby)|modell|cancell(?!ation)|"
    r"(summar|optim|normal|organ|recogn|minim|maxim|serial|initial)is(e|ed|es|ing|ation)\b|analys(e|ed|ing)\b|grey|licence|artefact)",
    re.IGNORECASE,
)
SCANNED = (
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "docs",
    "templates",
    "benchapp",
    "agent",
    "static/js",
)
SUFFIXES = {".md", ".html", ".py", ".js"}


def list_scanned_files() -> Iterator[Path]:
    for name in SCANNED:
        place = ROOT / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.suffix in SUFFIXES and not {"migrations", "vendor", "__pycache__"} & set(path.parts):
                yield path


def count_lines(path: Path) -> int:
    """Return the lines of a file that have a replaced phrase, or British spelling."""
    lines = path.read_text().splitlines()
    return sum(bool(PHRASES.search(line) or BRITISH.search(line)) for line in lines)


@cache
def list_definitions() -> list[tuple[str, str, type]]:
    """Return module, name and kind of every top-level class and public function of benchapp."""
    return [
        (path.relative_to(ROOT).as_posix(), node.name, type(node))
        for path in sorted((ROOT / "benchapp").rglob("*.py"))
        if "migrations" not in path.parts
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name not in ("Command", "main")
    ]


def test_every_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for module, name, kind in list_definitions():
        if kind is ast.ClassDef:
            places[name].append(module)

    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_every_public_function_name_has_one_meaning_in_its_package() -> None:
    places = defaultdict(list)
    for module, name, kind in list_definitions():
        if kind is ast.FunctionDef and not name.startswith("_"):
            places[module.rpartition("/")[0], name].append(module)

    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_replaced_phrases_occur_only_where_listed() -> None:
    found = {path.relative_to(ROOT).as_posix(): count_lines(path) for path in list_scanned_files()}

    assert {name: count for name, count in found.items() if count} == EXCEPTIONS


@pytest.mark.parametrize(
    "text",
    ["Held still: 4 volumes", "nobody is told", "'x' is no metric", "the picture stands at", "Put back"],
)
def test_a_replaced_phrase_is_found(text: str) -> None:
    assert PHRASES.search(text)


@pytest.mark.parametrize(
    ("text", "is_british"),
    [
        ("CATALOGUE", True),
        ("labelled at their ends", True),
        ("summarised", True),
        ("aria-labelledby", False),
        ("cancellation", False),
        ("the catalog analyzes labeled colors", False),
        ("analyses of two hosts", False),
    ],
)
def test_british_spelling_is_found(text: str, is_british: bool) -> None:
    assert bool(BRITISH.search(text)) == is_british


def test_glossary_is_sorted_and_defines_each_term_once() -> None:
    rows = re.findall(
        r"^\| ([a-z][\w -]*) \| (.+?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE
    )
    terms = [term for term, _ in rows if term != "term"]

    assert terms == sorted(set(terms))
    assert len(terms) > 30
