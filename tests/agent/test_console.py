"""Control characters of a server, of fio and of names never reach the terminal."""

import io
import re
from pathlib import Path

import pytest

from agent import console
from agent.console import Console, write_text
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer

# What sets a title, clears the screen, moves to the start of a line, and turns text around.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\x08\x7f\u202e"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\r\x9b31m\x08\x7f\u202e"
# The agent itself clears a line that shows progress.
OWN = re.compile("\r[^\r\n]*\x1b\\[K")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def test_controls_are_escaped_and_other_text_is_not() -> None:
    stream = io.StringIO()

    write_text(f"first\tline\nµs ≤ 5\u202f000 {HOSTILE}", stream)

    assert stream.getvalue() == f"first\tline\nµs ≤ 5\u202f000 {SHOWN}\n"


def test_console_writes_in_one_place() -> None:
    assert Path(console.__file__).read_text().count("print(") == 1
    others = [
        str(path)
        for path in Path(console.__file__).parent.rglob("*.py")
        if re.search(r"\bprint\(|std(out|err)\.write\(", path.read_text())
    ]
    # The check of the Python version, and that of Windows, before anything else is loaded: constant texts.
    assert sorted(Path(path).name for path in others) == ["__init__.py", "cli.py", "console.py"]


def test_answers_of_the_server_are_shown_without_controls(host: Machine, server: HostileServer) -> None:
    problem = {"code": "bad", "status": 422, "detail": f"refused {HOSTILE}\nbench-agent: forged line"}
    server.usual = lambda handler, body: handler.answer(422, problem)
    log = host.home / "run.log"

    ended = host.measure("--log", str(log), is_terminal=True)
    listed = host.run("status")

    for text in (OWN.sub("", ended.stderr), ended.stdout, listed.stdout, log.read_text()):
        assert not CONTROLS.search(text)
    assert "refused \\x1b]0;owned" in ended.stderr
    assert "\nbench-agent: forged line" not in ended.stderr
    assert "refused \\x1b]0;owned" in listed.stdout


def test_what_fio_prints_is_shown_without_controls(machine: Machine) -> None:
    fio = machine.home / "fio"
    fio.write_text(
        "#!/bin/sh\ncase \"$1\" in --version) printf 'fio-3.99\\033[2J' ;; --enghelp) ;;"
        " *) printf 'fio: \\033]0;owned\\007' >&2; exit 1 ;; esac\n"
    )

    ended, checked = machine.measure("--no-send", is_terminal=True), machine.run("check")

    assert (ended.returncode, "\\x1b]0;owned\\x07" in ended.stderr) == (5, True)
    assert "fio-3.99\\x1b[2J at " in checked.stdout
    for text in (OWN.sub("", ended.stderr), checked.stdout, checked.stderr):
        assert not CONTROLS.search(text)


@pytest.mark.parametrize("write", ["report", "note", "warn"])
def test_name_with_controls_is_escaped(write: str, capsys: pytest.CaptureFixture[str]) -> None:
    getattr(Console(), write)(f"/data/{HOSTILE}")

    shown = capsys.readouterr()
    assert f"/data/{SHOWN}\n" in shown.out + shown.err
