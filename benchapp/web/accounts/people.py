"""Who may come in, for admins."""

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
    """List the accounts, and make links that invite."""
    context = {
        "people": User.objects.order_by("username"),
        "roles": Role.choices,
        "invite_form": RoleForm(),
        "shown_once": take_from_last_page(request),
    }
    return render(request, "accounts/people.html", context)


@require_POST
@needs_role(Role.ADMIN)
def invite(request: HttpRequest) -> HttpResponse:
    """Make a one-time link for an account of the chosen role, and show it once."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose one of the roles.", extra_tags="bad")
        return redirect("people")
    secret = create_invitation(role=Role(form.cleaned_data["role"]), created_by=read_person(request))
    link = make_base_url(request) + reverse("setup", args=[secret])
    keep_for_next_page(request, f"Link for one {form.cleaned_data['role']}, good for 24 hours", link)
    return redirect("people")


@require_POST
@needs_role(Role.ADMIN)
def set_person_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give a person another role."""
    person = get_object_or_404(User, pk=user_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose one of the roles.", extra_tags="bad")
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
    """Let a person in again, or no longer."""
    person = get_object_or_404(User, pk=user_id)
    is_active = request.POST.get("active") == "yes"
    try:
        set_active(person, is_active=is_active)
        words = "may sign in again" if is_active else "may no longer sign in"
        messages.success(request, f"{person.username} {words}.", extra_tags="good")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages), extra_tags="bad")
    return redirect("people")
