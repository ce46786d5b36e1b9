"""The title of a scaling picture: what it shows, with the answer in it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from benchapp.queries.dimension_words import describe_setting, describe_value
from benchapp.queries.scaling import Picture
from benchapp.queries.scaling_findings import Finding
from benchapp.web.scaling_words import TELLING, say_answer

_TITLE_PARTS: Final = 2
# Said of the whole picture before what it shows: what nearly everybody asks first.
_SUBJECTS: Final = ("block_size_bytes", "pattern")
_SUBJECTS_MAXIMUM: Final = 3
_PLURALS: Final = {
    "stops": "stop",
    "saturates": "saturate",
    "is": "are",
    "falls": "fall",
    "grows": "grow",
    "rises": "rise",
    "stays": "stay",
    "reaches": "reach",
    "gives": "give",
    "has": "have",
}
_VERB: Final = re.compile(rf"\b(?:{'|'.join(_PLURALS)})\b")


def say_title(picture: Picture, findings: Sequence[Finding]) -> str:
    """Say what is shown and the answer: "4k IOPS over 1–16 volumes: random read stops gaining after 4"."""
    if picture.is_empty:
        return f"{picture.metric.label}: nothing to show"
    subject = f"{_say_subject(picture)} {_say_range(picture)}".strip()
    answers = list(_list_answers(picture, findings))[:_TITLE_PARTS]
    return f"{subject}: {'; '.join(answers)}" if answers else subject


def _say_subject(picture: Picture) -> str:
    fixed = dict(picture.fixed)
    said = [describe_value(name, fixed[name]) for name in _SUBJECTS if name in fixed]
    lines = picture.facets[0].lines
    if picture.colour is not None and len(lines) == 1:
        said.append(describe_setting(picture.colour.dimension.name, lines[0].value))
    label = picture.metric.label
    return " ".join([*said, label if not said or label[:2].isupper() else f"{label[0].lower()}{label[1:]}"])


def _say_range(picture: Picture) -> str:
    x = picture.x
    name = x.dimension.name
    if picture.over is not None:
        return f"over {picture.over.label}, {x.dimension.label.lower()} {x.labels[0]} to {x.labels[-1]}"
    if not x.dimension.is_number:
        return f"by {x.dimension.label.lower()}"
    if len(x.values) == 1:
        return f"at {describe_setting(name, x.values[0])}"
    least, most = describe_value(name, x.values[0]), describe_setting(name, x.values[-1])
    if name == "iodepth":
        return f"over queue depth {x.labels[0]}–{x.labels[-1]}"
    return f"over {least} to {most}" if x.dimension.kind == "size" else f"over {least}–{most}"


def _list_answers(picture: Picture, findings: Sequence[Finding]) -> Iterator[str]:
    """Give the most telling answers, lines of which the same is true together; of each line one."""
    said: set[str] = set()
    for kind in TELLING:
        groups: dict[str, list[str]] = {}
        for finding in findings:
            if isinstance(finding, kind):
                subject, answer = say_answer(picture, finding)
                subjects = groups.setdefault(answer, [])
                if subject not in subjects and subject not in said:
                    subjects.append(subject)
        groups = {answer: subjects for answer, subjects in groups.items() if subjects}
        said.update(subject for subjects in groups.values() for subject in subjects)
        for answer, subjects in groups.items():
            yield _join_answer(picture, subjects, answer)


def _join_answer(picture: Picture, subjects: Sequence[str], answer: str) -> str:
    lines = len(picture.facets) * len(picture.facets[0].lines)
    if lines == 1:
        return answer
    first = subjects[0]
    subjects = [subject.removesuffix(":") for subject in subjects]
    several = _VERB.sub(lambda found: _PLURALS[found[0]], answer, count=1)
    if len(subjects) > _SUBJECTS_MAXIMUM:
        return f"{len(subjects)} of {lines} lines {several}"
    if len(subjects) > 1:
        return f"{', '.join(subjects[:-1])} and {subjects[-1]} {several}"
    return f"{first} {answer}"
