"""Signed links: one's own, for admins those of everybody."""

from typing import Final
from urllib.parse import unquote_plus

from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.accounts.read.links import belongs_to, page_links
from benchapp.accounts.write.links import revoke_link
from benchapp.framework.pages.access import can, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.pagination import turn_page
from benchapp.models import Role, SignedLink

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
