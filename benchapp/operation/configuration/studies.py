"""Studies. Their shared links are not in the file: who has a link can read the study."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from django.http import QueryDict

from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question_form import BadQuestion, read_question
from benchapp.models import PanelKind, Study, User
from benchapp.operation.configuration.section import ConfigurationSection, Member, StoredEntry, Values
from benchapp.reports.write.studies import (
    BadStudy,
    StudyPanel,
    change_study,
    create_study,
    delete_study,
    read_panels,
    read_study_text,
    read_title,
)


def _normalize(values: Values) -> Values:
    owner = values["owner"]
    if owner is not None and not User.objects.filter(username=owner).exists():
        raise BadValue("owner", f"there is no account {owner}")
    read = read_panels(values["panels"])
    _check_questions(read)
    panels = [asdict(panel) for panel in read]
    return {
        "title": read_title(values["title"]),
        "owner": owner,
        "text": read_study_text(values["text"]),
        "panels": [{**panel, "kind": str(panel["kind"])} for panel in panels],
    }


def _check_questions(panels: Sequence[StudyPanel]) -> None:
    """Raise BadStudy for a question that is not valid. Regions may get their prices by the same file."""
    for place, panel in enumerate(panels):
        try:
            if panel.kind == PanelKind.LAYOUTS:
                read_question(QueryDict(panel.query))
        except BadQuestion as error:
            raise BadStudy(f"/panels/{place}/query", str(error)) from error


def _list_stored() -> Sequence[StoredEntry]:
    return [
        StoredEntry(
            row,
            {
                "title": row.title,
                "owner": row.owner.username if row.owner else None,
                "text": row.text,
                "panels": row.panels,
            },
        )
        for row in Study.objects.select_related("owner").order_by("pk")
    ]


def _create(values: Values, by: User | None) -> None:
    owner = User.objects.get(username=values["owner"]) if values["owner"] is not None else None
    create_study(values["title"], text=values["text"], panels=read_panels(values["panels"]), owner=owner)


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    change_study(stored.row.pk, text=values["text"], panels=read_panels(values["panels"]))


def _remove(stored: StoredEntry, by: User | None) -> None:
    delete_study(stored.row.pk)


STUDIES: Final = ConfigurationSection(
    name="studies",
    noun="study",
    members={
        "title": Member(str, is_required=True),
        "owner": Member(str, is_optional=True),
        "text": Member(str, default=""),
        "panels": Member(list, default=()),
    },
    identify=lambda values: (values["title"], values["owner"]),
    title=lambda values: f"“{values['title']}”" + (f" of {values['owner']}" if values["owner"] else ""),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
)
