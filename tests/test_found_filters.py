"""Every documented example of a filter finds data that the agent's own code sent."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote_plus

import pytest

from benchapp.catalog.dimensions import FILTER_DIMENSIONS, SERIES_DIMENSIONS, list_examples
from benchapp.catalog.grammar import Filter, parse_query
from benchapp.framework.api.openapi import make_schema
from benchapp.framework.api.parameters import FilterField
from benchapp.models import Run, Series
from benchapp.models.filtering import match_runs, match_series
from benchapp.series.read.dimension_values import read_facet
from benchapp.series.read.titles import describe_value
from tests.agent_fleet import Job, Machine, send_run
from tests.shared_rows import shared_rows
from tests.test_filter_docs import EXAMPLES, TEXT

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parent.parent
SWEEP = "6f1cbb2e-9d3e-4a55-8d0a-222222222222"


def job(rw: str, bs: str = "4k", *, depth: int = 32, jobs: int = 1, size: str = "5G", **more: str) -> Job:
    """Return the options of one job, as fio prints those of a job file."""
    usual = {"ioengine": "libaio", "direct": "1", "runtime": "60", "time_based": "1"}
    own = {"rw": rw, "bs": bs, "iodepth": str(depth), "numjobs": str(jobs), "size": size}
    return {**usual, **own, **more}


PATTERNS = [job(rw) for rw in ("read", "write", "randread", "randwrite")]
MORE = [
    job("randrw", rwmixread="70"),
    job("rw", "64k", rwmixread="70", depth=4, size="4k", ioengine="psync"),
    job("randread", "1M", depth=8, jobs=8, size="50G", direct="0", runtime="30"),
    job("randread", "64k", size="1536M", ioengine="io_uring", depth=64),
]
EBS = {"volume_type": "gp3", "provisioned_iops": "16000"}
LABELS = {"rack": "r1", "branch": "main", "arm": "a"}


FIRMWARE = {f"sys/devices/virtual/block/nvme{number}n1/device/firmware_rev": "1.0\n" for number in range(4)}
_VIRTIO = "sys/devices/pci0000:00/0000:00:05.0/virtio2"
VIRTIO = {
    f"{_VIRTIO}/block/vda/size": "104857600\n",
    "proc/self/mountinfo": "40 27 254:0 / /mnt/fast rw - ext4 /dev/vda rw\n",
}
VIRTIO_LINKS = {
    "sys/dev/block/254:0": f"{_VIRTIO}/block/vda",
    f"{_VIRTIO}/driver": "sys/bus/virtio/drivers/virtio_blk",
}
FLEET = [
    (Machine("db-01", 4, target=EBS, labels=LABELS), PATTERNS),
    (Machine("db-01", 1, target={**EBS, "volume_size": "200G"}), PATTERNS[:2]),
    (Machine("db-01", 2, target={"volume_type": "io2"}), PATTERNS[:2]),
    (Machine("db-01", 16, target={**EBS, "volume_size": "200G"}), PATTERNS[:2]),
    (Machine("db-02", 8, target={**EBS, "chunk_size": "64k"}, labels={"arm": "b"}), [*PATTERNS, *MORE]),
    (Machine("db-1", 4, profile="nightly", sweep=SWEEP), PATTERNS),
    (Machine("db-2", 4, profile="seqread-fragmentation"), PATTERNS),
    (Machine("db-03", 4, pool="db", target={"raid_level": "RAID 10"}), PATTERNS),
    (Machine("metal", 0, profile="weekly"), PATTERNS),
    (Machine("db-05", 4, target={**EBS, "filesystem": "ext4"}, files=FIRMWARE), PATTERNS),
    (Machine("virtual", 0, files=VIRTIO, links=VIRTIO_LINKS), PATTERNS),
    (Machine("container", 0, files={"proc/self/mountinfo": ""}), PATTERNS),
    *(
        (Machine("web", 4, target={"name": name}, files={"proc/sys/kernel/osrelease": "\n"}), PATTERNS[:1])
        for name in ("two words", "two volumes", 'say "hi"', "unknown", "a:b", "/mnt/data")
    ),
]


@shared_rows
def fleet() -> None:
    """Send runs with what the documentation has as examples: EBS in RAID0, bare metal, a pool, names of targets."""
    with TemporaryDirectory() as directory:
        for machine, jobs in FLEET:
            send_run(machine, jobs, root=Path(directory))


def count(text: str) -> int:
    """Return the number of series, or of runs if that is larger, that a filter finds."""
    filter = parse_query(text).filter
    series = Series.objects.filter(match_series(filter)).count()
    return max(series, Run.objects.filter(match_runs(filter)).count())


def list_documented() -> list[str]:
    """Return every example: of docs/, the API and its document, and the fields of pages."""
    phrases = [line.split("|")[1].strip().strip('"') for line in TEXT.splitlines() if line.startswith('| "')]
    queries = [
        unquote_plus(query)
        for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        for query in re.findall(r"[?&]q=([^ \"&`';]+)", path.read_text())
        if query != "FILTER"
    ]
    fields = [
        text
        for path in (ROOT / "templates").rglob("*.html")
        for text in re.findall(
            r'id="(?:filter|experiment|compare)-(?:q|a|b)"[^>]*placeholder="([^"{]+)"',
            path.read_text(),
        )
    ]
    terms = [f"{name}:{value}" for name, each in FILTER_DIMENSIONS.items() for value in list_examples(each)]
    parameters = [
        (each["name"], str(each["example"]))
        for item in make_schema()[0]["paths"].values()
        for each in item.get("get", {}).get("parameters", ())
        if "example" in each and each["name"] in ("q", *FILTER_DIMENSIONS)
    ]
    given = [value if name == "q" else f"{name}:{value}" for name, value in parameters]
    help_text = FilterField().help_text
    assert help_text is not None
    return [
        *EXAMPLES,
        *phrases,
        *queries,
        *fields,
        *terms,
        *given,
        help_text.partition(": ")[2].partition(" words")[0],
    ]


@pytest.mark.parametrize("text", dict.fromkeys(list_documented()))
def test_documented_example_finds_what_the_agent_sent(text: str, fleet: None) -> None:
    assert count(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("raid:0", "raid_level:raid0"),
        ("raid0", "raid_level:raid0"),
        ("raid 10", "raid_level:raid10"),
        ('raid:"RAID 0"', "raid_level:raid0"),
        ("type:GP3", "volume_type:gp3"),
        ("host:DB-01", "host:db-01"),
        ("pool:DB", "pool:db"),
        ('pattern:"random read"', "pattern:randread"),
        ('pattern:"Random read/write, reads"', 'pattern:"randrw read"'),
        ("profile:NIGHTLY", "profile:nightly"),
        ("label.rack:R1", "label.rack:r1"),
        ("target:/MNT/DATA", "target:/mnt/data"),
        ("os:*debian*", "os:*Debian*"),
        ('device:"amazon elastic block store"', 'device:"Amazon Elastic Block Store"'),
        ("memory:64G", "memory:>=60G memory:<=64G"),
    ],
)
def test_value_is_found_in_any_spelling(text: str, same: str, fleet: None) -> None:
    assert count(text) == count(same) > 0


def test_value_is_found_as_pages_write_it(fleet: None) -> None:
    facets = {name: read_facet(dimension, Filter()) for name, dimension in SERIES_DIMENSIONS.items()}
    shown = {
        (name, describe_value(name, each.value)) for name, facet in facets.items() for each in facet.values
    }
    # A disk of 3 840 GB is shown as 3.5 TiB, which is rounded.
    shown.remove(("volume_size_bytes", "3.5 TiB"))

    assert {(name, value) for name, value in shown if not count(_write(name, value))} == set()


def _write(name: str, value: str) -> str:
    quoted = value.replace('"', '""')
    return f"{name}:{value}" if value == "unknown" and name != "target_name" else f'{name}:"{quoted}"'
