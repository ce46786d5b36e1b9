"""Root measures in a directory of another user, who may rename and replace the run's directory."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.exit_codes import CannotMeasure, ConfigurationError
from agent.measuring.workspace import Workspace, check_path_trusted, clean_leftovers
from agent.running import measure
from tests.agent.conftest import FAKE_FIO, Machine
from tests.agent.sweeping.kernel import DEVICES, SIZES, Kernel, run_sweep

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")

NOBODY = 65534
RUN_ID = "6f1c2a9e-0000-4000-8000-000000000002"
CONTENT = "what must not be overwritten\n"
NAMES = ("bench-agent.fio", "bench-agent.test", "direct.probe", "owner.probe", "files/test0.txt")


class OtherUser:
    """A second user, who owns the measured directory, and files of root that must not change."""

    def __init__(self, place: Path) -> None:
        # Other users cannot read pytest's own directories.
        place.chmod(0o755)
        self.directory = place / "disk"
        self.directory.mkdir()
        os.chown(self.directory, NOBODY, NOBODY)
        self.precious = place / "precious"
        (self.precious / "files").mkdir(parents=True)
        for name in NAMES:
            (self.precious / name).write_text(CONTENT)

    def start(self, script: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", script],
            cwd=self.directory,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            stderr=subprocess.DEVNULL,
        )

    def replace_workspace(self, replacement: str = "ln -s ../precious $name") -> None:
        """Act as the other user: rename the directory of the run, and put something else in its place."""
        script = f'set -e; for name in .bench-agent-*; do mv "$name" renamed; {replacement}; done'
        assert self.start(script).wait(60) == 0

    def read_precious(self) -> dict[str, str]:
        files = [path for path in self.precious.rglob("*") if not path.is_dir()]
        return {str(path.relative_to(self.precious)): path.read_text() for path in files}


UNTOUCHED = dict.fromkeys(NAMES, CONTENT)


@pytest.fixture
def other() -> Iterator[OtherUser]:
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as place:
        yield OtherUser(Path(place))


def replace_around(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, before: bool, act: Callable[[], None]
) -> None:
    """Let the other user act once, immediately before or after a call."""
    real = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        if before:
            act()
        outcome = real(*arguments, **options)
        if not before:
            act()
        return outcome

    monkeypatch.setattr(owner, name, call)


def measure_there(machine: Machine, other: OtherUser, *options: str) -> subprocess.CompletedProcess[str]:
    (machine.home / "fio").write_text(FAKE_FIO.replace("touch bench-agent.test", "echo x > bench-agent.test"))
    return machine.run("run", "--directory", str(other.directory), "--no-send", *options)


@pytest.mark.parametrize("profile", ["quick", "saturation", "snia-steady", "gitlab-smallfiles", "own"])
def test_link_instead_of_the_run_directory_is_not_followed(
    machine: Machine, other: OtherUser, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    jobfile = machine.home / "own.fio"
    jobfile.write_text("[job]\nrw=read\nsize=1m\nruntime=1\n")
    what = ["--jobfile", str(jobfile)] if profile == "own" else ["--profile", profile]
    size = ["--set", "size=1m"] if profile in ("saturation", "snia-steady") else []
    replace_around(monkeypatch, measure, "_choose_engine", before=True, act=other.replace_workspace)

    ended = measure_there(machine, other, *what, *size, "--trust-directory")

    assert ended.returncode == 0, ended.stderr
    assert other.read_precious() == UNTOUCHED
    # The run wrote only into its own directory, which is removed.
    assert list((other.directory / "renamed").iterdir()) == []


@pytest.mark.parametrize(
    "replacement",
    ["ln -s ../precious $name", "mkdir $name", "mkdir -m 777 $name; ln -s ../../precious/files $name"],
)
def test_replacement_between_creation_and_opening_ends_the_run(
    machine: Machine, other: OtherUser, monkeypatch: pytest.MonkeyPatch, replacement: str
) -> None:
    workspace = Workspace(str(other.directory), str(machine.spool), run_id=RUN_ID, trusts_parent=True)
    replace_around(monkeypatch, os, "mkdir", before=False, act=lambda: other.replace_workspace(replacement))

    with pytest.raises(CannotMeasure, match="cannot write to"):
        workspace.__enter__()

    assert other.read_precious() == UNTOUCHED
    assert list((machine.spool / "running").iterdir()) == []


def test_full_disk_leaves_no_directory(
    machine: Machine, other: OtherUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def raise_no_space(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "owner.probe":
            raise OSError(28, "No space left on device")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    workspace = Workspace(str(other.precious), str(machine.spool), run_id=RUN_ID)
    monkeypatch.setattr(os, "open", raise_no_space)
    with pytest.raises(CannotMeasure, match="No space left on device"):
        workspace.__enter__()

    assert not Path(workspace.directory).exists()
    assert list((machine.spool / "running").iterdir()) == []


def test_another_user_cannot_win_a_race(machine: Machine, other: OtherUser) -> None:
    race = "while :; do for name in .bench-agent-*; do mv $name r$$ && ln -s ../precious $name; done; done"
    with other.start(race) as racing:
        ended = [
            measure_there(machine, other, "--profile", "quick", "--trust-directory").returncode
            for _ in range(5)
        ]
        racing.kill()

    assert set(ended) <= {0, 3}
    assert other.read_precious() == UNTOUCHED


@pytest.mark.parametrize("replacement", ["ln -s ../precious $name", "mkdir $name; touch $name/kept"])
def test_replaced_workspace_is_not_removed(machine: Machine, other: OtherUser, replacement: str) -> None:
    workspace = Workspace(str(other.directory), str(machine.spool), run_id=RUN_ID, trusts_parent=True)
    workspace.__enter__()
    workspace.write_file("bench.test", "x")
    other.replace_workspace(replacement)
    before = sorted(other.directory.rglob("*"))

    (note,) = clean_leftovers(str(machine.spool))

    assert f"{workspace.directory} of a killed run: " in note
    assert sorted(other.directory.rglob("*")) == before
    assert other.read_precious() == UNTOUCHED


def test_root_refuses_a_directory_of_another_user(machine: Machine, other: OtherUser) -> None:
    ended = measure_there(machine, other, "--profile", "quick")

    assert ended.returncode == 2
    assert f"{other.directory} belongs to user nobody, who could change what root uses" in ended.stderr
    assert "--trust-directory" in ended.stderr
    assert list(other.directory.iterdir()) == []


def test_configuration_can_trust_the_directory(machine: Machine, other: OtherUser) -> None:
    config = machine.home / "agent.ini"
    config.write_text(config.read_text().replace("[run]", "[run]\ntrust_directory = yes"))

    assert measure_there(machine, other, "--profile", "quick").returncode == 0


@pytest.mark.parametrize(
    ("mode", "is_trusted"),
    [(0o755, True), (0o1777, True), (0o1775, True), (0o775, False), (0o757, False), (0o777, False)],
)
def test_directory_writable_by_others_is_refused_unless_it_is_sticky(
    other: OtherUser, mode: int, is_trusted: bool
) -> None:
    directory = other.precious / "files"
    other.precious.chmod(mode)

    if is_trusted:
        check_path_trusted(str(directory))
    else:
        with pytest.raises(ConfigurationError, match=f"{other.precious} has mode {mode:04o}"):
            check_path_trusted(str(directory))


def test_every_directory_of_a_path_is_checked_also_through_links(other: OtherUser) -> None:
    (other.directory / "link").symlink_to(other.precious)
    outer = other.precious / "outer"
    outer.symlink_to(other.directory / "link")

    with pytest.raises(ConfigurationError, match=f"{other.directory} belongs to user nobody"):
        check_path_trusted(str(outer / "files"))


def test_links_of_root_are_trusted(other: OtherUser, monkeypatch: pytest.MonkeyPatch) -> None:
    (other.precious / "relative").symlink_to("../precious/files")
    (other.precious / "absolute").symlink_to(other.precious / "relative")
    monkeypatch.chdir(other.precious)

    check_path_trusted("absolute")
    check_path_trusted("files/../absolute/.")


def test_cycle_of_links_ends(other: OtherUser) -> None:
    (other.precious / "circle").symlink_to("circle")

    check_path_trusted(str(other.precious / "circle"))


def test_other_users_measure_without_this_check(other: OtherUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)

    check_path_trusted(str(other.directory))


def test_sweep_and_schedule_refuse_an_untrusted_directory_first(machine: Machine, other: OtherUser) -> None:
    where = ("--profile", "quick")
    sweep = machine.run("sweep", "--directories", str(other.directory), "--no-send", *where)
    schedule = machine.run(
        *("schedule", "install", "--systemd", "--every", "6h", "--dry-run"),
        *("--directory", str(other.directory), *where),
    )
    trusted = machine.run(
        *("schedule", "install", "--systemd", "--every", "6h", "--dry-run", "--trust-directory"),
        *("--directory", str(other.directory), *where),
    )

    assert (sweep.returncode, schedule.returncode, trusted.returncode) == (2, 2, 0)
    assert "belongs to user nobody" in sweep.stderr
    assert "belongs to user nobody" in schedule.stderr
    assert f"--directory {other.directory} --trust-directory" in trusted.stdout


def test_sweep_passes_the_trust_option_to_its_steps(machine: Machine, other: OtherUser) -> None:
    ended = machine.run(
        *(
            "sweep",
            "--directories",
            str(other.directory),
            "--profile",
            "quick",
            "--no-send",
            "--trust-directory",
        )
    )

    assert ended.returncode == 0, ended.stderr
    assert list(other.directory.iterdir()) == []


def test_sweep_over_devices_refuses_a_spool_writable_by_another_user(
    machine: Machine, other: OtherUser
) -> None:
    kernel = Kernel(*DEVICES)
    machine.environ["BENCH_AGENT_SPOOL"] = str(other.directory)

    ended = run_sweep(machine, kernel, *SIZES)

    assert ended.returncode == 2
    assert "belongs to user nobody" in ended.stderr
    assert kernel.commands == []


def test_check_reports_an_untrusted_directory(machine: Machine, other: OtherUser) -> None:
    options = ("check", "--directory", str(other.directory))

    assert f"FAILED   directory     {other.directory} belongs to user nobody" in machine.run(*options).stdout
    assert "ok       directory" in machine.run(*options, "--trust-directory").stdout
