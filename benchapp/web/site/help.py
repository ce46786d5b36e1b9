"""The documentation of each page: what "?" in the header opens."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class HelpLink:
    """A link to the documentation. label: for its tooltip and screen readers."""

    url: str
    label: str


# Name of a URL → page and section of docs/.
HELP: Final = {
    "account": "accounts#account",
    "add_detection_policy": "detection#policies",
    "add_planned_event": "incidents#maintenance-expected-changes-and-notes",
    "add_price": "deciding#prices",
    "add_study": "studies",
    "add_subscription": "notifications#notices",
    "benchmark_health": "triage#benchmark-health",
    "compare": "comparing",
    "confirm_address": "notifications#e-mail-address-confirmation",
    "confirm_own_email": "accounts#lost-password",
    "dependence": "deciding#dependence-on-a-condition",
    "detection_policies": "detection#policies",
    "detection_policy": "detection#policies",
    "detection_status": "triage#the-inbox",
    "dry_run": "detection#policies",
    "edit_study": "studies",
    "edit_subscription": "notifications#notices",
    "experiment": "deciding#ab-experiments",
    "history": "history",
    "home": "overview",
    "host": "hosts#host",
    "host_settings": "hosts#host",
    "set_pool": "hosts#pools",
    "hosts": "hosts#list",
    "incident": "triage#the-page-of-an-incident",
    "incident_baseline": "triage#the-page-of-an-incident",
    "incidents": "triage#the-inbox",
    "layouts": "deciding#choose-a-layout",
    "matrix": "scaling#matrix",
    "overview_chart": "overview#charts",
    "people": "accounts#invitations",
    "pinned_chart": "overview#pinned-charts",
    "planned_event": "incidents#maintenance-expected-changes-and-notes",
    "planned_events": "incidents#maintenance-expected-changes-and-notes",
    "prices": "deciding#prices",
    "request_password_link": "accounts#lost-password",
    "run": "runs#run",
    "run_report": "api#provenance",
    "run_requests": "agent#requested-runs",
    "schedule_scope": "agent#schedules-from-the-server",
    "schedules": "agent#schedules-from-the-server",
    "runs": "runs#list",
    "saved_views": "studies#saved-views",
    "scaling": "scaling",
    "search": "overview#search",
    "series": "history#series",
    "series_detection": "detection#the-decision-in-short",
    "series_list": "history#series",
    "set_new_password": "accounts#lost-password",
    "setup": "accounts#invitations",
    "sign_in": "accounts#sign-in",
    "studies": "studies",
    "signed_links": "api#signed-links",
    "study": "studies",
    "subscription": "notifications#notices",
    "subscriptions": "notifications",
    "audit_records": "operations#audit-record",
    "tokens": "api#tokens",
    "upload": "importing#uploads-page",
    "upload_files": "importing#uploads-page",
    "uploads": "importing#uploads-page",
}


def find_help(request: HttpRequest) -> HelpLink:
    """Return the link to the documentation of the page that this request shows; the list of all pages without one."""
    match = request.resolver_match
    target = HELP.get(match.view_name) if match else None
    if target is None:
        return HelpLink("/docs/", "Documentation")
    return HelpLink(f"/docs/{target}", "Documentation of this page")
