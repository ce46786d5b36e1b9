"""One's own account: password, e-mail address for a lost password, deletion, preferences."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from benchapp.accounts.pages.forms import AccountForm, EmailForm
from benchapp.accounts.pages.sign_in import HASHING
from benchapp.accounts.write.accounts import (
    change_password,
    count_password_check,
    delete_account,
    forget_password_check,
    save_preferences,
    save_theme,
)
from benchapp.accounts.write.password_reset import (
    count_address_request,
    has_reset_by_email,
    read_signed_address,
    set_email_address,
)
from benchapp.accounts.write.throttle import LimitReached
from benchapp.catalog.grammar import LENGTH_MAXIMUM, BadFilter
from benchapp.framework.pages.access import needs_role, read_person
from benchapp.framework.pages.page_context import name_server_zone
from benchapp.framework.queue import queue_address_link
from benchapp.framework.times import list_zone_names
from benchapp.models import BROWSER_ZONE, RateUnits, Role, Theme, User
from benchapp.models.filtering import read_filter_to_store


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
            return read_filter_to_store(self.cleaned_data["default_filter"])
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
        time_zone=values["time_zone"],
        rate_units=RateUnits(values["rate_units"]),
        theme=Theme(values["theme"]),
        default_filter=values["default_filter"],
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


@never_cache
@needs_role(Role.VIEWER)
@sensitive_post_parameters("old_password", "new_password1", "new_password2")
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Show one's own role and preferences, and change the password."""
    user = read_person(request)
    form, status = AccountForm(user, request.POST or None), 200
    if request.method == "POST":
        status = 400
        try:
            count_password_check(user)
        except LimitReached as problem:
            messages.error(request, f"{str(problem).capitalize()}.", extra_tags="bad")
            form, status = AccountForm(user), 429
        else:
            with HASHING:
                is_valid = form.is_valid()
            if "old_password" not in form.errors:
                forget_password_check(user)
            if is_valid:
                change_password(user, form.cleaned_data["new_password1"])
                update_session_auth_hash(request, user)
                messages.success(
                    request, "Password changed. Other sessions are signed out.", extra_tags="good"
                )
                return redirect("account")
    context = make_account_context(user, password_form=form)
    return render(request, "accounts/account.html", context, status=status)


@sensitive_post_parameters("password")
@require_POST
@needs_role(Role.VIEWER)
def change_own_email(request: HttpRequest) -> HttpResponse:
    """Send a link that confirms the address for a lost password, or remove the address."""
    user, form = read_person(request), EmailForm(request.POST)
    if not has_reset_by_email():
        messages.error(request, "This server sends no e-mail.", extra_tags="bad")
    elif not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors.get("email", ()))), extra_tags="bad")
    elif _is_confirmed(request, user):
        _change_email(request, user, form.cleaned_data["email"])
    return redirect("account")


def _change_email(request: HttpRequest, user: User, address: str) -> None:
    if not address:
        set_email_address(user, "")
        messages.success(request, "Address removed.", extra_tags="good")
        return
    try:
        count_address_request(user)
    except LimitReached as problem:
        messages.error(request, f"{str(problem).capitalize()}.", extra_tags="bad")
        return
    if queue_address_link(user.pk, address):
        text = f"A link that confirms {address} was sent to it. The address is used after that."
        messages.success(request, text, extra_tags="good")
    else:
        messages.error(request, "No mail can be sent at present. Try again later.", extra_tags="bad")


@never_cache
@needs_role(Role.VIEWER)
@require_http_methods(["GET", "POST"])
def confirm_own_email(request: HttpRequest, secret: str) -> HttpResponse:
    """Show the address of a link that the signed-in user requested, and confirm it."""
    user = read_person(request)
    address = read_signed_address(secret, user)
    if address is None:
        return render(request, "accounts/setup_refused.html", status=410)
    if request.method == "POST":
        set_email_address(user, address)
        messages.success(request, f"Links for a lost password are sent to {address}.", extra_tags="good")
        return redirect("account")
    return render(request, "accounts/confirm_own_email.html", {"address": address})


@sensitive_post_parameters("password")
@require_POST
@needs_role(Role.VIEWER)
def delete_own_account(request: HttpRequest) -> HttpResponse:
    """Delete one's own account, confirmed by the password."""
    user = read_person(request)
    if user.pools:
        # A provider would sign the same person in as a new one, without a limit.
        messages.error(request, "An admin deletes accounts that are limited to pools.", extra_tags="bad")
        return redirect("account")
    if not _is_confirmed(request, user):
        return redirect("account")
    try:
        delete_account(user)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
        return redirect("account")
    logout(request)
    messages.success(request, "Your account is deleted.")
    return redirect("sign_in")


def _is_confirmed(request: HttpRequest, user: User) -> bool:
    """Return whether the posted password is that of the user; if not, a message says so.

    Users without a password, who sign in with a provider, write their name.
    """
    if not user.has_usable_password():
        if request.POST.get("username") == user.username:
            return True
        messages.error(request, "This is not your user name. Nothing was changed.", extra_tags="bad")
        return False
    try:
        count_password_check(user)
    except LimitReached as problem:
        messages.error(request, f"{str(problem).capitalize()}. Nothing was changed.", extra_tags="bad")
        return False
    with HASHING:
        is_confirmed = user.check_password(request.POST.get("password", "")[:4096])
    if is_confirmed:
        forget_password_check(user)
    else:
        messages.error(request, "Wrong password. Nothing was changed.", extra_tags="bad")
    return is_confirmed
