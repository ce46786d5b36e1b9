"""Which profiles of hosts send results without a valid value: the one definition for pages, API, notices and counts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from benchapp.catalog.metrics import describe_error
from benchapp.detection.rules.levels import STALE_AFTER, find_failing_at
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.models import Host
from benchapp.models.measurement import HAS_NO_VALUE_SQL, TARGET_OF_PATH
from benchapp.models.submission import REJECTED_CODE

# Runs that a person excluded, and copies, count neither way. A target without a name may be any: a run that fails early
# does not report it. An attempt names a directory: its target is that of the series of its host that it lies on.
_FAILURES: Final = f"""
  SELECT run.host_id, run.profile, target.target_name, started_at, '/runs/' || run.id || '/' AS path,
   CASE error WHEN 0 THEN 'no I/O completed: the storage did not answer'
    ELSE coalesce(command->>'failure', '') END AS reason, error
  FROM benchapp_run AS run JOIN benchapp_target AS target ON target.id = run.target_id
  WHERE {HAS_NO_VALUE_SQL} AND excluded_at IS NULL
  UNION ALL
  SELECT attempt.host_id, profile,
   ({TARGET_OF_PATH.format(host_id="attempt.host_id", path="attempt.target_name")}), started_at,
   CASE reason_code WHEN '{REJECTED_CODE}' THEN '/uploads/' || sender_id || '/'
    ELSE '/hosts/' || host.name || '/#attempts' END,
   coalesce(nullif(reason, ''), reason_code), 0
  FROM benchapp_attempt AS attempt JOIN benchapp_host AS host ON host.id = attempt.host_id
"""  # noqa: S608
# Of the failures since the last value, the three oldest and the three newest are enough.
_FAILED_RUNS: Final = f"""
WITH recent AS (
  SELECT DISTINCT ON (host_id, profile, target_name) failure.*
  FROM unnest(%(hosts)s::bigint[]) AS wanted(id) CROSS JOIN LATERAL (
   SELECT * FROM ({_FAILURES}) AS failures WHERE host_id = wanted.id AND started_at > %(after)s) AS failure
  ORDER BY host_id, profile, target_name, started_at DESC, path DESC)
SELECT host_id, profile, target_name, path, reason, error, valid.started_at,
 failed.times[:3], failed.times[greatest(cardinality(failed.times) - 2, 1):]
FROM recent
LEFT JOIN LATERAL (
  SELECT started_at FROM benchapp_run AS run JOIN benchapp_target AS target ON target.id = run.target_id
  WHERE run.host_id = recent.host_id AND run.profile = recent.profile
   AND NOT {HAS_NO_VALUE_SQL} AND excluded_at IS NULL
   AND (target.target_name = recent.target_name OR target.target_name IS NULL OR recent.target_name IS NULL)
  ORDER BY started_at DESC LIMIT 1) AS valid ON TRUE
CROSS JOIN LATERAL (
  SELECT array_agg(DISTINCT started_at ORDER BY started_at) AS times FROM ({_FAILURES}) AS failures
  WHERE failures.host_id = recent.host_id AND failures.profile = recent.profile
   AND failures.target_name IS NOT DISTINCT FROM recent.target_name
   AND (valid.started_at IS NULL OR failures.started_at > valid.started_at)) AS failed
WHERE valid.started_at IS NULL OR valid.started_at < recent.started_at
ORDER BY host_id, profile, target_name
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class FailedRuns:
    """Results of one profile of a host on one target since its last valid value.

    profile: "" if unknown; target_name: "" if unknown or not named. times: of the three oldest and the three newest,
    ascending. valid_at: of the last value, None without one. reason, path: of the newest. every_s: None without a
    schedule. failing_at: from when the profile is failing, None if it is not.
    """

    host_id: int
    profile: str
    target_name: str
    times: tuple[datetime, ...]
    valid_at: datetime | None
    reason: str
    path: str
    every_s: int | None
    splay_s: int
    failing_at: datetime | None

    @property
    def since_at(self) -> datetime:
        """Return when the first of these results came."""
        return self.times[0]

    @property
    def name(self) -> str:
        """Return "quick on /data" or "quick"."""
        profile = self.profile or "runs without a profile"
        return f"{profile} on {self.target_name}" if self.target_name else profile

    def find_failing_after(self, moment: datetime, *, now: datetime) -> datetime | None:
        """Return from when the profile is failing by its results after a moment; None if it is not."""
        failed = [at for at in self.times if at > moment]
        valid_at = max(self.valid_at or moment, moment)
        return find_failing_at(failed, valid_at=valid_at, every_s=self.every_s, splay_s=self.splay_s, now=now)


def read_failed(
    hosts: Iterable[Mapping[str, Any]], *, now: datetime | None = None
) -> dict[int, tuple[FailedRuns, ...]]:
    """Return by host the profiles with results of the last 14 days and no valid value since; one query, none without
    active hosts.

    hosts: with id, retired_at, schedule and schedule_since_at. Retired hosts have none.
    """
    active = {row["id"]: row for row in hosts if row["retired_at"] is None}
    if not active:
        return {}
    moment = now or timezone.now()
    wanted = {"hosts": list(active), "after": moment - STALE_AFTER}
    failed: dict[int, list[FailedRuns]] = defaultdict(list)
    for host_id, profile, target, path, reason, error, valid_at, oldest, newest in fetch_rows(
        _FAILED_RUNS, wanted
    ):
        entries = [entry for entry in active[host_id]["schedule"] or () if entry["profile"] == profile]
        every_s, splay_s = min(
            ((int(entry["every_s"]), int(entry["splay_s"])) for entry in entries), default=(None, 0)
        )
        since_at = active[host_id]["schedule_since_at"]
        # Of up to five runs both have the same ones.
        times = tuple(sorted({*oldest, *newest}))
        failing_at = find_failing_at(
            times,
            valid_at=max(valid_at, since_at) if valid_at and since_at else valid_at or since_at,
            every_s=every_s,
            splay_s=splay_s,
            now=moment,
        )
        words = reason or describe_error(error)
        group = (host_id, profile, target or "", times, valid_at, words, path)
        failed[host_id].append(FailedRuns(*group, every_s, splay_s, failing_at))
    return {host_id: tuple(groups) for host_id, groups in failed.items()}


def read_all_failed(*, now: datetime | None = None) -> dict[int, tuple[FailedRuns, ...]]:
    """Return those of all active hosts, as `read_failed` does; two queries."""
    rows = Host.objects.active().values("id", "retired_at", "schedule", "schedule_since_at")
    return read_failed(rows, now=now)


def read_failing_hosts(
    names: Sequence[str], *, profile: str, target_name: str
) -> dict[str, tuple[FailedRuns, ...]]:
    """Return by name the hosts on which this profile is failing on this target, or on an unknown one; two queries."""
    hosts = {
        row["id"]: row
        for row in Host.objects.filter(name__in=names).values(
            "id", "name", "retired_at", "schedule", "schedule_since_at"
        )
    }
    failing = {
        hosts[host_id]["name"]: tuple(
            each
            for each in list_failing(failed)
            if each.profile == profile and each.target_name in ("", target_name)
        )
        for host_id, failed in read_failed(hosts.values()).items()
    }
    return {name: failing[name] for name in names if failing.get(name)}


def list_failing(failed: Iterable[FailedRuns]) -> tuple[FailedRuns, ...]:
    """Return those that are failing, for longest first."""
    return tuple(sorted((each for each in failed if each.failing_at), key=lambda each: each.since_at))
