"""One's own account: password, e-mail address for a lost password, deletion."""

from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from benchapp.accounts.pages.forms import AccountForm, EmailForm
from benchapp.accounts.pages.preferences import make_account_context
from benchapp.accounts.pages.sign_in import HASHING
from benchapp.accounts.write.accounts import (
    change_password,
    count_password_check,
    delete_account,
    forget_password_check,
)
from benchapp.accounts.write.password_reset import (
    count_address_request,
    has_reset_by_email,
    read_signed_address,
    set_email_address,
)
from benchapp.accounts.write.throttle import LimitReached
from benchapp.framework.pages.access import needs_role, read_person
from benchapp.framework.queue import queue_address_link
from benchapp.models import Role, User


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
