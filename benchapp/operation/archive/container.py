"""The container of an archive: tar in zstd, with a manifest.

The first member is `format.json`, the last `manifest.json`; those between them are CSV files of one table each,
`TABLE/NNNNNN.csv`, in the order of `tables.TABLES`. Only regular files with these names are read, with a reader of
headers that allocates nothing by a declared size.
"""

import csv
import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Final, Self

import msgspec
import zstandard

from benchapp.operation.archive.tables import FORMAT, TABLES

FORMAT_MEMBER: Final = "format.json"
MANIFEST_MEMBER: Final = "manifest.json"
_KIND: Final = "benchapp-archive"
_MEMBER: Final = re.compile(r"([a-z_]+)/(\d{6})\.csv", re.ASCII)
# PostgreSQL reads fields of at most 1 GiB, and a part ends with the row that exceeds PART_BYTES.
_MEMBER_MAXIMUM_BYTES: Final = 2**30
_JSON_MAXIMUM_BYTES: Final = 32 * 2**20
# Of rows, uncompressed: what the writer has in memory.
PART_BYTES: Final = 8 * 2**20
_READ_BYTES: Final = 2**20
# tar fills its last record with zeros.
_END_MAXIMUM_BYTES: Final = 20 * tarfile.BLOCKSIZE
# Level 3 writes 300 MB/s; level 10 takes three times as long for 5 % less.
_LEVEL: Final = 3
# A frame that needs more memory is refused.
_WINDOW_BYTES: Final = 2**27


class BadArchive(Exception):
    """A file that is not a complete, unchanged archive of a known format; the message names what is wrong."""


class ArchiveFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How and of what an archive was written; `format.json`.

    format: version of tables and columns. product: version of benchapp. migration: the newest applied one. filter,
    since_at (inclusive), until_at (exclusive): the selection; "" and None for everything.
    """

    kind: str
    format: int
    product: str
    migration: str
    created_at: datetime
    filter: str = ""
    since_at: datetime | None = None
    until_at: datetime | None = None


class ArchiveMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member. rows: of a table; 0 for format.json. sha256: hexadecimal."""

    name: str
    rows: int
    bytes: int
    sha256: str

    @property
    def table(self) -> str:
        """Return the name of its table."""
        return self.name.partition("/")[0]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The members before it, and the rows of each table."""

    members: tuple[ArchiveMember, ...]
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class CheckedArchive:
    """What an archive contains, after all checksums were compared."""

    format: ArchiveFormat
    manifest: Manifest


class _FormatNumber(msgspec.Struct):
    kind: str
    format: int


def describe_format(**fields: Any) -> ArchiveFormat:
    """Return the description of an archive that is written now."""
    return ArchiveFormat(kind=_KIND, format=FORMAT, **fields)


class ArchiveWriter:
    """Writes an archive to a binary file; `close` completes it with the manifest."""

    def __init__(self, file: IO[bytes], description: ArchiveFormat) -> None:
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._stream = compressor.stream_writer(file, closefd=False)
        self._modified_at = int(description.created_at.timestamp())
        self._members: list[ArchiveMember] = []
        self._parts = dict.fromkeys(TABLES, 0)
        self._write(FORMAT_MEMBER, _dump(description), rows=0)

    def write_part(self, table: str, part: bytes, *, rows: int) -> None:
        """Write some rows of a table: CSV with a header line."""
        self._parts[table] += 1
        self._write(f"{table}/{self._parts[table]:06}.csv", part, rows=rows)

    def close(self) -> Manifest:
        """Write the manifest and the end of the archive."""
        counts = dict.fromkeys(TABLES, 0)
        for member in self._members[1:]:
            counts[member.table] += member.rows
        manifest = Manifest(members=tuple(self._members), rows=counts)
        self._write(MANIFEST_MEMBER, _dump(manifest), rows=0)
        self._stream.write(bytes(2 * tarfile.BLOCKSIZE))
        self._stream.flush(zstandard.FLUSH_FRAME)
        return manifest

    def _write(self, name: str, content: bytes, *, rows: int) -> None:
        header = tarfile.TarInfo(name)
        header.size, header.mode, header.mtime = len(content), 0o600, self._modified_at
        self._stream.write(header.tobuf(tarfile.USTAR_FORMAT))
        self._stream.write(content)
        self._stream.write(bytes(-len(content) % tarfile.BLOCKSIZE))
        digest = hashlib.sha256(content).hexdigest()
        self._members.append(ArchiveMember(name=name, rows=rows, bytes=len(content), sha256=digest))


class MemberReader:
    """The content of one member, in order; `digest` is complete after the last part."""

    def __init__(self, stream: zstandard.ZstdDecompressionReader, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._stream = stream
        self._left = size
        self._hash = hashlib.sha256()

    def read_parts(self) -> Iterator[bytes]:
        """Yield what is left, at most 1 MiB at a time. Raises BadArchive if the archive ends before."""
        while self._left:
            part = _read(self._stream, min(self._left, _READ_BYTES), self.name)
            self._left -= len(part)
            self._hash.update(part)
            yield part

    def read(self) -> bytes:
        """Return all of a small member."""
        if self.size > _JSON_MAXIMUM_BYTES:
            raise BadArchive(f"{self.name}: {self.size} bytes; at most {_JSON_MAXIMUM_BYTES} are read")
        return b"".join(self.read_parts())

    def skip_padding(self) -> None:
        """Read on to the next header."""
        for _ in self.read_parts():
            pass
        if padding := -self.size % tarfile.BLOCKSIZE:
            _read(self._stream, padding, self.name)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of what was read, hexadecimal."""
        return self._hash.hexdigest()


