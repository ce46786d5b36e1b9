"""Parse a document of published results: typed, bounded, rejected with the position of the first error."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from django.utils import timezone

from benchapp.catalog.metrics import CATALOG
from benchapp.intake.posts.envelope import BadEnvelope, read_profile, read_time
from benchapp.intake.posts.metadata import (
    BadLayout,
    excerpt,
    read_count,
    read_environment,
    read_labels,
    read_size,
    read_target,
    read_text,
)
from benchapp.models import DirectionName

_VALUE_MAXIMUM: Final = 1e18
_RUNTIME_MAXIMUM_S: Final = 1e9
_READS: Final = {
    "read": 100,
    "randread": 100,
    "write": 0,
    "randwrite": 0,
    "trim": 0,
    "randtrim": 0,
    "trimwrite": 0,
    "randtrimwrite": 0,
    "rw": None,
    "randrw": None,
}
_FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_number(value: Any, pointer: str, *, maximum: float = _VALUE_MAXIMUM) -> float:
    """Return a finite number of at least 0; text is rejected, because thousands separators are ambiguous."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLayout(pointer, f"expected a number, not {excerpt(value)}")
    if not (math.isfinite(value) and 0 <= value <= maximum):
        raise BadLayout(pointer, f"{excerpt(value)} is not between 0 and {maximum:g}")
    return float(value)


def read_flag(value: Any, pointer: str) -> bool | None:
    """Return a flag from a boolean, 1 and 0, or yes and no; None if absent."""
    if value is None or value == "":
        return None
    found = value if isinstance(value, bool) else _FLAGS.get(str(value).strip().lower())
    if found is None:
        raise BadLayout(pointer, f"{excerpt(value)} is not a valid yes or no")
    return found


