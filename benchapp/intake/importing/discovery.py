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
from contextlib import contextmanager, suppress
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
    return read_dated_file(path, limit=limit)[0]


def read_dated_file(path: Path, *, limit: int) -> tuple[bytes, datetime]:
    """Return a file's bytes as `read_file` does, and its modification time in whole seconds. Raises UnreadableFile."""
    with _name_fault(), path.open("rb") as file:
        # Of the open file, since its path may be removed or replaced meanwhile.
        modified_at = datetime.fromtimestamp(int(os.fstat(file.fileno()).st_mtime), UTC)
        return _check_size(_read_unpacked(file, limit + 1), limit), modified_at


def unpack_bytes(content: bytes, *, limit: int) -> bytes:
    """Return what `read_file` returns for a file of these bytes. Raises UnreadableFile."""
    with _name_fault():
        return _check_size(_read_unpacked(open_bytes(content), limit + 1), limit)


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


# Of an archive: years of results, but no bomb. Outputs of fio pack to a tenth, logs of one value to a hundredth.
_BYTES_MAXIMUM: Final = 4 * 2**30
_MEMBERS_MAXIMUM: Final = 100_000
_RATIO_MAXIMUM: Final = 1000
_ANY_RATIO_BYTES: Final = 64 * _MIB
_ZIP: Final = b"PK\x03\x04"
# Of broken, encrypted and unknown archives, by their modules.
_FAULTS: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError),
    *(EOFError, OSError, RuntimeError, ValueError),
)


class PackedFile(NamedTuple):
    """A file of an archive. place: its folders and name, never "..", "/" or hidden; modified_s: Unix time."""

    place: PurePosixPath
    modified_s: float
    content: bytes


def is_archive(beginning: bytes) -> bool:
    """Return whether a content with these first 512 bytes, unpacked, is a zip or tar archive."""
    try:
        tarfile.TarInfo.frombuf(beginning[: tarfile.BLOCKSIZE], "utf-8", "replace")
    except tarfile.HeaderError:
        return beginning.startswith(_ZIP)
    return True


def open_bytes(content: bytes) -> BufferedReader:
    """Return a content as a file."""
    return io.BufferedReader(cast(Any, io.BytesIO(content)))


def is_archive_file(file: BufferedReader) -> bool:
    """Return whether a file is a zip or tar archive, the latter also packed; the file is at its beginning again."""
    try:
        return is_archive(_open_unpacked(file).read(tarfile.BLOCKSIZE))
    except _FAULTS:
        return False
    finally:
        file.seek(0)


def list_members(
    file: BufferedReader, *, limit: int, total: int = _BYTES_MAXIMUM, count: int = _MEMBERS_MAXIMUM
) -> Iterator[PackedFile]:
    """Yield the files of a zip or tar archive, without hidden ones and links; more than `limit` bytes of none.

    total: bytes that the archive may have unpacked; count: members. Raises UnreadableFile, also for an archive that
    unpacks to more than 64 MiB and the thousandfold.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    room = min(total, max(_ANY_RATIO_BYTES, size * _RATIO_MAXIMUM))
    try:
        is_zip = file.peek(len(_ZIP)).startswith(_ZIP)
        for number, (name, modified_s, content) in enumerate(
            (_list_zip if is_zip else _list_tar)(file, limit, room)
        ):
            if number >= count:
                raise UnreadableFile("body-too-big", f"the archive has more than {count} members")
            place = PurePosixPath(*(part for part in PurePosixPath(name).parts if part not in ("/", "..")))
            if not any(part.startswith(".") for part in place.parts):
                yield PackedFile(place, modified_s, content)
    except _FAULTS as error:
        raise UnreadableFile("file-unreadable", f"the archive cannot be unpacked: {error}") from error


def _list_zip(file: BufferedReader, limit: int, room: int) -> Iterator[tuple[str, float, bytes]]:
    left = room
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                content = archive.open(entry).read(limit + 1)
                left -= len(content)
                if left < 0:
                    raise _refuse_size(room)
                # Local time, by the definition of the format; 1980-00-00 if there is none.
                date = datetime(*entry.date_time) if all(entry.date_time[:3]) else datetime(1980, 1, 1)
                yield entry.filename, date.astimezone().timestamp(), content


def _list_tar(file: BufferedReader, limit: int, room: int) -> Iterator[tuple[str, float, bytes]]:
    stream = cast(Any, _BoundedStream(_open_unpacked(file), room))
    with tarfile.open(fileobj=stream, mode="r|") as tape:
        for member in tape:
            content = tape.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, member.mtime, content.read(limit + 1)


class _BoundedStream:
    """A stream that refuses to be read further: tarfile would skip, and keep a name of, any number of bytes."""

    def __init__(self, stream: IO[bytes], room: int) -> None:
        self._stream = stream
        self._room = self._left = room

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes. Raises UnreadableFile."""
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise _refuse_size(self._room)
        return content


def _refuse_size(limit: int) -> UnreadableFile:
    return UnreadableFile("body-too-big", f"the archive exceeds {limit // _MIB} MiB unpacked")


def unpack_archives(folders: Sequence[Folder], into: Path, *, limit: int) -> Iterator[Folder]:
    """Yield the folders without their archives, and the folders in these, unpacked into a directory.

    An archive in an archive stays a file. One that cannot be unpacked, or is too large, is a folder with a fault.
    limit: bytes of a member that are read, and one more.
    """
    count = 0
    for folder in folders:
        archives = [path for path in folder.files if _is_archive_path(path)]
        others = tuple(path for path in folder.files if path not in archives)
        if others or not archives:
            yield replace(folder, files=others)
        for path in archives:
            count += 1
            target = into / str(count) / path.name
            target.mkdir(parents=True)
            try:
                _unpack(path, target, limit)
            except (UnreadableFile, OSError) as error:
                yield Folder(path, (), is_named=folder.is_named, fault=str(error))
            else:
                yield from find_folders([target])


def _is_archive_path(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return is_archive_file(file)
    return False


def _unpack(path: Path, target: Path, limit: int) -> None:
    with path.open("rb") as file:
        for member in list_members(file, limit=limit):
            place = target / member.place
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(member.content)
            os.utime(place, (member.modified_s, member.modified_s))
