"""Wrong archives are refused with the reason; no database is needed to check one."""

import io
import tarfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import zstandard

from benchapp.operation.archive.container import (
    ArchiveFormat,
    ArchiveReader,
    ArchiveWriter,
    BadArchive,
    check_archive,
    describe_format,
    list_authors,
)
from benchapp.operation.archive.export import replace_path

DESCRIPTION = describe_format(
    product="0.1.0", migration="0036_archive_identity", created_at=datetime(2026, 11, 23, tzinfo=UTC)
)
PART = b"id,username\n1,ada\n"


def write_archive(description: ArchiveFormat = DESCRIPTION, *, is_closed: bool = True) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file, description)
    writer.write_part("authors", PART, rows=1)
    writer.write_part("authors", b"id,username\n2,ben\n3,eve\n", rows=2)
    if is_closed:
        writer.close()
    return file.getvalue()


def unpack(archive: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(archive).read()


def pack(content: bytes) -> io.BytesIO:
    return io.BytesIO(zstandard.ZstdCompressor().compress(content))


def make_member(name: str, content: bytes = b"", **fields: object) -> bytes:
    """Return a member of tar; fields: of the header, which may contradict the content."""
    header = tarfile.TarInfo(name)
    header.size = len(content)
    for field, value in fields.items():
        setattr(header, field, value)
    return header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


FORMAT_JSON = make_member("format.json", msgspec.json.encode(DESCRIPTION))


def test_archive_is_tar_with_the_rows_of_each_table() -> None:
    archive = write_archive()

    checked = check_archive(io.BytesIO(archive))

    assert checked.format == DESCRIPTION
    assert checked.manifest.rows["authors"] == 3
    assert checked.manifest.rows["runs"] == 0
    assert list_authors(io.BytesIO(archive)) == ["ada", "ben", "eve"]
    with tarfile.open(fileobj=io.BytesIO(unpack(archive))) as tar:
        assert tar.getnames() == ["format.json", "authors/000001.csv", "authors/000002.csv", "manifest.json"]
        assert tar.extractfile("authors/000001.csv").read() == PART


def test_truncated_archives_are_refused_at_any_length() -> None:
    archive = write_archive()

    for length in range(4, len(archive) - 4, 7):
        with pytest.raises(BadArchive, match=r"truncated|not complete|damaged"):
            check_archive(io.BytesIO(archive[:length]))
    with pytest.raises(BadArchive, match=r"no manifest\.json|ends in"):
        check_archive(pack(unpack(archive)[: -(1024 + 1024 + 512)] + bytes(1024)))


def test_damaged_bytes_are_refused_unless_the_content_is_the_same() -> None:
    archive, accepted = write_archive(), 0

    for place in range(0, len(archive), 5):
        damaged = bytearray(archive)
        damaged[place] ^= 0x40
        with suppress(BadArchive):
            check_archive(io.BytesIO(damaged))
            # A few bits of the compressed form have no effect.
            assert unpack(bytes(damaged)) == unpack(archive)
            accepted += 1
    assert accepted < 5


def test_changed_member_is_named() -> None:
    changed = unpack(write_archive()).replace(b"1,ada", b"1,eva")

    with pytest.raises(BadArchive, match=r"authors/000001\.csv was changed"):
        check_archive(pack(changed))


def test_newer_format_is_named() -> None:
    newer = msgspec.structs.replace(DESCRIPTION, format=2)

    with pytest.raises(BadArchive, match="format 2, this version of benchapp reads format 1"):
        check_archive(io.BytesIO(write_archive(newer)))


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (make_member("../../etc/passwd", b"x"), "unknown member"),
        (make_member("/etc/passwd", b"x"), "unknown member"),
        (make_member("authors/../../000001.csv", b"x"), "unknown member"),
        (make_member("passwords/000001.csv", b"x"), "unknown member"),
        (make_member("authors/000001.csv", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "unknown member"),
        (make_member("authors/000001.csv", type=tarfile.XHDTYPE, size=2**33), "unknown member"),
        (make_member("././@LongLink", type=tarfile.GNUTYPE_LONGNAME, size=2**33), "unknown member"),
        (make_member("authors/000001.csv", size=2**40), "1099511627776 bytes are declared"),
        (make_member("manifest.json", size=2**30), r"manifest\.json: 1073741824 bytes"),
        (make_member("authors/000001.csv", size=2**29), "truncated"),
        (FORMAT_JSON, "format.json occurs twice"),
        (make_member("manifest.json", b"{}") + make_member("manifest.json", b"{}"), "missing required field"),
        (b"x" * 512, "header of a member is invalid"),
        (b"", "no manifest.json"),
    ],
)
def test_unexpected_members_are_refused_before_their_content_is_read(member: bytes, reason: str) -> None:
    with pytest.raises(BadArchive, match=reason):
        check_archive(pack(FORMAT_JSON + member + bytes(1024)))


def test_other_files_are_not_archives() -> None:
    for content in (b"", b"PK\x03\x04", b"PGDMP\x01"):
        with pytest.raises(BadArchive, match="not compressed with zstd"):
            check_archive(io.BytesIO(content))
    with pytest.raises(BadArchive, match=r"first member is manifest\.json"):
        check_archive(pack(make_member("manifest.json", b"{}") + bytes(1024)))


def test_frame_that_needs_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=29, write_content_size=False)
    content = FORMAT_JSON + bytes(2**20)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = compressor.compress(content) + compressor.flush()

    with pytest.raises(BadArchive, match="memory"):
        check_archive(io.BytesIO(frame))


def test_content_is_read_in_parts() -> None:
    file = io.BytesIO()
    writer = ArchiveWriter(file, DESCRIPTION)
    writer.write_part("authors", b"x" * 5_000_000, rows=1)
    writer.close()

    with ArchiveReader(file) as reader:
        sizes = [
            len(part)
            for member in reader.read_members()
            if member.name == "authors/000001.csv"
            for part in member.read_parts()
        ]

    assert sum(sizes) == 5_000_000
    assert max(sizes) <= 2**20


def test_file_takes_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "history.tar.zst"
    path.write_bytes(b"earlier")

    with pytest.raises(ZeroDivisionError), replace_path(path) as partial:
        partial.write_bytes(b"half")
        raise ZeroDivisionError
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"history.tar.zst": b"earlier"}

    with replace_path(path) as partial:
        partial.write_bytes(b"complete")
        assert path.read_bytes() == b"earlier"
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {
        "history.tar.zst": b"complete"
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_directory_takes_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"

    with pytest.raises(ZeroDivisionError), replace_path(path, is_directory=True) as partial:
        (partial / "runs.parquet").write_bytes(b"half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []

    with replace_path(path, is_directory=True) as partial:
        (partial / "runs.parquet").write_bytes(b"complete")
        assert not path.exists()
    assert (path / "runs.parquet").read_bytes() == b"complete"
    assert path.stat().st_mode & 0o777 == 0o700