def read_reported_workload(given: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Return the workload columns by name; absent members are unknown."""
    rw = (read_text(given.get("rw"), f"{pointer}/rw", maximum=20) or "").lower()
    rw = "rw" if rw == "readwrite" else rw
    if rw not in _READS:
        raise BadLayout(
            f"{pointer}/rw", f"{excerpt(given.get('rw'))} is not valid. Available: {', '.join(_READS)}"
        )
    runtime_s = given.get("runtime_s")
    numjobs = read_count(given.get("numjobs"), f"{pointer}/numjobs")
    if numjobs == 0:
        raise BadLayout(f"{pointer}/numjobs", "numjobs must be at least 1")
    return {
        "rw": rw,
        "block_size_bytes": read_size(given.get("block_size"), f"{pointer}/block_size"),
        "block_size_text": "",
        "iodepth": read_count(given.get("iodepth"), f"{pointer}/iodepth"),
        "numjobs": numjobs or 1,
        "file_size_bytes": read_size(given.get("file_size"), f"{pointer}/file_size"),
        "file_size_text": "",
        "is_direct": read_flag(given.get("direct"), f"{pointer}/direct"),
        "engine": read_text(given.get("engine"), f"{pointer}/engine", maximum=50) or "",
        "read_share_percent": _read_share(given.get("read_share"), rw, pointer=f"{pointer}/read_share"),
        "runtime_s": None
        if runtime_s is None
        else read_number(runtime_s, f"{pointer}/runtime_s", maximum=_RUNTIME_MAXIMUM_S),
        "options": {},
    }


def read_reported_direction(value: Any, rw: str, *, pointer: str) -> str:
    """Return the direction of the values: as given, else the only one of rw."""
    if value is None:
        only = {"rw": "", "randrw": "", "trimwrite": "", "randtrimwrite": ""}.get(rw, rw.removeprefix("rand"))
        if not only:
            raise BadLayout(pointer, f"{rw} has two directions: set direction")
        return only
    if value not in DirectionName.values:
        raise BadLayout(
            pointer, f"{excerpt(value)} is not valid. Available: {', '.join(DirectionName.values)}"
        )
    return str(value)


def _read_share(value: Any, rw: str, *, pointer: str) -> int | None:
    share = read_count(value, pointer)
    if share is None:
        return _READS[rw]
    if share > 100:
        raise BadLayout(pointer, f"{share} exceeds 100 %")
    return share


SCHEMA: Final = "benchapp-reported/1"
KIND: Final = "reported"
RUNS_MAXIMUM: Final = 1000
MEASUREMENTS_MAXIMUM: Final = 10_000
NOTE_LENGTH: Final = 500
_FIRST_YEAR: Final = 1980
_WORKLOAD: Final = ("rw", "block_size", "iodepth", "numjobs", "file_size", "runtime_s", "direct", "engine")
_MEASUREMENT_MEMBERS: Final = (*_WORKLOAD, "read_share", "direction", "note", *CATALOG)
_DOCUMENT_MEMBERS: Final = ("schema", "id", "kind", "source", "runs")
_SOURCE_MEMBERS: Final = ("title", "url", "author", "published_at", "note")
_RUN_MEMBERS: Final = ("started_at", "profile", "target", "labels", "environment", "measurements")

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Publication:
    """Where results were published. url: http or https, "" without one."""

    title: str
    url: str = ""
    author: str = ""
    published_at: datetime | None = None
    note: str = ""

    def plain(self) -> dict[str, str]:
        """Return the known fields as text, by name."""
        published = self.published_at.isoformat().replace("+00:00", "Z") if self.published_at else ""
        values = {"title": self.title, "url": self.url, "author": self.author}
        values |= {"published_at": published, "note": self.note}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class ReportedMeasurement:
    """Published values of one direction of one workload, in base units by metric; workload: columns by name."""

    workload: Mapping[str, Any]
    direction: str
    metrics: Mapping[str, float]
    note: str


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """Published results of one layout at one time; started_at is aware UTC."""

    started_at: datetime
    profile: str
    target: Mapping[str, Any]
    labels: Mapping[str, str]
    environment: Mapping[str, Any]
    measurements: tuple[ReportedMeasurement, ...]


@dataclass(frozen=True, slots=True)
class Reported:
    """A complete document of published results."""

    id: UUID
    source: Publication
    runs: tuple[ReportedRun, ...]


def is_reported(document: Mapping[str, Any]) -> bool:
    """Return whether a document declares published results, by kind or schema."""
    return document.get("kind") == KIND or document.get("schema") == SCHEMA


def read_reported(document: Mapping[str, Any]) -> Reported:
    """Return the typed document; BadEnvelope names the first error and its JSON pointer."""
    if document.get("schema") != SCHEMA:
        raise BadEnvelope(
            "envelope-schema", f"schema is {excerpt(document.get('schema'))}, not {SCHEMA!r}", "/schema"
        )
    if document.get("kind") != KIND:
        raise BadEnvelope("envelope-kind", f"kind is {excerpt(document.get('kind'))}, not {KIND!r}", "/kind")
    try:
        _reject_unknown(document, "", _DOCUMENT_MEMBERS)
        reported = Reported(
            id=_read_id(document.get("id")),
            source=_read_source(document.get("source")),
            runs=tuple(_read_runs(document.get("runs"))),
        )
    except BadLayout as error:
        raise BadEnvelope("reported-invalid", str(error), error.pointer) from error
    count = sum(len(run.measurements) for run in reported.runs)
    if count > MEASUREMENTS_MAXIMUM:
        raise BadEnvelope(
            "reported-invalid", f"{count} measurements exceed the maximum of {MEASUREMENTS_MAXIMUM}", "/runs"
        )
    return reported


def read_source_url(value: Any, pointer: str) -> str:
    """Return a URL that a page may link to: http or https with a host, at most 2000 characters."""
    text = read_text(value, pointer, maximum=2000) or ""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_good = False
    if not is_good or any(letter.isspace() or not letter.isprintable() for letter in text):
        raise BadLayout(pointer, f"{text[:80]!r} is not a valid URL: use https://…")
    return text


def read_measured_time(value: Any, pointer: str) -> datetime:
    """Return the time of a measurement: aware UTC, from 1980, at most one day ahead of the server clock."""
    moment = read_time(value, pointer)
    if moment is None:
        raise BadLayout(pointer, "required: time of the measurement or publication")
    if moment.year < _FIRST_YEAR:
        raise BadLayout(pointer, f"{moment.year} is before {_FIRST_YEAR}")
    if moment > timezone.now() + timedelta(days=1):
        raise BadLayout(pointer, f"{moment:%Y-%m-%d} is in the future")
    return moment


def _read_id(value: Any) -> UUID:
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise BadLayout("/id", f"{excerpt(value)} is not a valid UUID") from None


def _read_source(value: Any) -> Publication:
    given = _read_object(value, "/source")
    _reject_unknown(given, "/source", _SOURCE_MEMBERS)
    title = read_text(given.get("title"), "/source/title", maximum=200)
    if not title:
        raise BadLayout("/source/title", "required: where the results were published")
    return Publication(
        title=title,
        url=read_source_url(given.get("url"), "/source/url"),
        author=read_text(given.get("author"), "/source/author", maximum=200) or "",
        published_at=read_time(given.get("published_at"), "/source/published_at"),
        note=read_text(given.get("note"), "/source/note", maximum=2000) or "",
    )


def _read_runs(value: Any) -> Iterator[ReportedRun]:
    for number, given in enumerate(_read_list(value, "/runs", maximum=RUNS_MAXIMUM)):
        pointer = f"/runs/{number}"
        _reject_unknown(_read_object(given, pointer), pointer, _RUN_MEMBERS)
        started_at = read_measured_time(given.get("started_at"), f"{pointer}/started_at")
        listed = _read_list(
            given.get("measurements"), f"{pointer}/measurements", maximum=MEASUREMENTS_MAXIMUM
        )
        yield ReportedRun(
            started_at=started_at,
            profile=read_profile(given.get("profile"), f"{pointer}/profile"),
            target=_read_part(given, "target", pointer, read=read_target),
            labels=_read_part(given, "labels", pointer, read=read_labels),
            environment=_read_part(given, "environment", pointer, read=read_environment),
            measurements=tuple(
                _read_measurement(each, f"{pointer}/measurements/{place}")
                for place, each in enumerate(listed)
            ),
        )


def _read_measurement(value: Any, pointer: str) -> ReportedMeasurement:
    given = _read_object(value, pointer)
    _reject_unknown(given, pointer, _MEASUREMENT_MEMBERS)
    workload = read_reported_workload(given, pointer)
    metrics = {
        name: read_number(given[name], f"{pointer}/{name}") for name in CATALOG if given.get(name) is not None
    }
    if not metrics:
        raise BadLayout(pointer, f"a measurement needs at least one of: {', '.join(CATALOG)}")
    return ReportedMeasurement(
        workload=workload,
        direction=read_reported_direction(
            given.get("direction"), workload["rw"], pointer=f"{pointer}/direction"
        ),
        metrics=metrics,
        note=read_text(given.get("note"), f"{pointer}/note", maximum=NOTE_LENGTH) or "",
    )


def _read_part(
    given: Mapping[str, Any], name: str, pointer: str, *, read: Callable[..., dict[str, _Read]]
) -> dict[str, _Read]:
    value = given.get(name)
    where = f"{pointer}/{name}"
    return read({} if value is None else _read_object(value, where), pointer=where)


def _read_object(value: Any, pointer: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadLayout(pointer, f"expected an object, not {excerpt(value)}")
    return value


def _read_list(value: Any, pointer: str, *, maximum: int) -> Sequence[Any]:
    if not isinstance(value, list) or not value:
        raise BadLayout(pointer, "expected a list with at least one entry")
    if len(value) > maximum:
        raise BadLayout(pointer, f"{len(value)} entries exceed the maximum of {maximum}")
    return value


def _reject_unknown(given: Mapping[str, Any], pointer: str, known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            place = name[:80].replace("~", "~0").replace("/", "~1")
            raise BadLayout(f"{pointer}/{place}", f"{name[:80]!r} is unknown. Available: {', '.join(known)}")
