"""Text and JSON of one execution agree within the digits of the text; JSON is the reference."""

from collections.abc import Iterator

import pytest

from benchapp.fio.json.documents import find_documents
from benchapp.fio.json.report import read_document
from benchapp.fio.report import Direction, Document, Latency, Notes
from tests.fio.outputs import OUTPUTS, read_bytes
from tests.fio.text_report.texts import read_file

# 2.0.10 to 2.2.10 print no JSON with it, 2.2.12 and 2.3 abort.
BOTH = [
    "generated/09_json_normal.out",
    "generated/10_normal_json_terse.out",
    *(
        str(path.relative_to(OUTPUTS))
        for path in sorted(OUTPUTS.glob("versions/*/json_and_normal.txt"))
        if b'"fio version"' in path.read_bytes() and b"(groupid=" in path.read_bytes()
    ),
]
LATENCIES = ("submission", "completion", "total")


def read_witness(name: str) -> Document:
    notes = Notes()
    (report,) = find_documents(read_bytes(name).decode(), notes).reports
    return read_document(report.content, where="", is_partial=False, notes=notes)


def pair_directions(name: str) -> Iterator[tuple[Direction, Direction]]:
    """Yield each direction as read from JSON and from text."""
    for of_json, of_text in zip(read_witness(name).jobs, read_file(name).jobs, strict=True):
        yield from zip(of_json.directions, of_text.directions, strict=True)


def pair_latencies(name: str) -> Iterator[tuple[Latency, Latency]]:
    for of_json, of_text in pair_directions(name):
        for kind in LATENCIES:
            latency, other = getattr(of_json, kind), getattr(of_text, kind)
            assert (latency is None) == (other is None)
            if latency is not None:
                yield latency, other


def test_there_are_files_of_many_versions() -> None:
    assert len(BOTH) >= 19


@pytest.mark.parametrize("name", BOTH)
def test_totals_agree(name: str) -> None:
    for of_json, of_text in pair_directions(name):
        assert (of_text.name, of_text.total_ios) == (of_json.name, of_json.total_ios)
        assert (of_text.io_bytes, of_text.runtime_s) == (of_json.io_bytes, of_json.runtime_s)
        # Three digits and a truncated one, as in "10.9k".
        assert of_text.iops == pytest.approx(of_json.iops, rel=0.01, abs=1)
        assert of_text.bandwidth_bytes_per_s == pytest.approx(of_json.bandwidth_bytes_per_s, rel=0.01)
        assert of_text.missing == of_json.missing


@pytest.mark.parametrize("name", BOTH)
def test_latencies_agree(name: str) -> None:
    for of_json, of_text in pair_latencies(name):
        # fio truncates extremes to whole µs, or rounds them to 5 digits, and prints means to 0.01 µs.
        assert of_text.minimum_ns == pytest.approx(of_json.minimum_ns, abs=1000)
        assert of_text.maximum_ns == pytest.approx(of_json.maximum_ns, abs=1000, rel=1e-4)
        assert of_text.mean_ns == pytest.approx(of_json.mean_ns, abs=6)
        assert of_text.stddev_ns == pytest.approx(of_json.stddev_ns, abs=6)


@pytest.mark.parametrize("name", BOTH)
def test_percentiles_agree(name: str) -> None:
    for of_json, of_text in pair_latencies(name):
        expected = dict(of_json.percentiles)
        assert dict(of_text.percentiles) == {
            percent: pytest.approx(value, abs=1000) for percent, value in expected.items()
        }


@pytest.mark.parametrize("name", BOTH)
def test_samples_agree(name: str) -> None:
    for of_json, of_text in pair_directions(name):
        for kind, digit in (("bandwidth_samples", 1024), ("iops_samples", 1)):
            samples, other = getattr(of_json, kind), getattr(of_text, kind)
            assert (samples is None) == (other is None)
            if samples is not None:
                assert (other.minimum, other.maximum, other.count) == (
                    samples.minimum,
                    samples.maximum,
                    samples.count,
                )
                assert other.mean == pytest.approx(samples.mean, abs=0.01 * digit)
                assert other.stddev == pytest.approx(samples.stddev, abs=0.01 * digit)


@pytest.mark.parametrize("name", BOTH)
def test_jobs_and_disks_agree(name: str) -> None:
    witness, document = read_witness(name), read_file(name)

    assert document.fio_version == witness.fio_version
    for of_json, of_text in zip(witness.jobs, document.jobs, strict=True):
        assert (of_text.name, of_text.groupid, of_text.error) == (
            of_json.name,
            of_json.groupid,
            of_json.error,
        )
        assert (of_text.clones, of_text.iodepth) == (of_json.clones, of_json.iodepth)
        assert of_text.context_switches == of_json.context_switches
        assert of_text.cpu_user_percent == pytest.approx(of_json.cpu_user_percent, abs=0.01)
        assert of_text.depth == {
            level: pytest.approx(share, abs=0.06) for level, share in of_json.depth.items()
        }
    for disk, other in zip(witness.disks, document.disks, strict=True):
        assert (other.name, other.read_ios, other.write_ios) == (disk.name, disk.read_ios, disk.write_ios)
        assert other.utilisation_percent == pytest.approx(disk.utilisation_percent, abs=0.01)
