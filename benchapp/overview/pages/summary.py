"""The summary of the overview: title and one sentence per fact, with links."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from benchapp.catalog.metrics import format_count, format_integer
from benchapp.incidents.read.shapes import IncidentRow
from benchapp.overview.read.hosts import ACTIVE_WITHIN, FleetHosts


@dataclass(frozen=True, slots=True)
class SummaryFact:
    """One fact: text before the link, the linked text ("" without a link), its address, text after it."""

    before: str
    linked: str = ""
    url: str = ""
    after: str = ""


def summarize_state(hosts: FleetHosts, open_incidents: int) -> str:
    """Return the finding: "2 open incidents, 1 silent host"."""
    parts = [format_count(open_incidents, "open incident") if open_incidents else "No open incidents"]
    if silent := len(hosts.silent):
        parts.append(format_count(silent, "silent host"))
    return ", ".join(parts)


def list_summary_facts(
    hosts: FleetHosts, *, open_incidents: int, most_severe: Sequence[IncidentRow], suffix: str = ""
) -> list[SummaryFact]:
    """Return the facts of the summary: active hosts, open incidents, silent hosts.

    suffix: query of links to lists, as the filter of the page.
    """
    facts = [_describe_active(hosts, suffix)]
    if not most_severe:
        facts.append(SummaryFact("No incident is open."))
    else:
        worst = most_severe[0]
        facts += [
            SummaryFact(
                "", format_count(open_incidents, "open incident"), f"{reverse('incidents')}{suffix}", "."
            ),
            SummaryFact(
                "Most severe: ",
                worst.title,
                reverse("incident", args=[worst.id]),
                f" ({worst.severity} severity).",
            ),
        ]
    facts.append(_describe_silent(hosts))
    return facts


def _describe_active(hosts: FleetHosts, suffix: str) -> SummaryFact:
    days = f"the last {ACTIVE_WITHIN.days} days"
    if not hosts.count and suffix:
        return SummaryFact("No hosts match the filter.")
    if not hosts.count:
        return SummaryFact("No hosts are ", "enrolled", reverse("hosts"), ".")
    verb = "has" if hosts.active_count == 1 else "have"
    return SummaryFact(
        "",
        f"{format_integer(hosts.active_count)} of {format_count(hosts.count, 'host')}",
        f"{reverse('hosts')}{suffix}",
        f" {verb} a run in {days}.",
    )


def _describe_silent(hosts: FleetHosts) -> SummaryFact:
    silent = hosts.silent
    if not silent:
        return SummaryFact("No host is silent.")
    if len(silent) == 1:
        (host,) = silent
        return SummaryFact("1 host is silent: ", host.name, reverse("host", args=[host.name]), ".")
    return SummaryFact(
        f"{format_integer(len(silent))} hosts are silent, longest ",
        silent[0].name,
        reverse("host", args=[silent[0].name]),
        ".",
    )
