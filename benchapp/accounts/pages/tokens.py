"""API and enrollment tokens, for admins; host tokens are on the host pages."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.accounts.pages.forms import TokenForm
from benchapp.accounts.pages.one_time_secret import keep_for_next_page, take_from_last_page
from benchapp.accounts.write.tokens import issue_token, revoke_token
from benchapp.framework.pages.access import needs_role, read_person
from benchapp.framework.pages.filter_forms import list_errors
from benchapp.models import ApiToken, Role, Scope


@never_cache
@require_safe
@needs_role(Role.ADMIN)
def tokens(request: HttpRequest) -> HttpResponse:
    """List the tokens that belong to no host."""
    context = {
        "tokens": ApiToken.objects.filter(host__isnull=True)
        .select_related("created_by")
        .order_by("-created_at"),
        "form": TokenForm(),
        "now": timezone.now(),
        "one_time_secret": take_from_last_page(request),
    }
    return render(request, "accounts/tokens.html", context)


@require_POST
@needs_role(Role.ADMIN)
def add_token(request: HttpRequest) -> HttpResponse:
    """Create an API token; the next page shows it once."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(list_errors(form)), extra_tags="bad")
        return redirect("tokens")
    scope = Scope(form.cleaned_data["scope"])
    _, secret = issue_token(scope=scope, label=form.cleaned_data["label"], created_by=read_person(request))
    keep_for_next_page(request, f"Token “{form.cleaned_data['label']}”: {scope.label}", secret)
    return redirect("tokens")


@require_POST
@needs_role(Role.ADMIN)
def revoke(request: HttpRequest, public_id: str) -> HttpResponse:
    """Revoke a token and return to its list."""
    token = get_object_or_404(ApiToken.objects.select_related("host"), public_id=public_id)
    if revoke_token(public_id, by=read_person(request)):
        messages.success(request, f"Token bench_{public_id}_… revoked.", extra_tags="good")
    else:
        messages.error(request, f"Token bench_{public_id}_… was already revoked.", extra_tags="bad")
    return redirect("host_settings", name=token.host.name) if token.host else redirect("tokens")
