"""Accounts and invitations, for admins."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from benchapp.models import Role, User
from benchapp.pipeline.access.accounts import change_role, create_invitation, set_active
from benchapp.web.accounts.forms import RoleForm
from benchapp.web.accounts.one_time_secret import keep_for_next_page, take_from_last_page
from benchapp.web.site.access import needs_role, read_person
from benchapp.web.site.page_context import make_base_url


@never_cache
@require_GET
@needs_role(Role.ADMIN)
def people(request: HttpRequest) -> HttpResponse:
    """List the accounts."""
    context = {
        "people": User.objects.order_by("username"),
        "roles": Role.choices,
        "invite_form": RoleForm(),
        "one_time_secret": take_from_last_page(request),
    }
    return render(request, "accounts/people.html", context)


@require_POST
@needs_role(Role.ADMIN)
def invite(request: HttpRequest) -> HttpResponse:
    """Create a one-time invitation link for a role; the next page shows it once."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose a valid role.", extra_tags="bad")
        return redirect("people")
    secret = create_invitation(role=Role(form.cleaned_data["role"]), created_by=read_person(request))
    link = make_base_url(request) + reverse("setup", args=[secret])
    keep_for_next_page(
        request, f"Invitation link for one {form.cleaned_data['role']}, valid for 24 hours", link
    )
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def set_person_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Change the role of a person."""
    person = get_object_or_404(User, pk=user_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose a valid role.", extra_tags="bad")
        return redirect("people")
    try:
        change_role(person, Role(form.cleaned_data["role"]))
        messages.success(request, f"{person.username} is now {form.cleaned_data['role']}.", extra_tags="good")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def set_person_active(request: HttpRequest, user_id: int) -> HttpResponse:
    """Activate or deactivate an account."""
    person = get_object_or_404(User, pk=user_id)
    is_active = request.POST.get("active") == "yes"
    try:
        set_active(person, is_active=is_active)
        text = "activated" if is_active else "deactivated"
        messages.success(request, f"{person.username} {text}.", extra_tags="good")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")
