"""The form of a subscription."""

from typing import Any, Final

from django import forms

from benchapp.catalog.metrics import CATALOG, JUDGED_METRICS
from benchapp.framework.pages.list_entries import ResourceForm
from benchapp.models import Channel, Severity, Subscription
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
_TEXT_INPUT: Final = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})


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


class _QuietHourField(forms.TypedChoiceField):
    def __init__(self, **options: Any) -> None:
        super().__init__(coerce=int, required=False, empty_value=None, **options)


class SubscriptionForm(ResourceForm):
    """Channel, filter and delivery times; the channel of a stored subscription cannot be changed."""

    channel = forms.ChoiceField(label="Channel", choices=Channel.choices)
    minimum_severity = forms.ChoiceField(label="Minimum severity", choices=_SEVERITIES)
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
        widget=_TEXT_INPUT,
    )
    digest_hour = forms.TypedChoiceField(label="Digest time (UTC)", choices=_HOURS, coerce=int)
    quiet_from_hour = _QuietHourField(label="Quiet hours from (UTC)", choices=[("", "never"), *_HOURS])
    quiet_to_hour = _QuietHourField(
        label="Quiet hours until (UTC)",
        choices=[("", "–"), *_HOURS],
        help_text="Notifications from quiet hours are sent afterwards.",
    )

    class Meta:
        model = Subscription
        fields = Subscription.given
        labels: Final = {
            "notify_incidents": "Notify about incidents",
            "notify_silent_hosts": "Notify about silent and failing hosts",
            "is_digest": "Daily digest",
        }
        help_texts: Final = {
            "address": f"{', '.join(_ADDRESSES)}.",
            "filter": "Filter bar syntax: host:db-* volume_type:gp3. Empty: everything.",
            "notify_incidents": "",
            "notify_silent_hosts": "",
        }
        widgets: Final = {"address": _TEXT_INPUT, "filter": _TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk:
            del self.fields["channel"]
