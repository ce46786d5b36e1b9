"""The eight studies of the sample: filters, charts and text."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SamplePanel:
    """One chart. filter: replaces that of the study; narrower: further terms. more: further query parameters."""

    title: str
    narrower: str = ""
    metric: str = "iops"
    x: str = "volume_count"
    color: str = "pattern"
    facet: str = ""
    filter: str = ""
    text: str = ""
    more: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SampleStudy:
    """One study; filter: of all its charts, in the filter language."""

    title: str
    filter: str
    text: str
    panels: tuple[SamplePanel, ...]


_BANDWIDTH: Final = "bandwidth_bytes_per_s"
_SMALL: Final = "block_size_bytes:4k"
_LARGE: Final = "block_size_bytes:32M"
_IOPS: Final = SamplePanel("4k, 64 jobs: IOPS over the number of volumes", _SMALL)
_MB_PER_S: Final = SamplePanel("32M, 8 jobs: bandwidth over the number of volumes", _LARGE, metric=_BANDWIDTH)
_XLARGE: Final = "instance_type:c1.xlarge"

SAMPLE_STUDIES: Final = (
    SampleStudy(
        "EBS 2013, 1: c1.medium, 20 GB volumes, 5 GB file",
        "instance_type:c1.medium",
        "A small instance without EBS optimisation; RAID0 over 1 to 16 standard volumes.\n\n"
        "- **Random reads** gain up to 4 volumes; beyond, the instance is the limit.\n"
        "- **Random writes** are erratic: 4 and 16 volumes do worse than 1.\n"
        "- **Bandwidth** tops out near 145 MB/s for reads from two volumes on, and near 120 MB/s for writes from four.",
        (_IOPS, _MB_PER_S),
    ),
    SampleStudy(
        "EBS 2013, 2: c1.xlarge, EBS-optimised, 20 GB volumes, 5 GB file",
        f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:5G",
        "The same on a larger instance with its own network to the volumes.\n\n"
        "- **Random reads and writes** nearly double from one volume to two, gain up to 4, and then stay at what the"
        " instance can do: about 30 000 reads and 23 000 writes a second.\n"
        "- **Bandwidth** is that of the small instance.",
        (_IOPS, _MB_PER_S),
    ),
    SampleStudy(
        "EBS 2013, 3: c1.xlarge, 20 GB volumes, 15 GB file",
        f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:15G",
        "A file three times as large no longer fits the caches behind a volume.\n\n"
        "- **Random access** to one volume falls to what disks do: some hundreds of operations a second. Eight volumes"
        " bring the reads back.\n"
        "- **Sequential access** hardly notices.\n\n"
        "Some digits of this part run together in the source; the run of each number says how they were read.",
        (
            _IOPS,
            _MB_PER_S,
            SamplePanel(
                "What the size of the file does: 5 GB against 15 GB",
                f"{_SMALL} rw:randread,randwrite",
                facet="file_size_bytes",
                filter=f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:5G,15G",
            ),
        ),
    ),
    SampleStudy(
        "EBS 2013, 4: c1.xlarge, 20 GB volumes, 50 and 100 GB files",
        f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:50G,100G",
        "Files so large need at least four volumes (50 GB), or all sixteen (100 GB).\n\n"
        "- **Random access** grows with the number of volumes, and stays at what that many disks do.\n"
        "- Twice the file on sixteen volumes costs more than half of the reads.",
        (
            SamplePanel(
                "4k, 64 jobs: IOPS over the number of volumes, by the size of the file",
                _SMALL,
                facet="file_size_bytes",
            ),
        ),
    ),
    SampleStudy(
        "EBS 2013, 5: c1.xlarge, 200 GB volumes, 5 GB file",
        f"{_XLARGE} volume_type:standard volume_size_bytes:200G file_size_bytes:5G",
        "Volumes of ten times the size.\n\n"
        "- **Nothing gained** where the caches answer: from four volumes on the numbers are those of small volumes.\n"
        "- **Random writes** to one and two volumes are far slower than those to small ones: standard volumes are"
        " erratic.",
        (_IOPS, _MB_PER_S),
    ),
    SampleStudy(
        "EBS 2013, 6: c1.xlarge, 200 GB volumes, 50 GB file; beside 20 GB volumes",
        f"{_XLARGE} volume_type:standard volume_size_bytes:200G file_size_bytes:50G",
        "Does a larger volume lie on more disks? Beside the same file on volumes of 20 GB:\n\n"
        "- at 4 and 8 volumes the reads are slightly **slower**, the writes faster;\n"
        "- at 16 volumes both are about 1.6 to 1.8 times as fast.\n\n"
        "One number each, of volumes that are erratic: it decides little.",
        (
            SamplePanel("4k, 64 jobs: IOPS over the number of volumes", _SMALL),
            SamplePanel(
                "20 GB against 200 GB volumes, 50 GB file",
                _SMALL,
                facet="volume_size_bytes",
                filter=f"{_XLARGE} volume_type:standard volume_size_bytes:20G,200G file_size_bytes:50G",
            ),
        ),
    ),
    SampleStudy(
        "EBS 2013, 7: c1.xlarge, volumes of 2 000 provisioned IOPS, 5 GB file",
        f"{_XLARGE} volume_type:provisioned-iops file_size_bytes:5G",
        "Volumes that promise 2 000 operations a second each.\n\n"
        "- **Random reads and writes** deliver just that: 2 000 for each volume, linear in their number, and alike.\n"
        "- **Sequential 4k** gains little from more volumes.\n"
        "- **Bandwidth** grows by 42 MB/s a volume, and from four falls short of that.",
        (
            SamplePanel(
                "4k, 64 jobs: IOPS over the number of volumes",
                _SMALL,
                text="The dashed line is one volume times their number.",
                more=(("ideal", "1"),),
            ),
            _MB_PER_S,
        ),
    ),
    SampleStudy(
        "EBS 2013, 8: c1.xlarge, 4 volumes of 2 000 provisioned IOPS, 50 GB file; beside standard volumes",
        f"{_XLARGE} volume_type:provisioned-iops file_size_bytes:50G",
        "The promise holds where no cache helps: 4 volumes do 8 000 random operations a second on a file of 50 GB, as"
        " they do on one of 5 GB. Four standard volumes do 30 000 reads while the caches answer, and 1 344 when they do"
        " not.",
        (
            SamplePanel("4k, 64 jobs: IOPS of 4 volumes", _SMALL),
            SamplePanel(
                "Standard against provisioned IOPS: 4 volumes of 200 GB, by the size of the file",
                f"{_SMALL} rw:randread,randwrite",
                x="file_size_bytes",
                facet="volume_type",
                filter=f"{_XLARGE} volume_size_bytes:200G volume_count:4 file_size_bytes:5G,50G",
            ),
        ),
    ),
)