class ArchiveReader:
    """Reads the members of an archive in order."""

    def __init__(self, file: IO[bytes]) -> None:
        file.seek(0)
        if file.read(4) != zstandard.FRAME_HEADER:
            raise BadArchive("not an archive: the file is not compressed with zstd")
        file.seek(0)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        self._stream = decompressor.stream_reader(file, closefd=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()  # type: ignore[no-untyped-call]
        if isinstance(error, zstandard.ZstdError):
            raise BadArchive(f"the compressed data is damaged: {error}") from error

    def read_members(self) -> Iterator[MemberReader]:
        """Yield each member once. Raises BadArchive for anything but the files of an archive."""
        while True:
            block = _read(self._stream, tarfile.BLOCKSIZE, "the header of a member")
            if not any(block):
                self._read_end()
                return
            member = self._open(block)
            yield member
            member.skip_padding()

    def _read_end(self) -> None:
        """Read the end of the archive, with which the checksum of zstd is compared."""
        size = 0
        while rest := self._stream.read(_READ_BYTES):
            size += len(rest)
            if size > _END_MAXIMUM_BYTES or any(rest):
                raise BadArchive("there is data after the end of the archive")

    def _open(self, block: bytes) -> MemberReader:
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise BadArchive(f"not an archive: the header of a member is invalid ({error})") from error
        name = header.name
        match = _MEMBER.fullmatch(name)
        is_known = name in (FORMAT_MEMBER, MANIFEST_MEMBER) or (match is not None and match[1] in TABLES)
        if not header.isreg() or not is_known:
            raise BadArchive(f"unknown member {name[:200]!r}; an archive contains tables and manifests only")
        if not 0 <= header.size <= _MEMBER_MAXIMUM_BYTES:
            raise BadArchive(
                f"{name}: {header.size} bytes are declared; at most {_MEMBER_MAXIMUM_BYTES} are read"
            )
        return MemberReader(self._stream, name, header.size)


def check_archive(file: IO[bytes]) -> CheckedArchive:
    """Read a whole archive and compare it with its manifest; stores nothing. Raises BadArchive."""
    found: list[tuple[str, int, str]] = []
    description: ArchiveFormat | None = None
    manifest: Manifest | None = None
    with ArchiveReader(file) as reader:
        for member in reader.read_members():
            if manifest is not None:
                raise BadArchive(f"{member.name} follows {MANIFEST_MEMBER}, which must be the last member")
            if description is None:
                description = _read_format(member)
            elif member.name == FORMAT_MEMBER:
                raise BadArchive(f"{FORMAT_MEMBER} occurs twice")
            elif member.name == MANIFEST_MEMBER:
                manifest = _decode(member, Manifest)
                continue
            for _ in member.read_parts():
                pass
            found.append((member.name, member.size, member.digest))
    if description is None or manifest is None:
        raise BadArchive(f"the archive has no {MANIFEST_MEMBER}: it is not complete")
    _compare(found, manifest)
    return CheckedArchive(description, manifest)


def list_authors(file: IO[bytes]) -> list[str]:
    """Return the sign-in names in an archive that was checked, in the order of the archive. Raises BadArchive."""
    names: list[str] = []
    with ArchiveReader(file) as reader:
        for member in reader.read_members():
            if member.name.startswith("authors/"):
                try:
                    rows = csv.DictReader(io.StringIO(b"".join(member.read_parts()).decode()))
                    names += (row["username"] or "" for row in rows)
                except KeyError as error:
                    raise BadArchive(f"{member.name}: column username is missing") from error
                except (UnicodeDecodeError, csv.Error) as error:
                    raise BadArchive(f"{member.name}: {error}") from error
    return names


def _read_format(member: MemberReader) -> ArchiveFormat:
    if member.name != FORMAT_MEMBER:
        raise BadArchive(f"the first member is {member.name}, not {FORMAT_MEMBER}")
    content = member.read()
    try:
        number = msgspec.json.decode(content, type=_FormatNumber)
        if number.kind != _KIND:
            raise BadArchive(f"{FORMAT_MEMBER}: kind {number.kind[:80]!r} is not {_KIND!r}")
        if number.format != FORMAT:
            raise BadArchive(
                f"the archive has format {number.format}, this version of benchapp reads format {FORMAT}:"
                " import it with the version that wrote it, or a newer one"
            )
        return msgspec.json.decode(content, type=ArchiveFormat)
    except msgspec.MsgspecError as error:
        raise BadArchive(f"{FORMAT_MEMBER}: {error}") from error


def _decode(member: MemberReader, kind: type[Manifest]) -> Manifest:
    try:
        return msgspec.json.decode(member.read(), type=kind)
    except msgspec.MsgspecError as error:
        raise BadArchive(f"{member.name}: {error}") from error


def _compare(found: list[tuple[str, int, str]], manifest: Manifest) -> None:
    """Raise BadArchive if the members differ from those of the manifest."""
    listed = {member.name: member for member in manifest.members}
    names = [name for name, _, _ in found]
    if missing := sorted(listed.keys() - set(names)):
        raise BadArchive(f"{missing[0]} is missing, and {len(missing) - 1} other members")
    if names != [member.name for member in manifest.members]:
        extra = sorted(set(names) - listed.keys())
        what = (
            f"{extra[0]} is not in the manifest"
            if extra
            else "the members are not in the order of the manifest"
        )
        raise BadArchive(what)
    for name, size, digest in found:
        if (size, digest) != (listed[name].bytes, listed[name].sha256):
            raise BadArchive(f"{name} was changed: its SHA-256 differs from the manifest")
    counts = dict.fromkeys(TABLES, 0)
    for member in manifest.members[1:]:
        counts[member.table] += member.rows
    if counts != manifest.rows:
        raise BadArchive(f"{MANIFEST_MEMBER}: the rows of the tables differ from their members")


def _read(stream: zstandard.ZstdDecompressionReader, count: int, place: str) -> bytes:
    """Return exactly so many bytes. Raises BadArchive if the archive ends before."""
    parts = []
    left = count
    while left:
        try:
            part = stream.read(left)
        except zstandard.ZstdError as error:
            raise BadArchive(f"the compressed data is damaged in {place}: {error}") from error
        if not part:
            raise BadArchive(f"the archive is truncated: it ends in {place}")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _dump(content: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
