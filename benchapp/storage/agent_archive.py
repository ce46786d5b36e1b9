"""The agent as one file that a host can run: /agent/bench-agent.pyz."""

import hashlib
import io
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings

# The end of a zip names its files. Without it Python reads the file as source text, and its error message is the name
# of this encoding, which does not exist.
_SHEBANG: Final = (
    b"#!/usr/bin/env python3\n# coding: this-file-is-incomplete.download-bench-agent.pyz-again\n"
)
# Python reads each module when it is imported. From a descriptor all are of one version, also if the file
# is replaced meanwhile. Without /proc, as on macOS, the file is read by its path.
_MAIN: Final = b"""\
import os
import sys

descriptor = os.open(sys.path[0], os.O_RDONLY)
opened = "/proc/self/fd/%d" % descriptor
if os.path.exists(opened):
    sys.path[0] = opened

from agent.commands.cli import main

sys.exit(main())
"""
# The earliest time in a zip: the same sources must give the same bytes, and so the same ETag.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT: Final = {"__pycache__", "tests"}


@cache
def read_agent_archive() -> tuple[bytes, str]:
    """Return the archive of the agent of this server, and its SHA-256, hexadecimal; built once per process."""
    content = build_agent_archive(Path(settings.BASE_DIR) / "agent")
    return content, hashlib.sha256(content).hexdigest()


@cache
def read_agent_version() -> str:
    """Return the version of the agent shipped with this server; read once per process."""
    source = (Path(settings.BASE_DIR) / "agent" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    if found is None:
        raise ValueError("agent/__init__.py has no line __version__")
    return found[1]


def build_agent_archive(folder: Path) -> bytes:
    """Zip the agent's directory with a `__main__.py`; the same sources give the same bytes on each machine."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a") as archive:
        _add(archive, "__main__.py", _MAIN)
        for path in sorted(folder.rglob("*"), key=lambda path: path.as_posix()):
            inside = path.relative_to(folder)
            if path.is_file() and not _LEFT_OUT & set(inside.parts) and path.suffix != ".pyc":
                _add(archive, f"agent/{inside.as_posix()}", path.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_MOMENT)
    # Not compressed: the bytes, and so the digest, would depend on the zlib of the machine.
    entry.compress_type = zipfile.ZIP_STORED
    entry.external_attr = 0o644 << 16
    entry.create_system = 3
    archive.writestr(entry, content)
