"""Times as text, in the time zone of the reader: Django's current one, which is UTC outside of pages.

static/js/charts/shared/zones.js formats times in the same way; tests/data/moment_cases.json tests both.
"""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.utils import timezone

# Short enough for a table cell; the title has the exact time.
_AGES: Final = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))


def format_moment(moment: datetime) -> str:
    """Format a time with the offset of its zone: "12 May 2026 04:10 UTC+2"."""
    local = moment.astimezone(timezone.get_current_timezone())
    return f"{local:%-d %b %Y %H:%M} {_name_offset(local)}"


def format_utc_moment(moment: datetime) -> str:
    """Format a time in UTC, for a text that is stored or has several readers: "12 May 2026 02:10 UTC"."""
    return f"{moment.astimezone(UTC):%-d %b %Y %H:%M} UTC"


def format_moment_in_column(moment: datetime) -> str:
    """Format a time without its zone, which is in the header (`name_zone`): "12 May 2026 04:10"."""
    return f"{moment.astimezone(timezone.get_current_timezone()):%-d %b %Y %H:%M}"


def format_day(moment: datetime, *, has_year: bool = True) -> str:
    """Format the day of a time: "12 May 2026", or "12 May" on an axis and in a mark of this year."""
    local = moment.astimezone(timezone.get_current_timezone())
    return f"{local:%-d %b %Y}" if has_year else f"{local:%-d %b}"


def format_days(from_at: datetime, to_at: datetime) -> str:
    """Format whole days, to_at exclusive, without the year if it is this one: "21–27 Nov", "28 Oct – 3 Nov"."""
    zone = timezone.get_current_timezone()
    first, last = (each.astimezone(zone).date() for each in (from_at, to_at - timedelta(microseconds=1)))
    year = "" if first.year == last.year == timezone.localdate().year else f" {last.year}"
    if first == last:
        return f"{first:%-d %b}{year}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{last:%-d %b}{year}"
    first_year = f" {first.year}" if first.year != last.year else ""
    return f"{first:%-d %b}{first_year} – {last:%-d %b}{year}"


def format_date(day: date) -> str:
    """Format a date as `format_day` the day of a time: "12 May 2026"."""
    return f"{day:%-d %b %Y}"


def format_clock(moment: datetime) -> str:
    """Format the time of day, for an axis: "04:10"."""
    return f"{moment.astimezone(timezone.get_current_timezone()):%H:%M}"


def format_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Return the age in its largest unit: "3 d"; "now" below a minute."""
    seconds = ((now or timezone.now()) - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def describe_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Return the age for a sentence: "3 d ago"; "now" below a minute."""
    age = format_age(moment, now=now)
    return age if age == "now" else f"{age} ago"


def describe_remaining(seconds: float) -> str:
    """Return "about 3 min left" of an estimate; negative: it was wrong."""
    if seconds < 0:
        return "takes longer than estimated"
    left = format_age(timezone.now() - timedelta(seconds=seconds))
    return "less than 1 min left" if left == "now" else f"about {left} left"


def name_zone() -> str:
    """Return the name of the reader's time zone: "UTC", "Europe/Berlin"."""
    return timezone.get_current_timezone_name()


def to_iso(moment: datetime) -> str:
    """Format a time as the API does: RFC 3339, UTC, to the second: "2026-05-12T02:10:00Z"."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of a name of the IANA database; None if there is none on this system."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # Not a zone name, a path, or a system without the time zone database.
        return None


@cache
def list_zone_names() -> tuple[str, ...]:
    """Return the names of the time zones of this system, UTC first; without those of obsolete abbreviations."""
    names = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *names)


def _name_offset(local: datetime) -> str:
    """Return the offset of an aware time: "UTC", "UTC+2", "UTC−3:30"."""
    offset = local.utcoffset()
    minutes = round(offset.total_seconds() / 60) if offset else 0
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'−' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}"
