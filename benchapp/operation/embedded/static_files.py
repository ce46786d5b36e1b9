"""Static files as `collectstatic` writes them, collected again when the checkout has changed."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.account import PROJECT, SystemAccount, create_private_directory
from benchapp.operation.embedded.child import ServerFailed, identity

_SOURCES: Final = (
    "static",
    "templates",
    "uv.lock",
    "package-lock.json",
    "benchapp/framework/pages/static_files.py",
)
_STAMP: Final = "collected-from"
_TIMEOUT_S: Final = 120.0


class StaticFiles:
    """The collected files in one directory; collecting runs beside the start of the servers."""

    def __init__(self, directory: Path, account: SystemAccount | None) -> None:
        self.directory = directory
        self._account = account
        self._digest = _digest_sources()
        self._process: subprocess.Popen[str] | None = None

    def start(self, environ: Mapping[str, str]) -> None:
        """Start collecting, unless the files of this checkout are there."""
        if self._is_current():
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        create_private_directory(self.directory, self._account)
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=PROJECT,
            env={**environ, "BENCHAPP_STATIC_ROOT": str(self.directory)},
            **identity(self._account),
        )

    def wait(self) -> None:
        """Wait for the files.

        Raises:
            ServerFailed: they cannot be collected.
        """
        if self._process is None:
            return
        try:
            output, _ = self._process.communicate(timeout=_TIMEOUT_S)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        if self._process.returncode != 0:
            raise ServerFailed(f"cannot collect the static files:\n{output.strip()}")
        (self.directory / _STAMP).write_text(self._digest)

    def _is_current(self) -> bool:
        try:
            return (self.directory / _STAMP).read_text() == self._digest
        except OSError:
            return False


def _digest_sources() -> str:
    digest = hashlib.sha256(str(PROJECT).encode())
    for source in _SOURCES:
        path = PROJECT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(PROJECT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()
