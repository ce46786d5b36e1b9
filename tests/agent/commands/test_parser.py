"""The parser of one command, which is built alone to start faster."""

import re

import pytest

from agent.commands.cli import build_parser, list_commands, main

COMMANDS = list(list_commands(build_parser()))


@pytest.mark.parametrize("name", COMMANDS)
def test_command_alone_is_parsed_as_among_all(name: str) -> None:
    alone, all_commands = build_parser(only=name), build_parser()

    assert list(list_commands(alone)) == [name]
    assert list_commands(alone)[name].format_help() == list_commands(all_commands)[name].format_help()
    assert alone.format_usage() == all_commands.format_usage()


@pytest.mark.parametrize("arguments", [[], ["sideways"], ["--json", "status"]])
def test_command_that_is_missing_or_unknown_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)

    assert "COMMAND" in capsys.readouterr().err


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])

    said = capsys.readouterr().out
    assert re.findall(r"^    ([a-z]\S*)", said.partition("exit codes:")[0], re.MULTILINE) == COMMANDS
