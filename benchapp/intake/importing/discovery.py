"""Find the files to import, also in archives, and read each completely, up to a limit."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, NamedTuple, cast

import zstandard

_MIB: Final = 2**20
# A block of 4 bytes unpacks to 128 KiB: a read of 256 bytes takes at most 8 MiB.
_ZSTD_READ_BYTES: Final = 256
_ZSTD_WINDOW_BYTES: Final = 128 * _MIB


class _ZstdFile(io.RawIOBase):
    """The content of zstd frames. A cut frame is a ZstdError, which the reader of zstandard does not report."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._frame: Any = None
        self._left = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; return the number of bytes, 0 at the end."""
        while not self._ready:
            packed = self._left or self._file.read(_ZSTD_READ_BYTES)
            if not packed and self._frame is not None:
                raise zstandard.ZstdError("the last frame is cut")
            if not packed:
                return 0
            frame = (
                self._frame or zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
            )
            self._ready = memoryview(frame.decompress(packed))
            self._left, self._frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


# First bytes of a packed file → what unpacks it.
_PACKED: Final[Mapping[bytes, Callable[[BufferedReader], Any]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    zstandard.FRAME_HEADER: lambda file: io.BufferedReader(_ZstdFile(file)),
}


class UnreadableFile(Exception):
    """A file that cannot be read completely; code is stable, detail a sentence for people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Folder:
    """Files of one folder, by name. is_named: given one by one, not found in a folder.

    fault: why the folder itself could not be listed; it has no files then.
    """

    path: Path
    files: tuple[Path, ...]
    is_named: bool
    fault: str = ""


class DatedFile(NamedTuple):
    """The unpacked bytes of a file, and its modification time in whole seconds."""

    content: bytes
    modified_at: datetime


def find_folders(paths: Sequence[Path]) -> list[Folder]:
    """Return the given files by folder, then all files under the given folders.

    In the order given, files of a folder by name. Hidden files and folders and non-regular files are skipped; a folder
    that is reached again through a link too. Raises FileNotFoundError.
    """
    named: dict[Path, list[Path]] = defaultdict(list)
    folders: list[Folder] = []
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        if path.is_dir():
            folders += _walk(path, seen)
        elif path not in named[path.parent]:
            named[path.parent].append(path)
    return [Folder(folder, tuple(files), is_named=True) for folder, files in named.items()] + folders


def read_file(path: Path, *, limit: int) -> bytes:
    """Return a file's bytes, unpacked if it is gzip, xz, bzip2 or zstd; limit in bytes, inclusive.

    Raises UnreadableFile.
    """
    return read_dated_file(path, limit=limit).content


def read_dated_file(path: Path, *, limit: int) -> DatedFile:
    """Return a file's bytes as `read_file` does, and its modification time. Raises UnreadableFile."""
    with _name_fault(), path.open("rb") as file:
        # Of the open file, since its path may be removed or replaced meanwhile.
        modified_at = datetime.fromtimestamp(int(os.fstat(file.fileno()).st_mtime), UTC)
        return DatedFile(_check_size(_read_unpacked(file, limit + 1), limit), modified_at)


def unpack_bytes(content: bytes, *, limit: int) -> bytes:
    """Return what `read_file` returns for a file of these bytes. Raises UnreadableFile."""
    with _name_fault():
        file: BufferedReader = io.BufferedReader(cast(Any, io.BytesIO(content)))
        return _check_size(_read_unpacked(file, limit + 1), limit)


def read_beginning(path: Path, *, size: int) -> bytes:
    """Return at most `size` bytes from the beginning of a file, unpacked if it is packed. Raises UnreadableFile."""
    with _name_fault(), path.open("rb") as file:
        return _read_unpacked(file, size)


def _read_unpacked(file: BufferedReader, size: int) -> bytes:
    # Unpacks no more than the size, whatever a bomb contains.
    return _open_unpacked(file).read(size)


def _open_unpacked(file: BufferedReader) -> IO[bytes]:
    """Return the content of a file that may be packed, by its first bytes."""
    beginning = file.peek(6)
    unpack = next((unpack for first, unpack in _PACKED.items() if beginning.startswith(first)), None)
    return cast(IO[bytes], unpack(file)) if unpack else file


def _check_size(content: bytes, limit: int) -> bytes:
    if len(content) > limit:
        raise UnreadableFile("body-too-big", f"the file exceeds {limit // _MIB} MiB unpacked")
    return content


@contextmanager
def _name_fault() -> Iterator[None]:
    try:
        yield
    except (lzma.LZMAError, zstandard.ZstdError) as error:
        raise UnreadableFile("file-unreadable", f"the packed file is damaged: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UnreadableFile("gzip-invalid", f"the packed file is damaged: {error}") from error
    except OSError as error:
        raise UnreadableFile("file-unreadable", error.strerror or str(error)) from error


def _walk(top: Path, seen: set[tuple[int, int]]) -> Iterator[Folder]:
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield Folder(folder, (), is_named=False, fault=error.strerror or str(error))
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        files = tuple(folder / entry.name for entry in shown if _is_file(entry))
        if files:
            yield Folder(folder, files, is_named=False)
        waiting += [folder / entry.name for entry in reversed(shown) if _is_folder(entry)]


def _is_file(entry: "os.DirEntry[str]") -> bool:
    with suppress(OSError):  # a link to itself
        return entry.is_file()
    return False


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False


_TAR: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst")
# Of an archive: years of results, but no bomb.
_BYTES_MAXIMUM: Final = 4 * 2**30
_MEMBERS_MAXIMUM: Final = 100_000
_CHUNK_BYTES: Final = 2**20
# Of broken, encrypted and unknown archives, by their modules.
_FAULTS: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError),
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
    with path.open("rb") as file, closing(tarfile.open(fileobj=_open_unpacked(file), mode="r|")) as tape:
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
