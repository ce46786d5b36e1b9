"""The sample data: a published series of EBS benchmarks, with a study for each of its parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from benchapp.intake.importing.files import find_host
from benchapp.intake.importing.published import Imported, import_published
from benchapp.intake.importing.published_csv import read_table
from benchapp.intake.posts.published_document import Publication
from benchapp.models import SAMPLE_HOST, PanelKind, Study


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
        "A small instance without EBS optimization; RAID0 over 1 to 16 standard volumes.\n\n"
        "- **Random reads** increase up to 4 volumes; with more, the instance is the limit.\n"
        "- **Random writes** vary widely: 4 and 16 volumes deliver less than 1.\n"
        "- **Bandwidth** reaches about 145 MB/s for reads with two or more volumes, and about 120 MB/s for writes with"
        " four or more.",
        (_IOPS, _MB_PER_S),
    ),
    SampleStudy(
        "EBS 2013, 2: c1.xlarge, EBS-optimized, 20 GB volumes, 5 GB file",
        f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:5G",
        "The same on a larger instance with dedicated bandwidth to the volumes.\n\n"
        "- **Random reads and writes** nearly double from one volume to two, increase up to 4, and then reach the limit"
        " of the instance: about 30 000 read and 23 000 write IOPS.\n"
        "- **Bandwidth** is the same as on the small instance.",
        (_IOPS, _MB_PER_S),
    ),
    SampleStudy(
        "EBS 2013, 3: c1.xlarge, 20 GB volumes, 15 GB file",
        f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:15G",
        "A file three times as large exceeds the caches of a volume.\n\n"
        "- **Random access** to one volume decreases to the rate of disks: some hundreds of IOPS. Eight volumes reach"
        " the read IOPS of the smaller file.\n"
        "- **Sequential access** is nearly unchanged.\n\n"
        "Some numbers of this part are printed without a space between them in the source; the run of each number"
        " states how they were read.",
        (
            _IOPS,
            _MB_PER_S,
            SamplePanel(
                "IOPS by file size: 5 GB and 15 GB",
                f"{_SMALL} rw:randread,randwrite",
                facet="file_size_bytes",
                filter=f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:5G,15G",
            ),
        ),
    ),
    SampleStudy(
        "EBS 2013, 4: c1.xlarge, 20 GB volumes, 50 and 100 GB files",
        f"{_XLARGE} volume_type:standard volume_size_bytes:20G file_size_bytes:50G,100G",
        "Files of this size need at least four volumes (50 GB), or sixteen (100 GB).\n\n"
        "- **Random access** increases with the number of volumes, at the rate of that many disks.\n"
        "- On sixteen volumes, a file of twice the size has less than half of the read IOPS.",
        (
            SamplePanel(
                "4k, 64 jobs: IOPS over the number of volumes, by file size",
                _SMALL,
                facet="file_size_bytes",
            ),
        ),
    ),
    SampleStudy(
        "EBS 2013, 5: c1.xlarge, 200 GB volumes, 5 GB file",
        f"{_XLARGE} volume_type:standard volume_size_bytes:200G file_size_bytes:5G",
        "Volumes of ten times the size.\n\n"
        "- **No difference** where the file fits the caches: with four or more volumes, IOPS are those of small"
        " volumes.\n"
        "- **Random writes** to one and two volumes are far slower than to small ones: the throughput of standard"
        " volumes varies widely.",
        (_IOPS, _MB_PER_S),
    ),
    SampleStudy(
        "EBS 2013, 6: c1.xlarge, 200 GB volumes, 50 GB file; compared with 20 GB volumes",
        f"{_XLARGE} volume_type:standard volume_size_bytes:200G file_size_bytes:50G",
        "Is a larger volume distributed over more disks? Compared with the same file on volumes of 20 GB:\n\n"
        "- with 4 and 8 volumes, reads are slightly **slower**, writes faster;\n"
        "- with 16 volumes, both are about 1.6 to 1.8 times as fast.\n\n"
        "Each value is a single run of volumes whose throughput varies widely: not conclusive.",
        (
            SamplePanel("4k, 64 jobs: IOPS over the number of volumes", _SMALL),
            SamplePanel(
                "20 GB and 200 GB volumes, 50 GB file",
                _SMALL,
                facet="volume_size_bytes",
                filter=f"{_XLARGE} volume_type:standard volume_size_bytes:20G,200G file_size_bytes:50G",
            ),
        ),
    ),
    SampleStudy(
        "EBS 2013, 7: c1.xlarge, volumes of 2 000 provisioned IOPS, 5 GB file",
        f"{_XLARGE} volume_type:provisioned-iops file_size_bytes:5G",
        "Volumes with 2 000 provisioned IOPS each.\n\n"
        "- **Random reads and writes** deliver the provisioned IOPS, linear in the number of volumes.\n"
        "- **Sequential 4k** increases little with more volumes.\n"
        "- **Bandwidth** increases by 42 MB/s per volume, and by less from four volumes on.",
        (
            SamplePanel(
                "4k, 64 jobs: IOPS over the number of volumes",
                _SMALL,
                text="Dashed: one volume times the number of volumes.",
                more=(("ideal", "1"),),
            ),
            _MB_PER_S,
        ),
    ),
    SampleStudy(
        "EBS 2013, 8: c1.xlarge, 4 volumes of 2 000 provisioned IOPS, 50 GB file; compared with standard volumes",
        f"{_XLARGE} volume_type:provisioned-iops file_size_bytes:50G",
        "Provisioned IOPS do not depend on caches: 4 volumes deliver 8 000 random IOPS on a file of 50 GB, as on one of"
        " 5 GB. Four standard volumes deliver 30 000 read IOPS on a file that fits the caches, and 1 344 on one that"
        " does not.",
        (
            SamplePanel("4k, 64 jobs: IOPS of 4 volumes", _SMALL),
            SamplePanel(
                "Standard and provisioned IOPS: 4 volumes of 200 GB, by file size",
                f"{_SMALL} rw:randread,randwrite",
                x="file_size_bytes",
                facet="volume_type",
                filter=f"{_XLARGE} volume_size_bytes:200G volume_count:4 file_size_bytes:5G,50G",
            ),
        ),
    ),
)


FILE: Final = Path(__file__).resolve().parent.parent.parent / "samples" / "ebs-2013.csv"
SOURCE: Final = Publication(
    title="Amazon EBS benchmarks, eight studies, April 2013",
    note="A published series from the Tokyo region. The source has no days: all runs are dated the first of the month.",
)
# Defaults of all rows of the file.
_DEFAULTS: Final = {
    "started_at": "2013-04-01",
    "filesystem": "xfs",
    "mount_options": "noatime,logbufs=8",
    "direct": "yes",
    "profile": "ebs-series",
    "fio_version": "fio-2.0.9",
    "os": "Amazon Linux 2013.03",
    "scheduler": "noop",
    "label.region": "Tokyo",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of loading the sample. studies: (id, title) of all eight; new_studies: number of new ones."""

    imported: Imported
    studies: tuple[tuple[int, str], ...]
    new_studies: int


