"""Studies. Their shared links are not in the file: who has a link can read the study."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import QueryDict

from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question_form import read_question
from benchapp.models import Study, User
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    Member,
    StoredEntry,
    Values,
    list_members,
)
from benchapp.reports.write.studies import (
    change_study,
    check_questions,
    check_study,
    create_study,
    delete_study,
)


def _normalize(values: Values) -> Values:
    owner = values["owner"]
    if owner is not None and not User.objects.filter(username=owner).exists():
        raise BadValue("owner", f"there is no account {owner}")
    study = Study(**_take_given(values))
    check_study(study)
    # Regions may get their prices by the same file.
    check_questions(study.charts, lambda query: read_question(QueryDict(query)))
    return {name: owner if name == "owner" else getattr(study, name) for name in values}


def _take_given(values: Values) -> dict[str, Any]:
    return {name: values[name] for name in Study.given}


def _list_stored() -> Sequence[StoredEntry]:
    return [
        StoredEntry(
            row,
            {"title": row.title, "owner": row.owner.username if row.owner else None}
            | {name: getattr(row, name) for name in Study.given},
        )
        for row in Study.objects.select_related("owner").order_by("pk")
    ]


def _create(values: Values, by: User | None) -> None:
    owner = User.objects.get(username=values["owner"]) if values["owner"] is not None else None
    create_study(Study(**_take_given(values), owner=owner))


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    change_study(stored.row.pk, **_take_given(values))


def _remove(stored: StoredEntry, by: User | None) -> None:
    delete_study(stored.row.pk)


_GIVEN: Final = list_members(Study)
STUDIES: Final = ConfigurationSection(
    name="studies",
    noun="study",
    members={"title": _GIVEN["title"], "owner": Member(str, is_optional=True), **_GIVEN},
    identify=lambda values: (values["title"], values["owner"]),
    title=lambda values: f"“{values['title']}”" + (f" of {values['owner']}" if values["owner"] else ""),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
)
