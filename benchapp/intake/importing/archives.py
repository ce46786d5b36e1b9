"""Unpack archives among the files to import: their members are files of folders."""

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Final

from benchapp.intake.importing.discovery import Folder, find_folders

_TAR: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
# Of an archive: years of results, but no bomb.
_BYTES_MAXIMUM: Final = 4 * 2**30
_MEMBERS_MAXIMUM: Final = 100_000
_CHUNK_BYTES: Final = 2**20
# Of broken, encrypted and unknown archives, by their modules.
_FAULTS: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error),
    *(EOFError, OSError, RuntimeError, ValueError),
)


class _TooLarge(ValueError):
    """The archive exceeds a limit; the message names it."""


def unpack_archives(folders: Sequence[Folder], into: Path) -> Iterator[Folder]:
    """Yield the folders without their archives, and the folders in these, unpacked into a directory.

    zip and tar, by their names; an archive in an archive stays a file. One that cannot be unpacked, or exceeds 4 GiB or
    100 000 members, is a folder with a fault.
    """
    count = 0
    for folder in folders:
        archives = [path for path in folder.files if path.name.lower().endswith((".zip", *_TAR))]
        others = tuple(path for path in folder.files if path not in archives)
        if others or not archives:
            yield replace(folder, files=others)
        for path in archives:
            count += 1
            target = into / str(count) / path.name
            try:
                _unpack(path, target)
            except _FAULTS as error:
                fault = f"the archive cannot be unpacked: {error}"
                yield Folder(path, (), is_named=folder.is_named, fault=fault)
            else:
                yield from find_folders([target])


def _unpack(path: Path, target: Path) -> None:
    room = _BYTES_MAXIMUM
    target.mkdir(parents=True)
    for number, (name, modified_s, source) in enumerate(_list_members(path)):
        if number >= _MEMBERS_MAXIMUM:
            raise _TooLarge(f"it has more than {_MEMBERS_MAXIMUM} members")
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..")]
        place = target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        with source, place.open("wb") as file:
            while chunk := source.read(min(_CHUNK_BYTES, room + 1)):
                room -= len(chunk)
                if room < 0:
                    raise _TooLarge(f"it exceeds {_BYTES_MAXIMUM // 2**30} GiB unpacked")
                file.write(chunk)
        os.utime(place, (modified_s, modified_s))


def _list_members(path: Path) -> Iterator[tuple[str, float, IO[bytes]]]:
    """Yield name, modification time (Unix, s) and content of each regular file of an archive."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, _read_time(entry, path), archive.open(entry)
        return
    with closing(tarfile.open(path, "r|*")) as tape:
        for member in tape:
            content = tape.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, member.mtime, content


def _read_time(entry: zipfile.ZipInfo, path: Path) -> float:
    """Return the local time of a member of a zip, that of the archive if there is none."""
    try:
        return datetime(*entry.date_time).astimezone().timestamp()
    except ValueError:
        return path.stat().st_mtime
