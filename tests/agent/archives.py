"""Archives of the agent for tests: the real one, and small ones that only answer `check` and `version`."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from agent import __version__
from benchapp.agent_archive import build_agent_archive

ROOT = Path(__file__).parents[2]

_PROGRAM = """\
import json, sys
if {is_broken}:
    sys.exit("SyntaxError: invalid syntax")
failures = {failures}
checks = [{{"name": name, "ok": name not in failures, "detail": failures.get(name, "")}} for name in {checks}]
print(json.dumps({{"version": {reported!r}}} if sys.argv[1] == "version" else {{"checks": checks}}))
"""


@cache
def build_archive() -> bytes:
    """Return the archive that the server sends."""
    return build_agent_archive(ROOT / "agent")


def build_version(version: str) -> bytes:
    """Return the archive that the server sends, with another version."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(build_archive())) as source, zipfile.ZipFile(packed, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "agent/__init__.py":
                content = content.replace(__version__.encode(), version.encode())
            archive.writestr(name, content)
    return packed.getvalue()


def make_archive(
    version: str,
    *,
    failures: Mapping[str, str] | None = None,
    reported: str | None = None,
    is_broken: bool = False,
) -> bytes:
    """Return a small archive. failures: of its `check`, by name; reported: the version that it prints."""
    failures = failures or {}
    program = _PROGRAM.format(
        is_broken=is_broken,
        failures=json.dumps(failures),
        checks=["configuration", "spool", *(name for name in failures if name != "spool")],
        reported=reported or version,
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__main__.py", program)
        archive.writestr("agent/__init__.py", f'__version__ = "{version}"\n')
    return packed.getvalue()
