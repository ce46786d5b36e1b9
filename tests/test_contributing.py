"""CONTRIBUTING.md against the code: every path, function and make target that it names exists."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
CODE = re.findall(r"`([^`\n]+)`", TEXT)
LINKS = re.findall(r"\]\(([^)#]+)\)", TEXT)
# A path as code alone, or as an argument of a command.
PATHS = sorted(
    {
        word
        for code in CODE
        for word in code.split()
        if re.fullmatch(r"\.?[\w-]+(/[\w.-]+)+/?", word) and "NAME" not in word
    }
)
# `name` in `path/of/module.py`, as the walkthroughs write it.
NAMES = sorted(set(re.findall(r"`(\w+)`\s+(?:in|of)\s+`([\w/]+\.py)`", TEXT)))
TARGETS = sorted({match for code in CODE for match in re.findall(r"^make ([\w-]+)", code)})
CREATED = {"htmlcov/", ".venv/bin/python", "static/vendor/"}


def list_definitions(path: Path) -> set[str]:
    """Return the functions, classes and constants that a module defines at its top."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def test_guide_names_paths_functions_and_targets() -> None:
    """The patterns below match something: the three walkthroughs and four recipes."""
    assert len(PATHS) > 30
    assert len(NAMES) > 12
    assert {"test-fast", "format", "js-test", "dev", "coverage"} <= set(TARGETS)


@pytest.mark.parametrize("path", [*(path for path in PATHS if path not in CREATED), *LINKS])
def test_named_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "module"), NAMES)
def test_named_function_is_defined_in_the_named_module(name: str, module: str) -> None:
    assert name in list_definitions(ROOT / module)


def test_sizes_of_the_code_are_printed() -> None:
    lines = subprocess.run(
        [sys.executable, "tools/figures.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()

    figures = {line.strip().partition(" ")[2]: int(line.split()[0]) for line in lines}
    assert figures["pages of docs"] == len(list((ROOT / "docs").glob("*.md")))
    assert figures["lines of code of them"] < figures["lines of Python, benchapp without migrations"]


def test_every_function_is_named_with_its_module() -> None:
    """A function or constant elsewhere in the text is one of those that are checked."""
    checked = {name for name, _ in NAMES}
    named = {code for code in CODE if re.fullmatch(r"[a-z]+(_[a-z]+)+|[A-Z]+(_[A-Z]+)+|[A-Z][a-z]+", code)}

    assert named - checked - {"latency_p99_ns"} == set()


@pytest.mark.parametrize("target", TARGETS)
def test_named_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)
