"""Archives in an import: each member is a file of its own, and a bomb is refused."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from benchapp.intake.importing.discovery import (
    UnreadableFile,
    find_folders,
    list_members,
    open_bytes,
    read_file,
    unpack_archives,
    unpack_bytes,
)
from benchapp.models import Run
from tests.envelopes import read_fio
from tests.factories import make_host
from tests.intake.importing.test_files import command

LIMIT = 2**20
MEMBERS = {"nvme0n1/a.json": b"one", "sda/a.json": b"two"}


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:xz") -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), 1_700_000_000
            archive.addfile(entry, io.BytesIO(content))


def make_zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def unpack(*places: Path, into: Path) -> dict[str, bytes]:
    folders = unpack_archives(find_folders(places), into, limit=LIMIT)
    files = [path for folder in folders for path in folder.files]
    return {"/".join(path.parts[-2:]): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", ["r.tar", "r.tar.gz", "results", "r.tar.bz2", "r.tar.xz", "R.ZIP"])
def test_members_are_files_of_their_folders(name: str, tmp_path: Path) -> None:
    modes = {"r.tar": "w", "r.tar.gz": "w:gz", "results": "w:gz", "r.tar.bz2": "w:bz2", "r.tar.xz": "w:xz"}
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / name
    make_tar(path, MEMBERS, modes[name]) if name in modes else make_zip(path, MEMBERS)
    (tmp_path / "folder" / "b.json").write_bytes(b"three")

    found = unpack(tmp_path / "folder", into=tmp_path / "unpacked")

    assert found == MEMBERS | {"folder/b.json": b"three"}


def test_member_stays_in_its_directory(tmp_path: Path) -> None:
    make_tar(tmp_path / "r.tar", {"../../a.json": b"one", "/etc/b.json": b"two"}, "w")

    unpack(tmp_path / "r.tar", into=tmp_path / "unpacked")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.tar", "unpacked"]
    assert {path.name for path in (tmp_path / "unpacked").rglob("*.json")} == {"a.json", "b.json"}


@pytest.mark.parametrize("name", ["r.tar.xz", "r.zip"])
@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"total": 2**20}, "the archive exceeds 1 MiB unpacked"),
        ({"count": 1}, "the archive has more than 1 members"),
        ({}, "the archive exceeds 64 MiB unpacked"),
    ],
)
def test_bomb_is_refused(limits: dict[str, int], fault: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    members = {"a.json": b"one", "b.json": b"two", "c.json": bytes(65 * 2**20)}
    make_zip(path, members) if name == "r.zip" else make_tar(path, members)

    with path.open("rb") as file, pytest.raises(UnreadableFile, match=fault):
        list(list_members(file, limit=100 * 2**20, **limits))


def test_long_name_of_a_tar_does_not_fill_the_memory(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2**33
    content = entry.tobuf(tarfile.GNU_FORMAT) + bytes(3 * 2**20)

    with pytest.raises(UnreadableFile, match="exceeds 2 MiB"):
        list(list_members(open_bytes(content), limit=LIMIT, total=2 * 2**20))


def test_large_member_is_read_up_to_the_limit_of_a_file(tmp_path: Path) -> None:
    make_tar(tmp_path / "r.tar", {"a.json": bytes(2**20), "b.json": b"two"}, "w")

    with (tmp_path / "r.tar").open("rb") as file:
        sizes = [len(member.content) for member in list_members(file, limit=99)]

    assert sizes == [100, 3]


def test_what_is_no_archive_stays_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.tar.gz").write_bytes(b"plain")

    (folder,) = unpack_archives(find_folders([tmp_path / "r.tar.gz"]), tmp_path / "unpacked", limit=LIMIT)

    assert (folder.files, folder.fault) == ((tmp_path / "r.tar.gz",), "")


@pytest.mark.parametrize("cut", [0, 5])
def test_tar_in_zstd_is_unpacked_if_it_is_whole(cut: int, tmp_path: Path) -> None:
    make_tar(tmp_path / "r.tar", MEMBERS | {"sda/b.json": random.Random(0).randbytes(10**6)}, "w")
    packed = zstandard.compress((tmp_path / "r.tar").read_bytes())
    (tmp_path / "r.tar.zst").write_bytes(packed[: len(packed) - cut])

    folders = list(
        unpack_archives(find_folders([tmp_path / "r.tar.zst"]), tmp_path / "unpacked", limit=LIMIT)
    )

    faults = [folder.fault for folder in folders if folder.fault]
    assert faults == (["the archive cannot be unpacked: the last frame is cut"] if cut else [])
    assert len([path for folder in folders for path in folder.files]) == (0 if cut else 3)


def test_zstd_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(zstandard.compress(bytes(10**8)))

    with pytest.raises(UnreadableFile, match="exceeds 1 MiB unpacked"):
        read_file(tmp_path / "a.zst", limit=2**20)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstandard.compress])
def test_bytes_of_an_upload_are_unpacked_as_a_file(pack: Callable[[bytes], bytes]) -> None:
    assert unpack_bytes(pack(b"one"), limit=3) == b"one"
    with pytest.raises(UnreadableFile, match="damaged"):
        unpack_bytes(pack(b"one")[:-3], limit=3)


def test_xz_and_bzip2_are_unpacked_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"one"))
    (tmp_path / "b").write_bytes(bz2.compress(b"two"))

    assert (read_file(tmp_path / "a.xz", limit=3), read_file(tmp_path / "b", limit=3)) == (b"one", b"two")


@pytest.mark.django_db
def test_archive_of_results_is_imported_run_by_run(tmp_path: Path) -> None:
    make_host("db-1")
    outputs = {f"{name}/a.json": read_fio(f"{name}.out").encode() for name in ("07_json", "11_numjobs4_json")}
    make_tar(tmp_path / "r.tar.xz", outputs)

    status, words = command(tmp_path / "r.tar.xz", host="db-1")

    assert (status, Run.objects.count()) == (0, 2)
    assert "stored: 2 files (2 runs)" in words
