"""Forms for sign-in, accounts, hosts, tokens and uploads."""

from typing import Any, Final

from django import forms
from django.contrib.auth.forms import PasswordChangeForm

from benchapp.models import Role, Scope
from benchapp.notices.channels.email.transport import read_email_address
from benchapp.notices.channels.transport import AddressRefused

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


class RoleForm(forms.Form):
    """A role for an invitation or a person."""

    role = forms.ChoiceField(choices=Role.choices, initial=Role.VIEWER)


class HostNameForm(forms.Form):
    """A new host."""

    name = forms.CharField(label="Host name", max_length=253)
    label = forms.CharField(max_length=100, required=False)


class LabelForm(forms.Form):
    """The label of a token."""

    label = forms.CharField(max_length=100, required=False)


class PoolForm(forms.Form):
    """The pool of a host; empty for none."""

    pool = forms.CharField(max_length=100, required=False)


class TokenForm(forms.Form):
    """An API token."""

    scope = forms.ChoiceField(
        label="Scope",
        choices=[(scope.value, scope.label) for scope in (Scope.READ, Scope.ADMIN)],
        initial=Scope.READ,
    )
    label = forms.CharField(label="Label", max_length=100)
