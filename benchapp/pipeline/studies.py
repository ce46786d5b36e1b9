"""Make, change, share and remove studies: each change is one statement or one locked row."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.db import transaction

from benchapp.models import PanelKind, Study, User

TITLE_LENGTH: Final = 200
WORDS_LENGTH: Final = 20_000
PANEL_WORDS_LENGTH: Final = 5_000
QUERY_LENGTH: Final = 4_000
# Far more than any picture has; of a thousand Django would refuse the whole study each time it is read.
PARAMETERS_MAXIMUM: Final = 100
PANELS_MAXIMUM: Final = 40
_MEMBERS: Final = ("kind", "query", "title", "words")


class BadStudy(Exception):
    """Something that no study can have; `pointer` is the JSON pointer of it, and names the field of a form."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer


class StudyChanged(Exception):
    """Somebody else changed the study, or removed it, since it was shown."""


@dataclass(frozen=True, slots=True)
class StudyPanel:
    """One picture of a study. query: its page's address behind "?"; title: "" for the picture's own."""

    kind: PanelKind
    query: str
    title: str = ""
    words: str = ""


def read_panel(given: Mapping[str, Any], pointer: str = "") -> StudyPanel:
    """Return a panel from what somebody sent; raises BadStudy."""
    for name in given:
        if name not in _MEMBERS:
            raise BadStudy(
                f"{pointer}/{name[:80]}", f"{name[:80]!r} is unknown here; there are: {', '.join(_MEMBERS)}"
            )
    kind = given.get("kind")
    if kind not in PanelKind.values:
        raise BadStudy(f"{pointer}/kind", f"a panel is one of: {', '.join(PanelKind.values)}")
    query = _read_text(given.get("query"), f"{pointer}/query", maximum=QUERY_LENGTH).lstrip("?")
    if query.count("&") >= PARAMETERS_MAXIMUM:
        raise BadStudy(f"{pointer}/query", f"the address has more than {PARAMETERS_MAXIMUM} parameters")
    if any(not letter.isprintable() for letter in query):
        raise BadStudy(f"{pointer}/query", "the address holds characters that no address has")
    return StudyPanel(
        PanelKind(kind),
        query,
        _read_text(given.get("title"), f"{pointer}/title", maximum=TITLE_LENGTH),
        _read_text(given.get("words"), f"{pointer}/words", maximum=PANEL_WORDS_LENGTH),
    )


def read_panels(given: Any, pointer: str = "/panels") -> tuple[StudyPanel, ...]:
    """Return the panels from what somebody sent; raises BadStudy."""
    if not isinstance(given, list | tuple):
        raise BadStudy(pointer, "panels are a list")
    if len(given) > PANELS_MAXIMUM:
        raise BadStudy(pointer, f"{len(given)} panels are more than {PANELS_MAXIMUM}")
    panels = []
    for place, each in enumerate(given):
        if not isinstance(each, Mapping):
            raise BadStudy(f"{pointer}/{place}", "a panel is an object")
        panels.append(read_panel(each, f"{pointer}/{place}"))
    return tuple(panels)


def create_study(
    title: str, *, words: str = "", panels: Sequence[StudyPanel] = (), owner: User | None = None
) -> Study:
    """Make a study; raises BadStudy."""
    return Study.objects.create(
        title=read_title(title),
        words=read_study_text(words),
        owner=owner,
        panels=[asdict(panel) for panel in panels],
    )


def change_study(study_id: int, *, version: str | None = None, **changes: Any) -> Study:
    """Give a study another title, words or panels (as Panel). Raises BadStudy and StudyChanged.

    version: of the study that was shown, as `version_of` names it; None changes whatever is there.
    """
    with transaction.atomic():
        study = _lock(study_id, version)
        if "title" in changes:
            study.title = read_title(changes["title"])
        if "words" in changes:
            study.words = read_study_text(changes["words"])
        if "panels" in changes:
            study.panels = [asdict(panel) for panel in changes["panels"]]
        study.save(update_fields=["title", "words", "panels", "updated_at"])
        return study


def add_panel(study_id: int, panel: StudyPanel) -> Study:
    """Put a picture at the end of a study. Raises BadStudy where it is full, and StudyChanged where it is gone."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if len(study.panels) >= PANELS_MAXIMUM:
            raise BadStudy("/panels", f"the study has {PANELS_MAXIMUM} panels, which is the most")
        study.panels = [*study.panels, asdict(panel)]
        study.save(update_fields=["panels", "updated_at"])
        return study


def share_study(study_id: int) -> str:
    """Return the token with which anybody may read the study; the one that there is, or a new one."""
    with transaction.atomic():
        study = _lock(study_id, None)
        if study.share_token is None:
            study.share_token = secrets.token_urlsafe(32)
            study.save(update_fields=["share_token"])
        return study.share_token


def stop_sharing(study_id: int) -> bool:
    """Make the shared link of a study lead nowhere, at once; False where it was not shared."""
    return Study.objects.filter(pk=study_id, share_token__isnull=False).update(share_token=None) == 1


def delete_study(study_id: int) -> bool:
    """Remove a study; what it shows stays. False where there is none."""
    return Study.objects.filter(pk=study_id).delete()[0] == 1


def version_of(study: Study) -> str:
    """Name the state of a study, so that a change made on another one is noticed."""
    return study.updated_at.isoformat()


def read_title(value: Any) -> str:
    """Return a title of 1 to 200 characters on one line; raises BadStudy."""
    text = " ".join(_read_text(value, "/title", maximum=TITLE_LENGTH).split())
    if not text:
        raise BadStudy("/title", "a study has a title")
    return text


def read_study_text(value: Any) -> str:
    """Return Markdown as it was written, at most 20 000 characters; raises BadStudy."""
    return _read_text(value, "/words", maximum=WORDS_LENGTH)


def _read_text(value: Any, pointer: str, *, maximum: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadStudy(pointer, "text is wanted here")
    text = value.replace("\r\n", "\n").strip()
    if "\x00" in text:
        raise BadStudy(pointer, "the text holds a NUL character, which cannot be kept: remove it")
    if len(text) > maximum:
        raise BadStudy(pointer, f"{len(text)} characters are more than {maximum}")
    return text


def _lock(study_id: int, version: str | None) -> Study:
    study = Study.objects.select_for_update().filter(pk=study_id).first()
    if study is None:
        raise StudyChanged("somebody removed this study")
    if version is not None and version != version_of(study):
        raise StudyChanged("somebody changed this study since you opened it; look at it and do it again")
    return study
