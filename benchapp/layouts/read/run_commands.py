"""Commands of the agent that measure again: on the hosts of a layout, with the profile or a job file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Annotated, Any, Final

from django.db.models import Max, Min
from django.db.models.expressions import RawSQL
from django.utils import timezone
from msgspec import Meta

from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.models import Measurement, Run, Series
from benchapp.models.requests import RunSpecification, read_specification

# Measurements that are looked at, the newest of each series: one that is measured often must not hide the others.
_ROWS_MAXIMUM: Final = 500
_NEWEST: Final = (
    "SELECT newest.id FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    "SELECT own.id FROM benchapp_measurement AS own WHERE own.series_id = wanted.id AND own.started_at >= %s"
    " ORDER BY own.started_at DESC, own.id DESC LIMIT %s) AS newest"
)
# A retired host, or one that did not report for so long, may not exist any more.
_HOST_AGE: Final = timedelta(days=365)
# Profiles that every agent has; others are names of own job files.
SHIPPED_PROFILES: Final = frozenset(
    {
        "ebs-series",
        "gitlab-randrw",
        "gitlab-smallfiles",
        "netapp-iops",
        "netapp-latency",
        "netapp-throughput",
        "quick",
        "saturation",
        "seqread-fragmentation",
        "snia-steady",
    }
)
# One run of these profiles is a sweep: its steps are runs of one sweep id.
_SWEEPING_PROFILES: Final = frozenset({"saturation"})
_JOB_RUNTIME_S: Final = 60
# Starting fio, and laying out its file, on an idle machine.
_START_S: Final = 2.0
_ENGINES: Final = re.compile(r"[a-z0-9_]{1,30}")
_WRITABLE: Final = ("read", "write", "randread", "randwrite", "rw", "randrw")
_MIXED: Final = ("rw", "randrw")
# In the job file of a workload with an unknown file size.
_SIZE_BYTES: Final = 2**30
# Parameters in nanoseconds, which the agent reads with a unit.
_LATENCY_PARAMETERS: Final = ("limit",)


@dataclass(frozen=True, slots=True)
class WantedRuns:
    """What to measure. runs: at least 1. workload_ids: series with the workload, host_ids: with the layout.

    has_job_file: a job file replaces the profile, which did not measure what is needed.
    """

    runs: int
    workload_ids: tuple[int, ...]
    host_ids: tuple[int, ...]
    has_job_file: bool = False


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A command for one host, to be repeated `runs` times."""

    host: str
    argv: Annotated[tuple[str, ...], Meta(description="bench-agent with its arguments, to run on the host")]
    runs: Annotated[int, Meta(description="how often to run it")]
    measurements: Annotated[
        tuple[int, ...], Meta(description="places in `measurements` that it measures, from 0")
    ]
    duration_s: Annotated[float | None, Meta(description="expected, of one execution")]
    is_duration_stored: Annotated[
        bool, Meta(description="median of earlier runs; false: runtime of the workload")
    ]
    job_file: Annotated[str, Meta(description="fio job file that argv names; empty without one")] = ""


@dataclass(frozen=True, slots=True)
class _Source:
    """A run whose directory is known. specification: None if it cannot be repeated by a command.

    is_present: the newest run of its host in its directory has the same layout.
    """

    host: str
    is_present: bool
    directory: str
    specification: RunSpecification | None
    duration_s: float | None
    started_at: datetime


def make_run_commands(
    wanted: Sequence[WantedRuns], *, now: datetime | None = None
) -> tuple[list[RunCommand], list[int]]:
    """Return the commands, and the indexes of what no host can measure; at most four queries.

    Runs of one host with the same profile and parameters are one command; in several directories a sweep over them.
    """
    now = now or timezone.now()
    ids = {each for one in wanted for each in (*one.workload_ids, *one.host_ids)}
    sources = _read_sources(ids, now=now)
    series = {row.pk: row for row in Series.objects.filter(pk__in=ids)} if ids else {}
    found: dict[tuple[Any, ...], _CommandDraft] = {}
    impossible: list[int] = []
    for place, one in enumerate(wanted):
        draft = _make_draft(one, sources, series)
        if draft is None:
            impossible.append(place)
            continue
        known = found.setdefault(draft.key, draft)
        known.add(draft, place=place, runs=one.runs)
    return [draft.finish(number) for number, draft in enumerate(found.values(), start=1)], impossible


