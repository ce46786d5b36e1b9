"""What a person fills in to be told of regressions."""

from django import forms

from benchapp.models import Channel, Severity

_HOURS = [(str(hour), f"{hour:02}:00") for hour in range(24)]
_ANY_SEVERITY = [
    (Severity.LOW.value, "any"),
    (Severity.MEDIUM.value, "medium and high"),
    (Severity.HIGH.value, "high only"),
]


def _read_hour(text: str) -> int | None:
    return int(text) if text else None


class SubscriptionForm(forms.Form):
    """Where to, of what, and when."""

    channel = forms.ChoiceField(label="How", choices=Channel.choices, initial=Channel.EMAIL)
    address = forms.CharField(
        label="Address",
        max_length=500,
        help_text="An e-mail address, which gets a mail to confirm it first, or the URL of a webhook (https://…).",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    filter = forms.CharField(
        label="Only of",
        required=False,
        max_length=2000,
        help_text="As in the filter bar: host:db-* volume_type:gp3. Empty is everything.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    least_severity = forms.ChoiceField(label="Severity", choices=_ANY_SEVERITY, initial=Severity.LOW)
    wants_silence = forms.BooleanField(label="Also of hosts that fall silent", required=False, initial=True)
    is_digest = forms.BooleanField(label="Once a day instead of at once", required=False)
    digest_hour = forms.TypedChoiceField(label="Once a day at (UTC)", choices=_HOURS, coerce=int, initial="7")
    quiet_from_hour = forms.TypedChoiceField(
        label="Quiet from (UTC)",
        choices=[("", "never"), *_HOURS],
        coerce=_read_hour,
        required=False,
        empty_value=None,
    )
    quiet_to_hour = forms.TypedChoiceField(
        label="Quiet until (UTC)",
        choices=[("", "–"), *_HOURS],
        coerce=_read_hour,
        required=False,
        empty_value=None,
        help_text="What happens in quiet hours is told at their end.",
    )

    def refuse(self, field: str, message: str) -> None:
        """Show what is wrong beside its field."""
        self.add_error(field if field in self.fields else None, message)


class ChangeForm(SubscriptionForm):
    """The same without the channel, which stays."""

    channel = None  # type: ignore[assignment]  # Django's way to leave out an inherited field
