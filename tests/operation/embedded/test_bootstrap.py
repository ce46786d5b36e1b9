"""tools/bootstrap: which Python .venv is made of."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from benchapp.operation.embedded.child import SystemAccount, can_reach

ROOT = Path(__file__).parents[3]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users take the first Python that fits")


def find_python(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tools" / "bootstrap", "--python"],
        env={"PATH": path, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def commands(place) -> Path:
    """Return a directory with the commands that the script needs."""
    place.chmod(0o755)
    directory = place / "commands"
    directory.mkdir(mode=0o755)
    for command in ("sh", "dirname", "id", "test"):
        (directory / command).symlink_to(shutil.which(command))
    return directory


@pytest.fixture
def shared_python() -> str:
    """Return a Python that every account can run."""
    python = find_python(os.environ["PATH"]).stdout.strip()
    if os.geteuid() == 0 and not can_reach(Path(python), SystemAccount("other", 65534, 65534)):
        pytest.skip("this machine has no Python that other accounts can run")
    return python


def add_python(directory: Path, python: str, mode: int) -> Path:
    directory.mkdir()
    (directory / "python3").symlink_to(python)
    directory.chmod(mode)
    return directory / "python3"


@needs_root
def test_root_takes_a_python_that_other_accounts_can_run_too(place, commands, shared_python):
    closed = add_python(place / "closed", shared_python, 0o700)
    shared = add_python(place / "open", shared_python, 0o755)

    found = find_python(f"{closed.parent}:{shared.parent}:{commands}")

    assert (found.stdout.strip(), found.stderr) == (str(shared), "")


@needs_root
@pytest.mark.parametrize(("status", "printed"), [(0, "/managed/python3.13"), (1, None)])
def test_root_without_one_has_uv_fetch_its_own_and_else_goes_on(
    place, commands, shared_python, status, printed
):
    closed = add_python(place / "closed", shared_python, 0o700)
    uv = commands / "uv"
    uv.write_text(
        f'#!/bin/sh\necho "$2 in $UV_PYTHON_INSTALL_DIR" >>{place}/asked\n'
        f'[ "$2" = install ] && exit {status}\necho /managed/python3.13\n'
    )
    uv.chmod(0o755)

    found = find_python(f"{closed.parent}:{commands}")

    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == (printed or str(closed))
    assert (place / "asked").read_text().splitlines()[0] == f"install in {ROOT / '.python'}"
    assert ("AS_ROOT=1" in found.stderr) == (status != 0)


def test_python_of_another_version_is_passed_over(place, commands, shared_python):
    old = place / "old"
    old.mkdir()
    (old / "python3").write_text("#!/bin/sh\nexit 1\n")
    (old / "python3").chmod(0o755)
    fits = add_python(place / "open", shared_python, 0o755)

    found = find_python(f"{old}:{fits.parent}:{commands}")

    assert found.stdout.strip() == str(fits)
