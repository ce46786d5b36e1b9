"""Forms for maintenance windows, expected changes and notes."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from django import forms
from django.utils import timezone

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.pages.list_entries import FILTER_HELP, FILTER_INPUT, TEXT_INPUT, EntryForm
from benchapp.framework.times import find_zone, name_zone
from benchapp.models import METRIC_FIELDS, PlannedEvent, PlannedEventKind

KINDS: Final = [
    (kind.value, str(kind.label))
    for kind in (PlannedEventKind.MAINTENANCE, PlannedEventKind.CHANGE, PlannedEventKind.NOTE)
]
METRICS: Final = [("", "All metrics"), *((name, CATALOG[name].label) for name in METRIC_FIELDS)]
DIRECTIONS: Final = [("", "Both"), ("true", "Regressions"), ("false", "Improvements")]
_SPANS: Final = {
    PlannedEventKind.MAINTENANCE.value: timedelta(hours=4),
    PlannedEventKind.CHANGE.value: timedelta(days=7),
}


class MomentInput(forms.DateTimeInput):
    """A date and a time of day in the time zone of the form."""

    input_type = "datetime-local"


class PlannedEventForm(EntryForm):
    """A maintenance window, expected change or note; times are in the selected time zone.

    next: address of the chart to return to, "" for the page of the event.
    """

    kind = forms.ChoiceField(label="Type", choices=KINDS)
    metric = forms.ChoiceField(label="Metric (expected change)", required=False, choices=METRICS)
    is_regression = forms.TypedChoiceField(
        label="Direction (expected change)",
        required=False,
        choices=DIRECTIONS,
        coerce=lambda text: text == "true",
        empty_value=None,
    )
    incident = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    from_at = forms.CharField(label="From", max_length=40, widget=MomentInput)
    to_at = forms.CharField(
        label="Until",
        max_length=40,
        required=False,
        widget=MomentInput,
        help_text="Optional for a note.",
    )
    zone = forms.CharField(label="Time zone", max_length=64, widget=forms.Select)
    next = forms.CharField(required=False, max_length=4000, widget=forms.HiddenInput)
    field_order = (
        "kind",
        "filter",
        "incident",
        "next",
        "metric",
        "is_regression",
        "from_at",
        "to_at",
        "zone",
    )

    class Meta:
        model = PlannedEvent
        # The form has the id of the incident.
        fields = tuple(name for name in PlannedEvent.given if name != "incident")
        labels: Final = {"filter": "Applies to", "reason": "Reason, or text of the note"}
        help_texts: Final = {"filter": FILTER_HELP}
        widgets: Final = {"filter": FILTER_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The preview does not depend on the reason.
        self.fields["reason"].required = "preview" not in self.data
        zones = dict.fromkeys(["UTC", name_zone(), self.data.get("zone", "UTC")[:64]])
        self.fields["zone"].widget.choices = [(zone, zone) for zone in zones]

    def clean(self) -> dict[str, Any]:
        """Convert both times to UTC."""
        super().clean()
        cleaned = self.cleaned_data
        self.instance.incident_id = cleaned.get("incident")
        zone = find_zone(cleaned.get("zone", ""))
        if zone is None:
            self.add_error("zone", "Unknown time zone on this server: use UTC.")
        for name in ("from_at", "to_at"):
            if cleaned.get(name) == "":
                cleaned[name] = None
            elif name in cleaned:
                try:
                    cleaned[name] = read_moment(cleaned[name], zone or UTC)
                except forms.ValidationError as error:
                    self.add_error(name, error)
        return cleaned


def read_moment(text: str, zone: tzinfo) -> datetime:
    """Return the UTC time of a local date and time; an offset in the text overrides the zone."""
    try:
        local = datetime.fromisoformat(text.strip())
        if local.tzinfo is not None:
            return local.astimezone(UTC)
        moment = local.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise forms.ValidationError("Not a valid time: use the format 2026-11-21 14:30.") from None
    if moment.astimezone(zone).replace(tzinfo=None) != local:
        raise forms.ValidationError(f"This time does not exist in {zone}: clocks go forward.")
    return moment


def make_initial(
    kind: str, *, filter: str, from_at: datetime | None = None, to_at: datetime | None = None
) -> dict[str, Any]:
    """Return the initial values of the form, in the time zone of the reader: a period from now or from_at on.

    Without to_at, it ends after the default period of its kind; a note is of one time.
    """
    now = timezone.now().replace(second=0, microsecond=0)
    if to_at is None and kind in _SPANS:
        to_at = now + _SPANS[kind]
    return {
        "kind": kind,
        "filter": filter,
        "zone": name_zone(),
        "from_at": format_form_time(from_at or now),
        "to_at": format_form_time(to_at) if to_at else "",
    }


def format_form_time(moment: datetime) -> str:
    """Format a time for the input field, in the time zone of the reader, to the minute."""
    return f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}"


def has_time_zones() -> bool:
    """Return whether this system has the time zone database; without it the form uses UTC."""
    return find_zone("Europe/Berlin") is not None
