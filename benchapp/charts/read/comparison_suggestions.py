"""Suggested comparisons from the existing measurements."""

from dataclasses import dataclass

from django.db.models import Max, Min

from benchapp.models import Run, Series
from benchapp.series.read.titles import name_scope


@dataclass(frozen=True, slots=True)
class RunPair:
    """The two newest runs of one profile on one host; older and newer by their start."""

    older_id: int
    newer_id: int
    host: str
    profile: str


@dataclass(frozen=True, slots=True)
class Suggestions:
    """hosts: up to two, with the most recent series. counts: lowest and highest number of volumes, if different."""

    hosts: tuple[str, ...]
    counts: tuple[int, int] | None
    runs: RunPair | None
    has_measurements: bool


def list_suggestions() -> Suggestions:
    """Return what could be compared; four queries at most."""
    measured = Series.objects.filter(last_at__isnull=False)
    scopes = (
        measured.filter(scope__startswith="host:")
        .values("scope")
        .annotate(last=Max("last_at"))
        .order_by("-last", "scope")
        .values_list("scope", flat=True)[:2]
    )
    counts = measured.aggregate(least=Min("volume_count"), most=Max("volume_count"))
    newest = (
        Run.objects.order_by("-started_at", "-id")
        .values_list("id", "host_id", "host__name", "profile")
        .first()
    )
    return Suggestions(
        hosts=tuple(name_scope(scope) for scope in scopes),
        counts=(counts["least"], counts["most"]) if counts["least"] != counts["most"] else None,
        runs=_find_runs(*newest) if newest else None,
        has_measurements=newest is not None,
    )


def _find_runs(run_id: int, host_id: int, host: str, profile: str) -> RunPair | None:
    before = (
        Run.objects.filter(host_id=host_id, profile=profile)
        .exclude(pk=run_id)
        .order_by("-started_at", "-id")
        .values_list("id", flat=True)
        .first()
    )
    return RunPair(before, run_id, host, profile) if before else None
