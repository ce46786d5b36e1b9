"""Forms of subscriptions."""

from django import forms

from benchapp.models import Channel, Severity

_HOURS = [(str(hour), f"{hour:02}:00") for hour in range(24)]
_SEVERITIES = [
    (Severity.LOW.value, "low (all)"),
    (Severity.MEDIUM.value, "medium"),
    (Severity.HIGH.value, "high"),
]


def _read_hour(text: str) -> int | None:
    return int(text) if text else None


class SubscriptionForm(forms.Form):
    """Channel, filter and delivery times."""

    channel = forms.ChoiceField(label="Channel", choices=Channel.choices, initial=Channel.EMAIL)
    address = forms.CharField(
        label="Address",
        max_length=500,
        help_text="E-mail address (must be confirmed), webhook URL (https://…), or Apprise URL (ntfy://TOPIC).",
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

    def refuse(self, field: str, message: str) -> None:
        """Add an error to its field."""
        self.add_error(field if field in self.fields else None, message)


class ChangeForm(SubscriptionForm):
    """The same fields without the channel, which cannot be changed."""

    channel = None  # type: ignore[assignment]  # Django's way to leave out an inherited field
