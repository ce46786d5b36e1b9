"""The agent's pages of the documentation against the code."""

import argparse
import re
from pathlib import Path

import pytest

from agent.commands.cli import build_parser
from agent.config import _KEYS
from agent.delivery.envelope import TARGET_FIELDS
from agent.exit_codes import _SEVERITY, ExitCode
from agent.profiles.profile import list_names

DOCS = Path(__file__).parent.parent.parent / "docs"


def list_helps(*command: str) -> dict[str, str | None]:
    """Return long option → help of a command."""
    parser = build_parser()
    for name in command:
        (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        parser = commands.choices[name]
    found = {
        option: action.help
        for action in parser._actions
        for option in action.option_strings
        if option[:2] == "--"
    }
    assert len(found) > 5
    return found


def read_first_column(page: str, heading: str) -> list[str]:
    """Return the code spans in the first column of the table under a heading of the first row."""
    table = (DOCS / page).read_text().partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [
        name
        for row in re.findall(r"^\| ([^|]+(?:\\\|[^|]+)*) \|", table, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    ]


def test_every_profile_has_a_row() -> None:
    assert sorted(read_first_column("agent.md", "profile")) == list_names()


@pytest.mark.parametrize("command", [("sweep",), ("schedule", "install"), ("gate",), ("experiment",)])
def test_every_option_of_a_command_that_the_docs_leave_to_its_help_is_explained_there(
    command: tuple[str, ...],
) -> None:
    assert f"`bench-agent {' '.join(command)} --help`" in "".join(
        (DOCS / page).read_text() for page in ("agent.md", "deciding.md")
    )
    assert {option for option, text in list_helps(*command).items() if not text} == set()


def test_every_target_field_has_a_row() -> None:
    assert set(read_first_column("agent.md", "field")) | {"name"} >= set(TARGET_FIELDS)


def test_every_configuration_key_has_a_row() -> None:
    table = (DOCS / "agent.md").read_text().partition("| section |")[2].partition("\n\n")[0]
    keys = re.findall(r"^\|[^|]*\|([^|]+)\|", table, re.MULTILINE)

    assert sorted(re.findall(r"`(\w+)`", " ".join(keys))) == sorted(
        key for section in _KEYS.values() for key in section
    )


def test_every_exit_code_has_a_row_and_is_in_the_help() -> None:
    page, help_text = (DOCS / "agent.md").read_text(), build_parser().format_help()
    table = page.partition("| code |")[2].partition("\n\n")[0]
    codes = sorted(ExitCode)

    assert [int(code) for code in re.findall(r"^\| (\d\d?) \|", table, re.MULTILINE)] == codes
    assert [int(code) for code in re.findall(r"^  (\d\d?)  ", help_text, re.MULTILINE)] == codes
    order = ", ".join(str(int(code)) for code in _SEVERITY if code not in (ExitCode.FAULT, ExitCode.OK))
    for text in (page, help_text):
        assert f"the first of {order} is returned" in text
