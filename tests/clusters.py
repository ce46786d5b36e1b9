"""Clusters of PostgreSQL for tests: where they lie, and copies of a stopped one."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchapp.embedded.account import SystemAccount, create_private_directory

_IN_MEMORY: Final = Path("/dev/shm")
# A run with four processes writes about 1.5 GiB; a container often has 64 MiB.
_NEEDED_BYTES: Final = 4 * 2**30


def make_place(prefix: str) -> Path:
    """Make a directory with a short path for servers, as a socket's path has at most 103 bytes.

    In memory if there is room: a disk that discards what is deleted takes five seconds to delete a cluster.
    """
    has_room = os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > _NEEDED_BYTES
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_IN_MEMORY if has_room else "/tmp"))


def copy_cluster(stopped: Path, directory: Path, *, account: SystemAccount | None) -> None:
    """Make a cluster in a directory that does not exist yet from a stopped one of the same account.

    It takes a tenth of the time of initdb, and the copy has the tables of the other.
    """
    create_private_directory(directory.parent, account)
    subprocess.run(["cp", "-a", stopped, directory], check=True)
