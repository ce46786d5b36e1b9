"""The time range of a page: the parameters from, to and zone, and their control."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from benchapp.framework.read.days import (
    BadDays,
    DayRange,
    end_of_day,
    is_relative_moment,
    make_day_range,
    parse_moment,
    start_of_day,
)
from benchapp.framework.times import find_zone, format_moment, name_zone, to_iso
from benchapp.series.read.selected_levels import LevelRange, make_level_range

# (label, relative time): the range has no end, so that a link, a saved view and a study show the newest runs.
PRESETS: Final = (
    ("24 h", "-24h"),
    ("7 days", "-7d"),
    ("30 days", "-30d"),
    ("90 days", "-90d"),
    ("365 days", "-365d"),
    ("All", ""),
)
# Of charts of days, which show their own number of days without a range.
DAY_PRESETS: Final = (
    ("7 days", "-7d"),
    ("30 days", "-30d"),
    ("90 days", "-90d"),
    ("365 days", "-365d"),
    ("Default", ""),
)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_UTC_NAME: Final = "UTC"
_EXAMPLE: Final = "use 2026-05-12, 2026-05-12T02:10Z or -7d"
_TEXT_MAXIMUM: Final = 40
# A preset leads to the first page of a list; as_of is the end in earlier addresses.
_LEFT_OUT: Final = ("after", "page", "as_of")
_SAFE: Final = ":,/*"


@dataclass(frozen=True, slots=True)
class AskedRange:
    """The time range of an address. from_at inclusive, to_at exclusive; None is open. from_text, to_text: as there."""

    from_at: datetime | None = None
    to_at: datetime | None = None
    from_text: str = ""
    to_text: str = ""

    @property
    def bounds(self) -> dict[str, str]:
        """Return the given bounds as query parameters: times in UTC, relative ones as they are."""
        given = (("from", self.from_at, self.from_text), ("to", self.to_at, self.to_text))
        return {
            name: text if is_relative_moment(text) else to_iso(moment)
            for name, moment, text in given
            if moment is not None
        }

    @property
    def query(self) -> str:
        """Return the given bounds as a query string; "" without any."""
        return urlencode(self.bounds, safe=_SAFE)

    def read_days(self, *, usual: int, errors: list[str]) -> DayRange:
        """Return the days of the range; usual: how many without a start. Too many are reported, and the usual."""
        now = timezone.now()
        try:
            return make_day_range(self.from_at, self.to_at, now=now, usual=usual)
        except BadDays as problem:
            errors.append(f"{problem.bound.capitalize()}: {problem}.")
            return DayRange(now, usual)

    @property
    def levels(self) -> LevelRange:
        """Return the range of charts with one number for each series."""
        return make_level_range(self.from_at, self.to_at)


@dataclass(frozen=True, slots=True)
class TimeRangeControl:
    """What `_time_range.html` shows.

    key: begins the ids of its fields. label: of its side in a comparison, "" elsewhere. from_name, to_name: parameters;
    from_text, to_text: as in the address. zone: of dates; an address without `zone` has dates of UTC, so that a link
    means the same for every reader. presets: (label, URL, is chosen). clear_url: the page without this range.
    """

    key: str
    label: str
    from_name: str
    to_name: str
    from_text: str
    to_text: str
    zone: str
    presets: tuple[tuple[str, str, bool], ...]
    clear_url: str

    @property
    def text(self) -> str:
        """Return the time range in words: "last 90 days", "all time", "2026-05-12 to now"."""
        if not self.from_text and not self.to_text:
            return "all time"
        preset = next((text for text, _, is_chosen in self.presets if is_chosen), "")
        return f"last {preset}" if preset else f"{self.from_text or 'start'} to {self.to_text or 'now'}"

    @property
    def from_type(self) -> str:
        """Return the type of the field: a date, or a text for a time and for a relative one."""
        return _find_type(self.from_text)

    @property
    def to_type(self) -> str:
        """Return the type of the field."""
        return _find_type(self.to_text)


def make_time_range(
    query: QueryDict, *, prefix: str = "", label: str = "", presets: Sequence[tuple[str, str]] = PRESETS
) -> TimeRangeControl:
    """Return the control of an address. prefix: of the parameters of a side ("a_")."""
    from_name, to_name = f"{prefix}from", f"{prefix}to"
    from_text, to_text = (query.get(name, "").strip()[:_TEXT_MAXIMUM] for name in (from_name, to_name))
    return TimeRangeControl(
        key=prefix.replace("_", "-") + "range",
        label=label,
        from_name=from_name,
        to_name=to_name,
        from_text=from_text,
        to_text=to_text,
        zone=_choose_zone(query),
        presets=tuple(
            (text, _link_preset(query, {from_name: start, to_name: ""}), (from_text, to_text) == (start, ""))
            for text, start in presets
        ),
        clear_url=_link_preset(query, {from_name: "", to_name: ""}),
    )


def read_time_range(query: QueryDict, errors: list[str]) -> AskedRange:
    """Return the time range of an address; an invalid part is open, and reported."""
    zone = read_zone(query, errors)
    from_text, to_text = (query.get(name, "").strip() for name in ("from", "to"))
    from_at = _read_bound(from_text, "From", zone, errors)
    to_at = _read_bound(to_text, "To", zone, errors)
    if from_at and to_at and from_at >= to_at:
        errors.append("From is after To. Swap them.")
        from_at = to_at = None
    return AskedRange(from_at, to_at, from_text, to_text)


def _read_bound(text: str, label: str, zone: tzinfo, errors: list[str]) -> datetime | None:
    """Parse a date or a time; a date as To includes the whole day."""
    try:
        return parse_bound(text, is_end=label == "To", zone=zone)
    except ValueError:
        errors.append(f"{label} is not a valid date: {_EXAMPLE}.")
        return None


def read_zone(query: QueryDict, errors: list[str]) -> tzinfo:
    """Return the time zone of the dates of an address; UTC for none, and for an invalid one, which is reported."""
    name = query.get("zone", "")
    zone = find_zone(name) if name else UTC
    if zone is None:
        errors.append(f"{name[:_TEXT_MAXIMUM]!r} is not a valid time zone. Example: Europe/Berlin.")
        return UTC
    return zone


def parse_bound(text: str, *, is_end: bool, zone: tzinfo = UTC) -> datetime | None:
    """Parse one end of a time range: 2026-05-12 (as the end with the whole day), or a time as in `parse_moment`.

    zone: of a date, and of a time without offset. Return UTC; None if open. Raises ValueError.
    """
    text = text.strip()
    if not text:
        return None
    try:
        if _DAY.fullmatch(text):
            day = date.fromisoformat(text)
            return end_of_day(day, zone=zone) if is_end else start_of_day(day, zone=zone)
        local = parse_datetime(text)
        if local is not None and local.tzinfo is None:
            return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error
    return parse_moment(text, now=timezone.now())


def describe_bounds(from_at: datetime | None, to_at: datetime | None) -> str:
    """Return a time range in words: "1 Oct 2026 00:00 UTC to 8 Oct 2026 00:00 UTC"; "" if it is open."""
    if from_at is None:
        return f"until {format_moment(to_at)}" if to_at else ""
    since = format_moment(from_at)
    return f"{since} to {format_moment(to_at)}" if to_at else f"since {since}"


class BoundField(forms.CharField):
    """One end of a time range, in the time zone of its form."""

    zone: tzinfo = UTC

    def __init__(self, label: str, *, is_end: bool) -> None:
        super().__init__(label=label, required=False, max_length=_TEXT_MAXIMUM)
        self._is_end = is_end

    def clean(self, value: object) -> datetime | None:
        """Return the time; None if open."""
        try:
            return parse_bound(str(super().clean(value)), is_end=self._is_end, zone=self.zone)
        except ValueError as error:
            message = f"{self.label} is not a valid date. Examples: 2026-05-12, 2026-05-12T02:10Z, -7d."
            raise forms.ValidationError(message) from error


class TimeRangeForm(forms.Form):
    """A form with bounds. Its data is the query of an address."""

    def __init__(self, data: QueryDict, **options: Any) -> None:
        super().__init__(data, **options)
        self._zone_errors: list[str] = []
        zone = read_zone(data, self._zone_errors)
        for field in self.fields.values():
            if isinstance(field, BoundField):
                field.zone = zone

    def clean(self) -> dict[str, Any]:
        """Refuse an invalid time zone, and a range that ends before it begins."""
        for message in self._zone_errors:
            self.add_error(None, message)
        values = super().clean() or {}
        first, last = values.get("from_at"), values.get("to_at")
        if first and last and first >= last:
            self.add_error(None, "From is after To. Swap them.")
        return values


def _find_type(text: str) -> str:
    return "date" if not text or _DAY.fullmatch(text) else "text"


def _choose_zone(query: QueryDict) -> str:
    """Return the name of the time zone of the dates in the control: that of the address, else of the reader."""
    if find_zone(given := query.get("zone", "")):
        return given
    texts = [query.get(name, "").strip() for name in query if name.endswith(("from", "to"))]
    has_dates = any(text and not is_relative_moment(text) for text in texts)
    return _UTC_NAME if has_dates else name_zone()


def _link_preset(query: QueryDict, changes: dict[str, str]) -> str:
    others = [
        (name, value)
        for name, values in query.lists()
        for value in values
        if value and name not in changes and name not in _LEFT_OUT
    ]
    return (
        f"?{urlencode([*others, *((name, value) for name, value in changes.items() if value)], safe=_SAFE)}"
    )