class _CommandDraft:
    """A command while further directories and uses are added."""

    def __init__(
        self,
        host: str,
        specification: RunSpecification,
        *,
        job_file: str,
        duration_s: float | None,
        stored: bool,
    ) -> None:
        self.host, self.specification, self.job_file = host, specification, job_file
        self.duration_s, self.is_duration_stored = duration_s, stored
        self.directories: dict[str, None] = {}
        self.places: dict[int, None] = {}
        self.runs = 0
        # Job files are not varied by a sweep.
        own = specification.directory if job_file else ""
        self.key = (
            host,
            specification.profile,
            tuple(sorted(specification.parameters.items())),
            own,
            job_file,
        )

    def add(self, other: "_CommandDraft", *, place: int, runs: int) -> None:
        """Add what another draft of the same key measures."""
        self.directories.setdefault(other.specification.directory)
        self.places.setdefault(place)
        self.runs = max(self.runs, runs)

    def finish(self, number: int) -> RunCommand:
        """Return the command; number: of the command, for the name of its job file."""
        given = [
            option
            for name, value in sorted(self.specification.parameters.items())
            for option in ("--set", f"{name}={_write_value(name, value)}")
        ]
        directories = list(self.directories)
        if self.job_file:
            file_name = f"next-{number}.fio"
            argv = ["run", "--jobfile", file_name, "--directory", directories[0]]
        elif len(directories) == 1:
            argv = ["run", "--profile", self.specification.profile, "--directory", directories[0], *given]
        else:
            joined = ",".join(directories)
            argv = ["sweep", "--directories", joined, "--profile", self.specification.profile, *given]
        return RunCommand(
            host=self.host,
            argv=("bench-agent", *argv),
            runs=self.runs,
            measurements=tuple(self.places),
            duration_s=None if self.duration_s is None else self.duration_s * len(directories),
            is_duration_stored=self.is_duration_stored,
            job_file=self.job_file,
        )


def _make_draft(
    one: WantedRuns, sources: Mapping[int, Sequence[_Source]], series: Mapping[int, Series]
) -> _CommandDraft | None:
    """Return the command of the host of the layout with the newest run; None if none can measure it."""
    places = [source for each in one.host_ids for source in sources.get(each, ()) if source.is_present]
    if not places:
        return None
    place = max(places, key=lambda source: source.started_at)
    models = [
        source
        for each in one.workload_ids
        for source in sources.get(each, ())
        if source.specification is not None and source.specification.profile in SHIPPED_PROFILES
    ]
    own = [source for source in models if source.host == place.host and source.directory == place.directory]
    # A directory with a comma would be two.
    if models and not one.has_job_file and "," not in place.directory:
        model = max(own or models, key=lambda source: source.started_at)
        assert model.specification is not None
        specification = RunSpecification(
            model.specification.profile, model.specification.parameters, place.directory
        )
        duration_s = _find_duration(own) or _find_duration(models)
        return _CommandDraft(place.host, specification, job_file="", duration_s=duration_s, stored=True)
    workloads = [series[each] for each in one.workload_ids if each in series]
    job_file = write_job_file(workloads[0]) if workloads else None
    if job_file is None:
        return None
    runtime_s = workloads[0].runtime_s or _JOB_RUNTIME_S
    specification = RunSpecification("", {}, place.directory)
    return _CommandDraft(
        place.host, specification, job_file=job_file, duration_s=runtime_s + _START_S, stored=False
    )


def _find_duration(sources: Iterable[_Source]) -> float | None:
    known = [source.duration_s for source in sources if source.duration_s is not None]
    return median(known) if known else None


def _write_value(name: str, value: int | str) -> str:
    if name in _LATENCY_PARAMETERS and isinstance(value, int):
        # To the nanosecond, and without an exponent, which the agent does not read.
        whole, rest = divmod(value, 1000)
        return f"{whole}.{rest:03d}us" if rest else f"{whole}us"
    return str(value)


