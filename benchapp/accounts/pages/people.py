"""Accounts and invitations, for admins."""

from typing import Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from benchapp.accounts.pages.forms import RoleForm
from benchapp.accounts.pages.tokens import keep_for_next_page, take_from_last_page
from benchapp.accounts.write.accounts import (
    change_role,
    create_invitation,
    delete_account,
    renew_invitation,
    set_active,
    withdraw_invitation,
)
from benchapp.accounts.write.password_reset import create_reset_link
from benchapp.framework.pages.access import needs_role, read_person
from benchapp.framework.pages.filter_bar import list_errors
from benchapp.framework.pages.page_context import make_base_url
from benchapp.models import Invitation, Role, User, name_limit

_NOT_PENDING: Final = "This invitation was used or has expired."


@never_cache
@require_GET
@needs_role(Role.ADMIN)
def people(request: HttpRequest) -> HttpResponse:
    """List the accounts."""
    context = {
        "people": User.objects.filter(deleted_at=None).order_by("username"),
        "invitations": Invitation.objects.open_at(timezone.now())
        .select_related("created_by")
        .order_by("-expires_at", "-pk"),
        "roles": Role.choices,
        "invite_form": (invite_form := RoleForm()),
        "pools": invite_form.list_pools().choices,
        "one_time_secret": take_from_last_page(request),
    }
    return render(request, "accounts/people.html", context)


@require_POST
@needs_role(Role.ADMIN)
def invite(request: HttpRequest) -> HttpResponse:
    """Create a one-time invitation link for a role; the next page shows it once."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(list_errors(form)), extra_tags="bad")
        return redirect("people")
    role, pools = Role(form.cleaned_data["role"]), form.cleaned_data["pools"]
    try:
        secret = create_invitation(role=role, pools=pools, created_by=read_person(request))
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
        return redirect("people")
    link = make_base_url(request) + reverse("setup", args=[secret])
    limit = f", {name_limit(pools)}" if pools else ""
    keep_for_next_page(request, f"Invitation link for one {role.value}{limit}, valid for 24 hours", link)
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def withdraw_pending_invitation(request: HttpRequest, invitation_id: int) -> HttpResponse:
    """Invalidate the link of a pending invitation."""
    if withdraw_invitation(invitation_id):
        messages.success(request, "Invitation withdrawn. Its link is invalid.", extra_tags="good")
    else:
        messages.error(request, _NOT_PENDING, extra_tags="bad")
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def renew_pending_invitation(request: HttpRequest, invitation_id: int) -> HttpResponse:
    """Replace the link of a pending invitation; the next page shows the new one once."""
    secret = renew_invitation(invitation_id, by=read_person(request))
    if secret is None:
        messages.error(request, _NOT_PENDING, extra_tags="bad")
    else:
        link = make_base_url(request) + reverse("setup", args=[secret])
        keep_for_next_page(
            request, "New invitation link, valid for 24 hours; the earlier one is invalid", link
        )
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def make_reset_link(request: HttpRequest, user_id: int) -> HttpResponse:
    """Create a link with which a person sets a new password; the next page shows it once."""
    person = _find(user_id)
    try:
        secret = create_reset_link(person, created_by=read_person(request))
        link = make_base_url(request) + reverse("set_new_password", args=[secret])
        keep_for_next_page(
            request, f"Link to set a new password of {person.username}, valid once for 24 hours", link
        )
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def delete_person(request: HttpRequest, user_id: int) -> HttpResponse:
    """Delete an account."""
    person = _find(user_id)
    try:
        name = delete_account(person)
        text = f"{person.username} deleted. Studies and triage of the account are shown as {name}."
        messages.success(request, text, extra_tags="good")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")


def _find(user_id: int) -> User:
    person = User.objects.filter(pk=user_id, deleted_at=None).first()
    if person is None:
        raise Http404(f"Account {user_id} does not exist.")
    return person


@require_POST
@needs_role(Role.ADMIN)
def set_person_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Change the role of a person."""
    person = _find(user_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(list_errors(form)), extra_tags="bad")
        return redirect("people")
    role, pools = Role(form.cleaned_data["role"]), form.cleaned_data["pools"]
    try:
        change_role(person, role, pools)
        limit = f", and sees {name_limit(pools)}" if pools else ""
        messages.success(request, f"{person.username} is now {role.value}{limit}.", extra_tags="good")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def set_person_active(request: HttpRequest, user_id: int) -> HttpResponse:
    """Activate or deactivate an account."""
    person = _find(user_id)
    is_active = request.POST.get("active") == "yes"
    try:
        set_active(person, is_active=is_active)
        text = "activated" if is_active else "deactivated"
        messages.success(request, f"{person.username} {text}.", extra_tags="good")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")
