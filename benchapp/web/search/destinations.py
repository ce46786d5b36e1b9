"""Pages and actions that the search finds by name."""

from dataclasses import dataclass
from typing import Final

from django.urls import reverse

from benchapp.models import Role, User
from benchapp.web.site.access import can


@dataclass(frozen=True, slots=True)
class Destination:
    """A page or the form of an action. terms: other words for it. role: who may open it; None: every reader."""

    label: str
    view: str
    terms: str = ""
    role: Role | None = None

    @property
    def url(self) -> str:
        """Return the path of the page."""
        return reverse(self.view)


DESTINATIONS: Final = (
    Destination("Overview", "home", "home start"),
    Destination("Scaling", "scaling", "volumes stripes chart"),
    Destination("Matrix", "matrix", "heat map table"),
    Destination("Series", "series_list", "sparklines list"),
    Destination("History", "history", "trend time chart"),
    Destination("Runs", "runs", "results list"),
    Destination("Compare", "compare", "comparison difference before after"),
    Destination("A/B experiment", "experiment", "arms difference required runs test"),
    Destination("Metric by condition", "dependence", "fragmentation extents round-trip scatter"),
    Destination("Incidents", "incidents", "regressions inbox alerts"),
    Destination("Detection status", "detection_status", "monitored series"),
    Destination("Benchmark health", "benchmark_health", "noise findings"),
    Destination("Detection policies", "detection_policies", "thresholds"),
    Destination("Maintenance", "planned_events", "windows expected changes notes annotations"),
    Destination("Studies", "studies", "reports"),
    Destination("Saved views", "saved_views", "bookmarks"),
    Destination("Choose a layout", "layouts", "cheapest sizing capacity requirement price"),
    Destination("Prices", "prices", "cost volume instance"),
    Destination("Hosts", "hosts", "machines agents"),
    Destination("Uploads", "uploads", "submissions rejected"),
    Destination("Subscriptions", "subscriptions", "notifications e-mail slack webhook", Role.VIEWER),
    Destination("Account", "account", "password profile", Role.VIEWER),
    Destination("Documentation", "docs", "help manual"),
    Destination("Upload results", "upload_files", "import files fio", Role.EDITOR),
    Destination(
        "Schedule maintenance", "add_planned_event", "expected change window note annotation", Role.EDITOR
    ),
    Destination("New study", "add_study", "create report", Role.EDITOR),
    Destination("New detection policy", "add_detection_policy", "create threshold", Role.EDITOR),
    Destination("Add prices", "add_price", "create cost", Role.EDITOR),
    Destination("New subscription", "add_subscription", "create notification", Role.VIEWER),
    Destination("API tokens", "tokens", "access keys", Role.ADMIN),
    Destination("Audit record", "audit_records", "log writes history", Role.ADMIN),
    Destination("People", "people", "users invite invitation roles", Role.ADMIN),
)


def list_destinations(visitor: User | None) -> list[Destination]:
    """Return the pages and actions that a visitor may open; None: anonymous."""
    return [each for each in DESTINATIONS if each.role is None or can(visitor, each.role)]