def write_job_file(workload: Series) -> str | None:
    """Return a fio job file of the workload of a series; None if it is not described by its columns alone."""
    rw = workload.rw
    if rw not in _WRITABLE or workload.block_size_bytes is None or workload.options:
        return None
    engine = workload.engine if _ENGINES.fullmatch(workload.engine) else "libaio"
    lines = [
        "[global]",
        "filename=bench-agent.test",
        f"size={workload.file_size_bytes or _SIZE_BYTES}",
        f"ioengine={engine}",
        f"direct={int(workload.is_direct is not False)}",
        "time_based=1",
        f"runtime={round(workload.runtime_s or _JOB_RUNTIME_S) or 1}",
        "group_reporting=1",
        "",
        f"[{rw}]",
        f"rw={rw}",
        f"bs={workload.block_size_bytes}",
        f"iodepth={workload.iodepth or 1}",
    ]
    if workload.numjobs:
        lines.append(f"numjobs={workload.numjobs}")
    if rw in _MIXED and workload.read_share_percent is not None:
        lines.append(f"rwmixread={workload.read_share_percent}")
    return "\n".join([*lines, ""])


def _read_sources(series_ids: set[int], *, now: datetime) -> dict[int, list[_Source]]:
    """Return the newest runs of each series on hosts that still report; newest first."""
    if not series_ids:
        return {}
    each = max(_ROWS_MAXIMUM // len(series_ids), 1)
    rows = list(
        Measurement.objects.filter(
            pk__in=RawSQL(_NEWEST, (sorted(series_ids), now - _HOST_AGE, each)),  # noqa: S611
            run__host__retired_at=None,
        )
        .order_by("-started_at", "-id")
        .values(
            "series_id",
            "run__host_id",
            "run__target_id",
            "run__host__name",
            "run__profile",
            "run__command",
            "run__environment__facts",
            "run__started_at",
            "run__finished_at",
            "run__sweep_id",
        )
    )
    sweeps = _read_sweep_durations(
        {row["run__sweep_id"] for row in rows if row["run__profile"] in _SWEEPING_PROFILES} - {None}
    )
    places = [(row["run__host_id"], _read_directory(row["run__environment__facts"])) for row in rows]
    targets = _read_newest_targets({(host, name) for host, name in places if name})
    found: dict[int, list[_Source]] = {}
    for row, place in zip(rows, places, strict=True):
        if place not in targets:
            continue
        specification = read_specification(
            row["run__profile"], row["run__command"], row["run__environment__facts"]
        )
        finished_at = row["run__finished_at"]
        duration_s = (finished_at - row["run__started_at"]).total_seconds() if finished_at else None
        found.setdefault(row["series_id"], []).append(
            _Source(
                host=row["run__host__name"],
                is_present=targets[place] == row["run__target_id"],
                directory=place[1],
                specification=specification if specification and _is_printable(specification) else None,
                duration_s=sweeps.get(row["run__sweep_id"], duration_s),
                started_at=row["run__started_at"],
            )
        )
    return found


def _read_directory(facts: Mapping[str, Any]) -> str:
    """Return the directory that a host reported; "" if it is not an absolute path of printable characters.

    People paste commands into a terminal, where a control character acts even between quotation marks.
    """
    directory = facts.get("directory")
    is_path = isinstance(directory, str) and directory.startswith("/") and directory.isprintable()
    return str(directory) if is_path else ""


def _is_printable(specification: RunSpecification) -> bool:
    return all(
        name.isprintable() and str(value).isprintable() for name, value in specification.parameters.items()
    )


def _read_newest_targets(places: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Return the target of the newest run in each directory of a host."""
    if not places:
        return {}
    hosts, directories = zip(*sorted(places), strict=True)
    rows = fetch_rows(
        "SELECT place.host_id, place.directory, newest.target_id"
        " FROM unnest(%s::bigint[], %s::text[]) AS place(host_id, directory) CROSS JOIN LATERAL ("
        "SELECT target_id FROM benchapp_run run JOIN benchapp_environment environment"
        " ON environment.id = environment_id WHERE run.host_id = place.host_id"
        " AND environment.facts ->> 'directory' = place.directory"
        " ORDER BY run.started_at DESC, run.id DESC LIMIT 1) newest",
        [list(hosts), list(directories)],
    )
    return {(host_id, directory): target_id for host_id, directory, target_id in rows}


def _read_sweep_durations(sweep_ids: set[Any]) -> dict[Any, float]:
    """Return the duration of the sweeps of profiles that are sweeps."""
    if not sweep_ids:
        return {}
    rows = (
        Run.objects.filter(sweep_id__in=sweep_ids, profile__in=_SWEEPING_PROFILES)
        .values("sweep_id")
        .annotate(first=Min("started_at"), last=Max("finished_at"))
        .values_list("sweep_id", "first", "last")
    )
    return {key: (last - first).total_seconds() for key, first, last in rows if last is not None}
