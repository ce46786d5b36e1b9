"""The sample data: a published series of EBS benchmarks, with a study for each of its parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from benchapp.intake.importing.files import find_host
from benchapp.intake.importing.published import Imported, import_published
from benchapp.intake.importing.published_csv import read_table
from benchapp.intake.importing.sample_studies import SAMPLE_STUDIES, SamplePanel
from benchapp.intake.posts.published_document import Publication
from benchapp.models import SAMPLE_HOST, PanelKind, Study

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
