"""What a person fills in to say a maintenance or an expected change."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from django import forms
from django.utils import timezone

from benchapp.grammar import LENGTH_MAXIMUM, Filter, Term, Test, write_filter
from benchapp.models import ExpectationKind
from benchapp.pipeline.maintenance.expectations import REASON_MAXIMUM

KINDS: Final = [
    (ExpectationKind.MAINTENANCE.value, "Maintenance"),
    (ExpectationKind.CHANGE.value, "Expected change"),
]
_SPANS: Final = {
    ExpectationKind.MAINTENANCE.value: timedelta(hours=4),
    ExpectationKind.CHANGE.value: timedelta(days=7),
}
_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}


class MomentInput(forms.DateTimeInput):
    """A date and a time of day, in the zone that the form says."""

    input_type = "datetime-local"


class ExpectationForm(forms.Form):
    """What is expected, of what, when and why; times are in the zone that is chosen."""

    kind = forms.ChoiceField(label="What", choices=KINDS)
    filter = forms.CharField(
        label="Of what",
        required=False,
        max_length=LENGTH_MAXIMUM,
        help_text="As in the filter bar: host:db-1, pool:web volume_type:gp3. Empty is everything.",
        widget=forms.TextInput(attrs={**_TEXT, "data-completion": ""}),
    )
    from_at = forms.CharField(label="From", max_length=40, widget=MomentInput)
    to_at = forms.CharField(label="Until", max_length=40, widget=MomentInput)
    zone = forms.CharField(label="Zone of both times", max_length=64, widget=forms.Select)
    reason = forms.CharField(
        label="Why", max_length=REASON_MAXIMUM, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # What it reaches does not depend on the reason.
        self.fields["reason"].required = "preview" not in self.data
        zones = dict.fromkeys(["UTC", self.data.get("zone", "UTC")[:64]])
        self.fields["zone"].widget.choices = [(zone, zone) for zone in zones]

    def clean(self) -> dict[str, Any]:
        """Read both times in their zone."""
        cleaned: dict[str, Any] = super().clean() or {}
        zone = _find_zone(cleaned.get("zone", ""))
        if zone is None:
            self.add_error("zone", "This server does not know this zone: write the times in UTC.")
            return cleaned
        for name in ("from_at", "to_at"):
            if name in cleaned:
                try:
                    cleaned[name] = read_moment(cleaned[name], zone)
                except forms.ValidationError as error:
                    self.add_error(name, error)
        return cleaned

    def refuse(self, field: str, message: str) -> None:
        """Show what is wrong beside its field."""
        self.add_error(field if field in self.fields else None, f"{message[:1].upper()}{message[1:]}.")


def read_moment(text: str, zone: ZoneInfo) -> datetime:
    """Return the moment (UTC) of a date and a time of day in a zone; an offset in the text is believed."""
    try:
        said = datetime.fromisoformat(text.strip())
        if said.tzinfo is not None:
            return said.astimezone(UTC)
        moment = said.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise forms.ValidationError("This is no time: write it as 2026-11-21 14:30.") from None
    if moment.astimezone(zone).replace(tzinfo=None) != said:
        raise forms.ValidationError(f"{zone.key} skips this time, as its clocks are put forward.")
    return moment


def make_initial(kind: str, *, filter: str, from_at: datetime | None = None) -> dict[str, Any]:
    """Return what the form begins with: from now, or from a moment, and a usual span from now on; times are UTC."""
    now = timezone.now().replace(second=0, microsecond=0)
    return {
        "kind": kind,
        "filter": filter,
        "zone": "UTC",
        "from_at": format_form_time(from_at or now),
        "to_at": format_form_time(now + _SPANS[kind]),
    }


def format_form_time(moment: datetime) -> str:
    """Return a moment as the field takes it, UTC, to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M}"


def write_scopes(scopes: list[str]) -> str:
    """Return the filter of these scopes (host:NAME, pool:NAME); "" for none."""
    terms = []
    for kind in ("host", "pool"):
        names = [scope.removeprefix(f"{kind}:") for scope in scopes if scope.startswith(f"{kind}:")]
        if names:
            terms.append(Term(kind, tuple(Test("=", (name,)) for name in names)))
    return write_filter(Filter(tuple(terms), ()))


def read_zones() -> bool:
    """Say whether this system has the table of zones; without it times are told in UTC."""
    return _find_zone("Europe/Berlin") is not None


def _find_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # No zone, a path, or a system without the table of zones.
        return None