def load_sample() -> Loaded:
    """Import the numbers and create missing studies; idempotent.

    A study without an owner is recognized by its title. Raises UnknownHost if the host is retired.
    """
    host = find_host(SAMPLE_HOST, may_create=True)
    runs = read_table(FILE.read_text(encoding="utf-8"), _DEFAULTS)
    imported = import_published(runs, SOURCE, host_id=host.pk)
    made = [
        Study.objects.get_or_create(
            title=study.title,
            owner=None,
            defaults={
                "text": study.text,
                "panels": [_make_panel(study.filter, panel) for panel in study.panels],
            },
        )
        # Lists show the newest study first: the first part is created last.
        for study in reversed(SAMPLE_STUDIES)
    ]
    return Loaded(
        imported,
        tuple((study.pk, study.title) for study, _ in reversed(made)),
        sum(is_new for _, is_new in made),
    )


def _make_panel(filter: str, panel: SamplePanel) -> dict[str, str]:
    return {
        "kind": PanelKind.SCALING,
        "query": urlencode(list(_list_parameters(filter, panel))),
        "title": panel.title,
        "text": panel.text,
    }


def _list_parameters(filter: str, panel: SamplePanel) -> Iterator[tuple[str, str]]:
    yield (
        "q",
        " ".join(part for part in (f"host:{SAMPLE_HOST}", panel.filter or filter, panel.narrower) if part),
    )
    yield "x", panel.x
    yield "metric", panel.metric
    yield "color", panel.color
    if panel.facet:
        yield "facet", panel.facet
    yield from panel.more
