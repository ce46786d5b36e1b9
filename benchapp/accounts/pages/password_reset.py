"""Lost passwords: ask for a link by e-mail, and set a password with a link."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from benchapp.accounts.pages.forms import LoginForm, NewPasswordForm
from benchapp.accounts.pages.sign_in import HASHING, remember_browser
from benchapp.accounts.write.accounts import InvitationRefused, record_sign_in
from benchapp.accounts.write.password_reset import (
    count_reset_request,
    find_reset_user,
    has_reset_by_email,
    reset_password,
)
from benchapp.accounts.write.throttle import LimitReached
from benchapp.framework.pages.security import read_client_address
from benchapp.framework.queue import queue_reset_links


@never_cache
@require_http_methods(["GET", "POST"])
def request_password_link(request: HttpRequest) -> HttpResponse:
    """Ask for a link to set a new password by e-mail.

    The answer does not depend on whether the account exists: the worker looks it up.
    """
    if not has_reset_by_email():
        raise Http404("This server sends no links for lost passwords by e-mail.")
    form, status, wait_s = LoginForm(request.POST or None), 200, 0
    if request.method == "POST":
        status = 400
        if form.is_valid():
            typed = form.cleaned_data["login"]
            try:
                count_reset_request(typed, read_client_address(request))
            except LimitReached as problem:
                form.add_error(None, f"{str(problem).capitalize()}.")
                status, wait_s = 429, problem.wait_s
            else:
                if queue_reset_links(typed):
                    return render(request, "accounts/password_link_requested.html")
                form.add_error(None, "No mail can be sent at present. Try again later.")
                status = 503
    answer = render(request, "accounts/request_password_link.html", {"form": form}, status=status)
    if wait_s:
        answer["Retry-After"] = str(wait_s)
    return answer


@never_cache
@sensitive_post_parameters("password", "password_again")
@require_http_methods(["GET", "POST"])
def set_new_password(request: HttpRequest, secret: str) -> HttpResponse:
    """Set a new password with a one-time link, and sign in."""
    user = find_reset_user(secret) if settings.LOCAL_SIGN_IN else None
    if user is None:
        return render(request, "accounts/setup_refused.html", status=410)
    form = NewPasswordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with HASHING:
                user = reset_password(secret, form.cleaned_data["password"])
        except InvitationRefused as refusal:
            form.add_error(None, str(refusal))
        except ValidationError as error:
            form.add_error("password", error.messages)
        else:
            login(request, user, backend="django.contrib.auth.backends.ModelBackend")
            record_sign_in(user)
            messages.success(request, "Password changed. Other sessions are signed out.", extra_tags="good")
            return remember_browser(redirect("home"), user)
    context = {"form": form, "person": user}
    return render(request, "accounts/set_new_password.html", context, status=400 if form.errors else 200)
