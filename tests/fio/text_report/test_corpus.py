"""fio's text in public outputs, which are not committed."""

from collections import Counter
from collections.abc import Iterator

import pytest

from benchapp.fio.report import Direction, Document, Notes
from benchapp.fio.text import decode_output
from benchapp.fio.text_report.reader import read_normal
from tests.corpus import PUBLIC

pytestmark = pytest.mark.corpus


def list_documents(pattern: str = "*") -> list[tuple[str, Document]]:
    return [
        (path.name, found)
        for path in sorted(PUBLIC.rglob(pattern))
        if path.is_file() and path.name != "index.csv"
        for found in read_normal(decode_output(path.read_bytes(), Notes()), Notes()).documents
    ]


def list_directions(documents: list[tuple[str, Document]]) -> Iterator[tuple[str, Direction]]:
    for name, document in documents:
        for job in document.jobs:
            yield from ((f"{name}, {job.name}", direction) for direction in job.directions)


def list_codes(pattern: str) -> Counter[str]:
    notes = Notes()
    for path in sorted(PUBLIC.rglob(pattern)):
        read_normal(decode_output(path.read_bytes(), Notes()), notes)
    return Counter(note.code for note in notes.list_all())


def test_every_text_is_read_whole() -> None:
    documents = list_documents()

    assert (len(documents), sum(len(document.jobs) for _, document in documents)) == (135, 218)
    assert [name for name, document in documents if document.is_partial or not document.fio_version] == []
    assert {document.fio_version for _, document in documents} == {
        "fio-2.1.7",
        "fio-2.2.10",
        "fio-3.1",
        "fio-3.12",
        "fio-3.25",
        "fio-3.28",
    }


def test_iops_and_bandwidth_of_every_text_agree_to_their_digits() -> None:
    odd = [
        (name, direction.name)
        for name, direction in list_directions(list_documents())
        # IOPS are truncated to whole numbers.
        if direction.iops
        and direction.iops >= 100
        and direction.iops * (direction.io_bytes or 0) / (direction.total_ios or 1)
        != pytest.approx(direction.bandwidth_bytes_per_s, rel=0.011)
    ]

    assert odd == []


def test_lost_carries_are_corrected() -> None:
    ((_, document),) = list_documents("fio.out")

    # Printed as 19.0GiB and 13.0GiB.
    assert [document.jobs[place].directions[0].io_bytes for place in (0, 7)] == [
        20435 * 2**20,
        3664636 * 4096,
    ]
    assert list_codes("fio.out")["text-carry-lost"] == 2


@pytest.mark.parametrize("pattern", ["*_fio_randwrite.log", "*_fio_randread.log"])
def test_appended_executions_are_separated(pattern: str) -> None:
    assert len(list_documents(pattern)) == 28


def test_component_of_a_composed_disk_is_its_member() -> None:
    (document,) = (document for name, document in list_documents("*getting_started.md.block1.txt"))

    assert [disk.is_member for disk in document.disks] == [False, True]
    assert document.jobs[0].directions[0].iops == 16786
