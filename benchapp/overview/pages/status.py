"""The status of the installation, for admins."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchapp.framework.pages.access import needs_role
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.intake.pages.views import make_hours_chart
from benchapp.models import Role
from benchapp.overview.read.status import read_status


@never_cache
@require_safe
@needs_role(Role.ADMIN)
def status(request: HttpRequest) -> HttpResponse:
    """Show findings with remedies, uploads per hour, and what takes space."""
    found = read_status()
    context = {
        "status": found,
        "chart": make_hours_chart(found.per_hour),
        "stored_count": sum(hour["stored"] for hour in found.per_hour),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/status", is_personal=True),
    }
    return render(request, "overview/status.html", context)
