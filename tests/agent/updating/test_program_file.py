"""The file of the agent: what may be replaced, and what is left after a kill at each step."""

import os
from pathlib import Path
from unittest import mock

import pytest

from agent.exit_codes import ConfigurationError, TryLater
from agent.updating.program_file import ProgramFile, find_program_file

# Child processes leave it by os._exit; Python 3.12 warns, as a test may have other threads.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

STEPS = ("open", "fchown", "fchmod", "fsync", "replace", "unlink", "close")


@pytest.fixture
def program(tmp_path: Path) -> ProgramFile:
    path = tmp_path / "bench-agent.pyz"
    path.write_bytes(b"old")
    path.chmod(0o750)
    return ProgramFile(str(path), "python3")


def list_names(program: ProgramFile) -> list[str]:
    return sorted(path.name for path in Path(program.path).parent.iterdir())


def replace(program: ProgramFile) -> None:
    with program.lock():
        program.activate(program.stage(b"new"))


def replace_killed(program: ProgramFile, *, at: int) -> bool:
    """Replace the program in a process that ends, as by kill -9, at its system call `at`; return whether it did."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    calls = 0

    def count(original: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            if calls == at:
                os._exit(9)
            calls += 1
            return original(*arguments, **options)  # type: ignore[operator]

        return call

    for name in STEPS:
        mock.patch.object(os, name, count(getattr(os, name))).start()
    replace(program)
    os._exit(0)


def test_replaced_program_has_the_same_mode_and_its_previous_version(program: ProgramFile) -> None:
    replace(program)

    path = Path(program.path)
    assert (program.read(), program.read_previous()) == (b"new", b"old")
    assert (path.stat().st_mode & 0o777, Path(program.previous_path).stat().st_mode & 0o777) == (0o750, 0o750)
    assert list_names(program) == ["bench-agent.pyz", "bench-agent.pyz.previous"]
    with mock.patch("os.fdopen", side_effect=OSError(28, "No space left on device")):
        program.restore()
    assert program.read() == b"old"


def test_program_is_complete_whenever_an_update_is_killed(program: ProgramFile) -> None:
    found = set()
    number = 0
    while replace_killed(program, at=number):
        found.add(program.read())
        assert program.read() in (b"old", b"new")
        if Path(program.previous_path).exists():
            assert program.read_previous() == b"old"
        with program.lock():
            pass
        assert [name for name in list_names(program) if name[0] == "."] == []
        Path(program.path).write_bytes(b"old")
        number += 1

    assert number >= 15
    assert found == {b"old", b"new"}
    assert (program.read(), program.read_previous()) == (b"new", b"old")


def test_two_updates_do_not_run_at_the_same_time(program: ProgramFile) -> None:
    with program.lock(), pytest.raises(TryLater, match="another update"), program.lock():
        pass


def test_full_disk_leaves_the_program_and_no_candidate(program: ProgramFile) -> None:
    full = mock.patch("os.fsync", side_effect=OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space"), program.lock(), full:
        program.stage(b"new")

    assert program.read() == b"old"
    assert list_names(program) == ["bench-agent.pyz"]


def test_link_to_the_program_stays(program: ProgramFile, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "bench-agent"
    link.parent.mkdir()
    link.symlink_to(program.path)

    found = find_program_file(["python3", str(link)])
    replace(found)

    assert (found.path, link.read_bytes(), link.is_symlink()) == (program.path, b"new", True)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("/usr/bin/bench-agent",), "is not the one-file agent"),
        (("python3", "/home/x/agent/__main__.py"), "is not the one-file agent"),
        (("python3", "/usr/bin/python3-config"), "belongs to a package"),
        (("python3", "/opt/absent.pyz"), "cannot read /opt/absent.pyz"),
    ],
)
def test_other_installations_are_refused(command: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem), mock.patch("os.path.realpath", lambda path: path):
        find_program_file(command)


def test_program_of_another_user_or_in_a_fixed_directory_is_refused(program: ProgramFile) -> None:
    with mock.patch("os.geteuid", return_value=12345), pytest.raises(ConfigurationError, match="belongs to"):
        find_program_file(["python3", program.path])
    with mock.patch("os.access", return_value=False), pytest.raises(ConfigurationError, match="not writable"):
        find_program_file(["python3", program.path])
