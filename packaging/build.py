"""Build the packages of the agent in dist/: bench-agent.pyz, its manual page, deb, rpm and wheel.

nfpm.yaml describes deb and rpm, wheel/pyproject.toml the wheel. All but the wheel contain the same archive, which the
server sends as /agent/bench-agent.pyz; the wheel contains the same modules. The same sources give the same bytes
with the same tools (uv.lock) and zlib.
"""

import gzip
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from agent import __version__  # noqa: E402 - the repository is not installed
from agent.commands.cli import build_parser, list_commands  # noqa: E402
from benchapp.storage.agent_archive import build_agent_archive  # noqa: E402

_PROGRAMS: Final = Path(sysconfig.get_path("scripts"))


def build_packages(folder: Path) -> None:
    """Write the files to a folder. Ends the process if a tool is not installed."""
    archive, manual = build_agent_archive(ROOT / "agent"), write_manual().encode()
    (folder / "bench-agent.pyz").write_bytes(archive)
    (folder / "bench-agent.1").write_bytes(manual)
    with tempfile.TemporaryDirectory() as collected:
        Path(collected, "bench-agent").write_bytes(archive)
        Path(collected, "bench-agent.1.gz").write_bytes(gzip.compress(manual, mtime=0))
        shutil.copy(ROOT / "LICENSE", collected)
        for kind in ("deb", "rpm"):
            _run(
                *("nfpm", "package", "--packager", kind),
                *("--config", ROOT / "packaging" / "nfpm.yaml", "--target", folder),
                cwd=collected,
            )
    _run("hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT / "packaging" / "wheel")


def _run(name: str, *arguments: str | Path, cwd: str | Path) -> None:
    program = _PROGRAMS / name
    if not program.exists():
        sys.exit(f"{name} is not installed in {_PROGRAMS}: `make agent-packages` installs it")
    subprocess.run([program, *arguments], cwd=cwd, env={**os.environ, "VERSION": __version__}, check=True)


def write_manual() -> str:
    """Return the manual page in roff: the help of the program and of each command."""
    # argparse wraps lines at the width of the terminal.
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        parser = build_parser()
        helps = {"": parser.format_help()} | {
            name: command.format_help() for name, command in list_commands(parser).items()
        }
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(_write_sections(helps)) + "\n"


def _write_sections(helps: Mapping[str, str]) -> Iterator[str]:
    yield f'.TH BENCH-AGENT 1 "" "bench-agent {__version__}" "benchapp"'
    yield ".SH NAME"
    yield "bench\\-agent \\- run storage benchmarks on this host and send the fio output to the server"
    for name, text in helps.items():
        yield f".SH {_escape(name.upper())}" if name else ".SH SYNOPSIS"
        yield ".nf"
        yield from map(_escape, text.strip().splitlines())
        yield ".fi"


def _escape(line: str) -> str:
    """Return a line that roff prints as it is."""
    text = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


if __name__ == "__main__":
    (ROOT / "dist").mkdir(exist_ok=True)
    build_packages(ROOT / "dist")
