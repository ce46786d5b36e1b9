"""Build the packages of the agent in dist/: bench-agent.pyz, its manual page, deb, rpm and wheel.

All but the wheel contain the same archive, which the server sends as /agent/bench-agent.pyz; the wheel contains the
same modules. The same sources give the same bytes; those of the packages, which are compressed, also depend on zlib.
"""

import gzip
import io
import os
import sys
import tarfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "packaging")]

from python_wheel import build_wheel  # noqa: E402
from rpm_package import build_rpm  # noqa: E402

from agent import __version__  # noqa: E402 - the repository is not installed
from agent.commands.cli import build_parser, list_commands  # noqa: E402
from benchapp.agent_archive import build_agent_archive  # noqa: E402

_SUMMARY: Final = "runs storage benchmarks and sends the results to benchapp"
_DESCRIPTION: Final = """\
Runs fio from cron or systemd, stores each result on disk, and posts it until
the server has acknowledged it."""
_CONTROL: Final = f"""\
Package: bench-agent
Version: {__version__}
Architecture: all
Maintainer: benchapp
Section: utils
Priority: optional
Depends: python3 (>= 3.8)
Recommends: fio
Suggests: mdadm, lvm2, xfsprogs, btrfs-progs
Description: {_SUMMARY}
{textwrap.indent(_DESCRIPTION, " ")}
"""


def main() -> None:
    """Write the files to dist/ and print their paths."""
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    archive, manual = build_agent_archive(ROOT / "agent"), write_manual()
    for name, content in {
        "bench-agent.pyz": archive,
        "bench-agent.1": manual.encode(),
        f"bench-agent_{__version__}_all.deb": build_deb(archive, manual),
        f"bench-agent-{__version__}-1.noarch.rpm": build_rpm(
            list_files(archive, manual, license_path="licenses/bench-agent/LICENSE"),
            version=__version__,
            summary=_SUMMARY,
            description=_DESCRIPTION,
        ),
        f"bench_agent-{__version__}-py3-none-any.whl": build_wheel(
            ROOT / "agent",
            version=__version__,
            summary=_SUMMARY,
            license_text=(ROOT / "LICENSE").read_bytes(),
        ),
    }.items():
        (folder / name).write_bytes(content)
        print(f"dist/{name}")


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


def list_files(archive: bytes, manual: str, *, license_path: str) -> dict[str, tuple[bytes, int]]:
    """Return (content, mode) of each installed file by its path below the root."""
    return {
        "usr/bin/bench-agent": (archive, 0o755),
        "usr/share/man/man1/bench-agent.1.gz": (gzip.compress(manual.encode(), mtime=0), 0o644),
        f"usr/share/{license_path}": ((ROOT / "LICENSE").read_bytes(), 0o644),
    }


def build_deb(archive: bytes, manual: str) -> bytes:
    """Return a binary package, as deb(5) and ar(5) describe it."""
    files = list_files(archive, manual, license_path="doc/bench-agent/copyright")
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _pack({"control": (_CONTROL.encode(), 0o644)}),
        "data.tar.gz": _pack(files),
    }
    return b"!<arch>\n" + b"".join(_write_member(name, content) for name, content in members.items())


def _write_member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return header.encode("ascii") + content + b"\n" * (len(content) % 2)


def _pack(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a tar of files with their directories, owned by root, without times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        parents = {parent for name in files for parent in Path(name).parents}
        for parent in sorted(parents, key=lambda path: path.as_posix()):
            entry = tarfile.TarInfo("./" if parent == Path() else f"./{parent.as_posix()}/")
            entry.type, entry.mode, entry.uname, entry.gname = tarfile.DIRTYPE, 0o755, "root", "root"
            packed.addfile(entry)
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode, entry.uname, entry.gname = len(content), mode, "root", "root"
            packed.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


if __name__ == "__main__":
    main()
