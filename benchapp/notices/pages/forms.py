"""Forms of subscriptions."""

from django import forms

from benchapp.catalog.metrics import CATALOG, JUDGED_METRICS
from benchapp.layouts.read.question_form import BadQuestion, canonicalize_question
from benchapp.models import Channel, Severity
from benchapp.notices.channels.transport import get_transport
from benchapp.notices.write.thresholds import THRESHOLDS_MAXIMUM

_HOURS = [(str(hour), f"{hour:02}:00") for hour in range(24)]
_SEVERITIES = [
    (Severity.LOW.value, "low (all)"),
    (Severity.MEDIUM.value, "medium"),
    (Severity.HIGH.value, "high"),
]


_METRICS = [(name, CATALOG[name].label) for name in JUDGED_METRICS]
# Several channels have the same.
_ADDRESSES = dict.fromkeys(get_transport(channel).address_help for channel in Channel.values)


class ThresholdsField(forms.CharField):
    """Texts, one a line."""

    def __init__(self) -> None:
        super().__init__(
            label="Thresholds",
            required=False,
            max_length=1000,
            help_text=f"One per line, at most {THRESHOLDS_MAXIMUM}: p99 < 5 ms, iops > 10k, bandwidth >= 200 MB/s.",
            widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
        )

    def prepare_value(self, value: object) -> object:
        """Return the lines of stored texts."""
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: object) -> list[str]:
        """Return the lines that are not empty."""
        return [line.strip() for line in str(super().clean(value)).splitlines() if line.strip()]


def _read_hour(text: str) -> int | None:
    return int(text) if text else None


class SubscriptionForm(forms.Form):
    """Channel, filter and delivery times."""

    channel = forms.ChoiceField(label="Channel", choices=Channel.choices, initial=Channel.EMAIL)
    address = forms.CharField(
        label="Address",
        max_length=500,
        help_text=f"{', '.join(_ADDRESSES)}.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    filter = forms.CharField(
        label="Filter",
        required=False,
        max_length=2000,
        help_text="Filter bar syntax: host:db-* volume_type:gp3. Empty: everything.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    minimum_severity = forms.ChoiceField(label="Minimum severity", choices=_SEVERITIES, initial=Severity.LOW)
    metrics = forms.MultipleChoiceField(
        label="Metrics of incidents",
        choices=_METRICS,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None: all metrics.",
    )
    thresholds = ThresholdsField()
    layout_question = forms.CharField(
        label="Layout question",
        required=False,
        max_length=2200,
        help_text="Paste the address of Choose a layout. You are notified when its answer changes.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    notify_incidents = forms.BooleanField(label="Notify about incidents", required=False, initial=True)
    notify_silent_hosts = forms.BooleanField(label="Notify about silent hosts", required=False, initial=True)
    is_digest = forms.BooleanField(label="Daily digest", required=False)
    digest_hour = forms.TypedChoiceField(label="Digest time (UTC)", choices=_HOURS, coerce=int, initial="7")
    quiet_from_hour = forms.TypedChoiceField(
        label="Quiet hours from (UTC)",
        choices=[("", "never"), *_HOURS],
        coerce=_read_hour,
        required=False,
        empty_value=None,
    )
    quiet_to_hour = forms.TypedChoiceField(
        label="Quiet hours until (UTC)",
        choices=[("", "–"), *_HOURS],
        coerce=_read_hour,
        required=False,
        empty_value=None,
        help_text="Notifications from quiet hours are sent afterwards.",
    )

    def clean_layout_question(self) -> str:
        """Return the question as its query string."""
        text = str(self.cleaned_data["layout_question"]).strip()
        try:
            return canonicalize_question(text) if text else ""
        except BadQuestion as problem:
            raise forms.ValidationError(f"{problem}.") from problem

    def refuse(self, field: str, message: str) -> None:
        """Add an error to its field."""
        self.add_error(field if field in self.fields else None, message)


class ChangeForm(SubscriptionForm):
    """The same fields without the channel, which cannot be changed."""

    channel = None  # type: ignore[assignment]  # Django's way to leave out an inherited field
