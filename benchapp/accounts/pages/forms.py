"""Forms for sign-in, accounts, hosts, tokens and uploads."""

from typing import Any, Final, cast

from django import forms
from django.contrib.auth.forms import PasswordChangeForm
from django.db.models import F, Func

from benchapp.models import Host, Role, Scope, User
from benchapp.models.limits import find_obstacle
from benchapp.notices.channels.email.transport import read_email_address
from benchapp.notices.channels.transport import AddressRefused
from benchapp.storage.write.hosts import HOST_PATTERN

_PASSWORD_HELP: Final = "At least 10 characters, not only digits, not a common one."


class SignInForm(forms.Form):
    """User name and password."""

    username = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autofocus": True, "autocapitalize": "none"}
        ),
    )
    password = forms.CharField(
        max_length=4096, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class NewPasswordForm(forms.Form):
    """A new password, twice."""

    password = forms.CharField(
        max_length=4096,
        strip=False,
        help_text=_PASSWORD_HELP,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    password_again = forms.CharField(
        label="Repeat password",
        max_length=4096,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Reject two different passwords."""
        cleaned: dict[str, Any] = super().clean() or {}
        password, again = cleaned.get("password"), cleaned.get("password_again")
        if password and again and password != again:
            self.add_error("password_again", "Passwords do not match.")
        return cleaned


class SetUpForm(NewPasswordForm):
    """A new account from a one-time link."""

    username = forms.CharField(
        label="User name",
        max_length=150,
        help_text="Letters, digits and @ . + - _",
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autofocus": True, "autocapitalize": "none"}
        ),
    )
    field_order = ("username", "password", "password_again")


class AccountForm(PasswordChangeForm):
    """A new password, confirmed by the current one."""

    field_order = ("old_password", "new_password1", "new_password2")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Use the labels of the other forms."""
        super().__init__(*args, **kwargs)
        texts = (("Current password", ""), ("New password", _PASSWORD_HELP), ("Repeat new password", ""))
        for name, (label, help_text) in zip(self.field_order, texts, strict=True):
            self.fields[name].label, self.fields[name].help_text = label, help_text
        # The preferences come first.
        self.fields["old_password"].widget.attrs.pop("autofocus", None)


class LoginForm(forms.Form):
    """The account whose password is lost."""

    login = forms.CharField(
        label="User name or e-mail address",
        max_length=254,
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autofocus": True, "autocapitalize": "none"}
        ),
    )


class EmailForm(forms.Form):
    """The address for a lost password; empty removes it."""

    email = forms.CharField(
        label="Address",
        required=False,
        max_length=254,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
        help_text="Empty: none.",
    )

    def clean_email(self) -> str:
        """Return one bare address, or ""."""
        text = str(self.cleaned_data["email"])
        try:
            return read_email_address(text) if text else ""
        except AddressRefused as error:
            raise forms.ValidationError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error


class LimitForm(forms.Form):
    """The pools that a viewer or a token is limited to; none: everything."""

    pools = forms.MultipleChoiceField(
        required=False, label="Only pools", widget=forms.SelectMultiple(attrs={"size": 3})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer the pools of hosts."""
        super().__init__(*args, **kwargs)
        self.list_pools().choices = _list_pools()

    def list_pools(self) -> forms.MultipleChoiceField:
        """Return the field of the pools."""
        return cast(forms.MultipleChoiceField, self.fields["pools"])

    def clean_pools(self) -> list[str]:
        """Reject limits that PostgreSQL cannot enforce."""
        pools: list[str] = self.cleaned_data["pools"]
        if pools and (obstacle := find_obstacle()):
            raise forms.ValidationError(f"{obstacle}.")
        return pools


def _list_pools() -> list[tuple[str, str]]:
    # Also those without a host: a form must not widen a limit that it does not show.
    limits = User.objects.annotate(pool=Func(F("pools"), function="unnest")).values_list("pool", flat=True)
    pools = Host.objects.exclude(pool="").order_by().values_list("pool", flat=True).union(limits.order_by())
    return [(pool, pool) for pool in sorted(pools)]


class RoleForm(LimitForm):
    """Role and limits of an invitation or a person."""

    role = forms.ChoiceField(
        choices=Role.choices, initial=Role.VIEWER, error_messages={"invalid_choice": "Choose a valid role."}
    )


class HostNameForm(forms.Form):
    """A new host."""

    name = forms.CharField(label="Host name", max_length=253)
    label = forms.CharField(max_length=100, required=False)


class EnrollmentForm(forms.Form):
    """Which hosts a token enrolls."""

    host_pattern = forms.RegexField(
        HOST_PATTERN,
        max_length=253,
        required=False,
        error_messages={
            "invalid": "Host names: a shell pattern such as db-*, of letters, digits, . - _ * ? [ ]."
        },
    )


class LabelForm(forms.Form):
    """The label of a token."""

    label = forms.CharField(max_length=100, required=False)


class PoolForm(forms.Form):
    """The pool of a host; empty for none."""

    pool = forms.CharField(max_length=100, required=False)


class TokenForm(LimitForm):
    """An API token."""

    scope = forms.ChoiceField(
        label="Scope",
        choices=[(scope.value, scope.label) for scope in (Scope.READ, Scope.ADMIN)],
        initial=Scope.READ,
    )
    label = forms.CharField(label="Label", max_length=100)

    def clean(self) -> dict[str, Any]:
        """Reject limits of tokens that manage."""
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("pools") and cleaned.get("scope") == Scope.ADMIN:
            self.add_error("pools", "A token with the scope admin sees everything: choose no pools, or read.")
        return cleaned
