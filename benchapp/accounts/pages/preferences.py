"""Preferences on the account page: time zone, units, theme, default filter."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from benchapp.accounts.pages.forms import AccountForm, EmailForm
from benchapp.accounts.write.password_reset import has_reset_by_email
from benchapp.accounts.write.preferences import (
    Preferences,
    read_default_filter,
    save_preferences,
    save_theme,
)
from benchapp.catalog.grammar import LENGTH_MAXIMUM, BadFilter
from benchapp.framework.pages.access import needs_role, read_person
from benchapp.framework.pages.page_context import name_server_zone
from benchapp.framework.times import list_zone_names
from benchapp.models import BROWSER_ZONE, RateUnits, Role, Theme, User


class PreferencesForm(forms.Form):
    """The preferences of an account."""

    time_zone = forms.ChoiceField(
        required=False,
        help_text="Of dates and times on pages. The API and CSV files always use UTC.",
        error_messages={"invalid_choice": "%(value)s is not a time zone of this server."},
    )
    rate_units = forms.ChoiceField(
        label="Units of throughput",
        choices=RateUnits.choices,
        help_text="On pages. The API and CSV files always use bytes/s.",
    )
    theme = forms.ChoiceField(choices=Theme.choices)
    default_filter = forms.CharField(
        required=False,
        max_length=LENGTH_MAXIMUM,
        help_text="The navigation bar opens pages with this filter.",
        widget=forms.TextInput(
            attrs={
                "placeholder": "host:db-* volume_type:gp3",
                "autocomplete": "off",
                "autocapitalize": "off",
                "spellcheck": "false",
            }
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """List the time zones of this system; a stored one that it does not have any more stays available."""
        super().__init__(*args, **kwargs)
        names = dict.fromkeys([*list_zone_names(), self.initial.get("time_zone") or "UTC"])
        names.pop(BROWSER_ZONE, None)
        field = self.fields["time_zone"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [
            ("", f"As on the server: {name_server_zone()}"),
            (BROWSER_ZONE, "As in the browser"),
            *((name, name) for name in names),
        ]

    def clean_default_filter(self) -> str:
        """Return the filter in its canonical form."""
        try:
            return read_default_filter(self.cleaned_data["default_filter"])
        except BadFilter as problem:
            raise forms.ValidationError(f"{problem}.") from problem


def make_account_context(
    user: User, *, password_form: AccountForm | None = None, preferences_form: PreferencesForm | None = None
) -> dict[str, Any]:
    """Return the context of the account page; the forms: those that were sent and have errors."""
    stored = {name: getattr(user, name) for name in PreferencesForm.base_fields}
    return {
        "form": password_form or AccountForm(user),
        "preferences_form": preferences_form or PreferencesForm(initial=stored),
        "role": Role(user.role),
        "email_form": EmailForm(initial={"email": user.email})
        if has_reset_by_email() and user.has_usable_password()
        else None,
        "has_password": user.has_usable_password(),
    }


@require_POST
@needs_role(Role.VIEWER)
def change_preferences(request: HttpRequest) -> HttpResponse:
    """Save the preferences."""
    user = read_person(request)
    form = PreferencesForm(request.POST, initial={"time_zone": user.time_zone})
    if not form.is_valid():
        context = make_account_context(user, preferences_form=form)
        return render(request, "accounts/account.html", context, status=400)
    values = form.cleaned_data
    save_preferences(
        user,
        Preferences(
            time_zone=values["time_zone"],
            rate_units=RateUnits(values["rate_units"]),
            theme=Theme(values["theme"]),
            default_filter=values["default_filter"],
        ),
    )
    messages.success(request, "Preferences saved.", extra_tags="good")
    return redirect("account")


@require_POST
@needs_role(Role.VIEWER)
def change_theme(request: HttpRequest) -> HttpResponse:
    """Save the theme that the switch in the header chose."""
    theme = request.POST.get("theme", "")
    if theme not in Theme.values:
        detail = f"theme: {theme[:40]!r} is not valid; valid: {', '.join(Theme.values)}"
        return JsonResponse({"detail": detail}, status=400)
    save_theme(read_person(request), Theme(theme))
    return JsonResponse({"theme": theme})
