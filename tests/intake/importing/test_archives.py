"""Archives in an import: each member is a file of its own, and a bomb is refused."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from benchapp.intake.importing import discovery
from benchapp.intake.importing.discovery import (
    UnreadableFile,
    find_folders,
    read_file,
    unpack_archives,
    unpack_bytes,
)
from benchapp.models import Run
from tests.envelopes import read_fio
from tests.factories import make_host
from tests.intake.importing.test_files import command

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
    files = [path for folder in unpack_archives(find_folders(places), into) for path in folder.files]
    return {"/".join(path.parts[-2:]): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", ["r.tar", "r.tar.gz", "r.tgz", "r.tar.bz2", "r.tar.xz", "R.ZIP"])
def test_members_are_files_of_their_folders(name: str, tmp_path: Path) -> None:
    modes = {"r.tar": "w", "r.tar.gz": "w:gz", "r.tgz": "w:gz", "r.tar.bz2": "w:bz2", "r.tar.xz": "w:xz"}
    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / name
    make_tar(path, MEMBERS, modes[name]) if name in modes else make_zip(path, MEMBERS)
    (tmp_path / "results" / "b.json").write_bytes(b"three")

    found = unpack(tmp_path / "results", into=tmp_path / "unpacked")

    assert found == MEMBERS | {"results/b.json": b"three"}


def test_member_stays_in_its_directory(tmp_path: Path) -> None:
    make_tar(tmp_path / "r.tar", {"../../a.json": b"one", "/etc/b.json": b"two"}, "w")

    unpack(tmp_path / "r.tar", into=tmp_path / "unpacked")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.tar", "unpacked"]
    assert {path.name for path in (tmp_path / "unpacked").rglob("*.json")} == {"a.json", "b.json"}


@pytest.mark.parametrize(
    ("limit", "value", "fault"),
    [
        ("_BYTES_MAXIMUM", 5, "the archive cannot be unpacked: it exceeds 0 GiB unpacked"),
        ("_MEMBERS_MAXIMUM", 1, "the archive cannot be unpacked: it has more than 1 members"),
    ],
)
def test_bomb_is_refused(limit: str, value: int, fault: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(discovery, limit, value)
    make_zip(tmp_path / "r.zip", MEMBERS)

    *_, folder = unpack_archives(find_folders([tmp_path / "r.zip"]), tmp_path / "unpacked")

    assert (folder.files, folder.fault) == ((), fault)


def test_what_is_no_archive_has_a_fault(tmp_path: Path) -> None:
    (tmp_path / "r.tar.gz").write_bytes(b"plain")

    (folder,) = unpack_archives(find_folders([tmp_path / "r.tar.gz"]), tmp_path / "unpacked")

    assert folder.fault.startswith("the archive cannot be unpacked: ")


@pytest.mark.parametrize("cut", [0, 5])
def test_tar_in_zstd_is_unpacked_if_it_is_whole(cut: int, tmp_path: Path) -> None:
    make_tar(tmp_path / "r.tar", MEMBERS, "w")
    packed = zstandard.compress((tmp_path / "r.tar").read_bytes())
    (tmp_path / "r.tar.zst").write_bytes(packed[: len(packed) - cut])

    folders = list(unpack_archives(find_folders([tmp_path / "r.tar.zst"]), tmp_path / "unpacked"))

    faults = [folder.fault for folder in folders if folder.fault]
    assert faults == (["the archive cannot be unpacked: the last frame is cut"] if cut else [])
    assert len([path for folder in folders for path in folder.files]) == (0 if cut else 2)


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
