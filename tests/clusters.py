"""Clusters of PostgreSQL for tests: where they lie, copies of a stopped one, and one kept for later runs."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.child import SystemAccount, create_private_directory

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


def name_kept(account: SystemAccount | None, made_from: Iterable[Path]) -> str:
    """Return the name of the cluster that these files (migrations, versions of packages) make for this account."""
    digest = hashlib.sha256(str(account and account.name).encode())
    for path in sorted(made_from):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def keep_cluster(stopped: Path, kept: Path) -> None:
    """Keep a copy of a stopped cluster for later runs, instead of the others in its directory.

    A place that cannot be written keeps nothing. Of two runs at the same time the first one's copy stays.
    """
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="new-", dir=kept.parent))
        subprocess.run(["cp", "-a", stopped, partial / kept.name], check=True, stderr=subprocess.DEVNULL)
        with contextlib.suppress(OSError):
            (partial / kept.name).rename(kept)
        for other in kept.parent.iterdir():
            if other != kept:
                shutil.rmtree(other, ignore_errors=True)
