"""Come in, go out, and the accounts that allow it."""

from threading import BoundedSemaphore

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.core.exceptions import ValidationError
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from benchapp.models import Role, User
from benchapp.pipeline.accounts import (
    InvitationRefused,
    accept_invitation,
    count_sign_in_attempt,
    find_invitation,
)
from benchapp.web.access import choose_next, needs_role, read_person
from benchapp.web.forms import AccountForm, SetUpForm, SignInForm
from benchapp.web.security import read_client_address

_HASHING = BoundedSemaphore(2)
_TOO_MANY = "Too many attempts with this name from your address. Wait a quarter of an hour, then try again."
_WRONG = "This name and password do not belong together, or the account is switched off."


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Ask for name and password, and let in who knows both."""
    if request.user.is_authenticated:
        return redirect(choose_next(request, "home"))
    form = SignInForm(request.POST or None)
    status = 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            if not count_sign_in_attempt(form.cleaned_data["username"], read_client_address(request)):
                form.add_error(None, _TOO_MANY)
                status = 429
            elif (user := _authenticate(request, form)) is not None:
                login(request, user)
                return redirect(choose_next(request, "home"))
            else:
                form.add_error(None, _WRONG)
    context = {
        "form": form,
        "next": choose_next(request, "home"),
        "has_people": User.objects.filter(is_active=True).exists(),
    }
    return render(request, "sign_in.html", context, status=status)


def _authenticate(request: HttpRequest, form: SignInForm) -> User | None:
    # Argon2 takes 100 MiB for each attempt, and under ASGI each request has a thread: two at once, the rest wait.
    with _HASHING:
        return authenticate(request, **form.cleaned_data)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    messages.success(request, "You are signed out.")
    return redirect("sign_in")


@never_cache
@sensitive_post_parameters("password", "password_again")
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, secret: str) -> HttpResponse:
    """Make the account that a one-time link is for, and sign in with it."""
    invitation = find_invitation(secret)
    if invitation is None:
        return render(request, "setup_refused.html", status=410)
    form = SetUpForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and (user := _accept(secret, form)) is not None:
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        messages.success(request, f"Welcome, {user.username}. Your role is {user.role}.", extra_tags="good")
        return redirect("home")
    context = {"form": form, "role": Role(invitation.role), "is_first": invitation.created_by_id is None}
    return render(request, "setup.html", context, status=400 if form.errors else 200)


@never_cache
@needs_role(Role.VIEWER)
@sensitive_post_parameters("old_password", "new_password1", "new_password2")
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Show one's own role, and change the password."""
    user = read_person(request)
    form = AccountForm(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, user)
        messages.success(
            request, "The password is changed; other sessions are signed out.", extra_tags="good"
        )
        return redirect("account")
    context = {"form": form, "role": Role(user.role)}
    return render(request, "account.html", context, status=400 if form.errors else 200)


def _accept(secret: str, form: Form) -> User | None:
    values = form.cleaned_data
    try:
        return accept_invitation(secret, values["username"], password=values["password"])
    except InvitationRefused as refusal:
        form.add_error(None, str(refusal))
    except ValidationError as error:
        for field, problems in _by_field(error).items():
            form.add_error(field if field in form.fields else None, problems)
    return None


def _by_field(error: ValidationError) -> dict[str, list[str]]:
    """Return the messages by field; those of the password validators belong to no field by themselves."""
    if hasattr(error, "error_dict"):
        return error.message_dict
    return {"password": error.messages}
