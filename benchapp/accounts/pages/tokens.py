"""API and enrollment tokens and signed links; secrets that a page shows once. Host tokens are on the host pages."""

from typing import Final
from urllib.parse import unquote_plus

from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.accounts.pages.forms import TokenForm
from benchapp.accounts.read import belongs_to, page_links
from benchapp.accounts.write.tokens import issue_token, revoke_link, revoke_token
from benchapp.framework.pages.access import can, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import list_errors
from benchapp.framework.pages.list_entries import turn_page
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.security import mark_secret
from benchapp.models import ApiToken, Role, Scope, SignedLink, name_limit

LINKS_ON_A_PAGE: Final = 100


@never_cache
@require_safe
@needs_role(Role.VIEWER)
def signed_links(request: HttpRequest) -> HttpResponse:
    """List the signed links that the visitor may revoke, newest first."""
    errors: list[str] = []
    page, links = turn_page(
        request,
        errors,
        read=lambda after: page_links(_choose_links(request), after=after, limit=LINKS_ON_A_PAGE),
    )
    context = {
        **links,
        "errors": errors,
        "lines": [(row, unquote_plus(row.url)) for row in page.items],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/links", is_personal=True),
    }
    return render(request, "accounts/signed_links.html", context, status=400 if errors else 200)


@require_POST
@needs_role(Role.VIEWER)
def revoke_signed_link(request: HttpRequest, link_id: int) -> HttpResponse:
    """Revoke a signed link and return to the list."""
    if not SignedLink.objects.filter(_choose_links(request), pk=link_id).exists():
        raise Http404(f"Signed link {link_id} does not exist.")
    revoke_link(link_id)
    messages.success(request, f"Signed link {link_id} is revoked.", extra_tags="good")
    return redirect("signed_links")


def _choose_links(request: HttpRequest) -> Q:
    return Q() if can(request.user, Role.ADMIN) else belongs_to(read_person(request), None)


# In the session, not in a message: messages are stored in a cookie. Removed by the next page.
_KEY: Final = "one_time_secret"


def keep_for_next_page(request: HttpRequest, title: str, secret: str, *, command: str = "") -> None:
    """Store a secret with its title for the next page. command: shell lines that use it, "" for none."""
    request.session[_KEY] = {"title": title, "secret": secret, "command": command}


def take_from_last_page(request: HttpRequest) -> dict[str, str] | None:
    """Return the secret that the previous request stored, and remove it."""
    stored: dict[str, str] | None = request.session.pop(_KEY, None)
    if stored is not None:
        mark_secret(request)
    return stored


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
    label, pools = form.cleaned_data["label"], form.cleaned_data["pools"]
    _, secret = issue_token(scope=scope, label=label, pools=pools, created_by=read_person(request))
    keep_for_next_page(request, f"Token “{label}”: {name_limit(pools) or scope.label}", secret)
    return redirect("tokens")


@require_POST
@needs_role(Role.ADMIN)
def revoke(request: HttpRequest, public_id: str) -> HttpResponse:
    """Revoke a token and return to its list."""
    token = ApiToken.objects.select_related("host").filter(public_id=public_id).first()
    if token is None:
        raise Http404(f"Token {public_id} does not exist.")
    if revoke_token(public_id, by=read_person(request)):
        messages.success(request, f"Token bench_{public_id}_… revoked.", extra_tags="good")
    else:
        messages.error(request, f"Token bench_{public_id}_… was already revoked.", extra_tags="bad")
    return redirect("host_settings", name=token.host.name) if token.host else redirect("tokens")
