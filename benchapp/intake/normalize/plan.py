"""Convert one submission to database rows. Pure."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import orjson
from msgspec.structs import replace as replace_struct

from benchapp.catalog.metrics import CATALOG
from benchapp.fio import PARSER_VERSION, UnreadableOutput, read_output
from benchapp.fio.merging.directions import DIRECTIONS, merge_alike
from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.output import measure_length
from benchapp.fio.report import Direction, Document, Group, Note, Notes, Report, list_missing_clients
from benchapp.fio.workload import UNKNOWN_ORDER, WorkloadSpec, fit_text, list_directions_asked, read_workload
from benchapp.framework.times import format_utc_moment
from benchapp.intake.normalize.measurement import measurement_columns
from benchapp.intake.normalize.sender_context import (
    SenderContext,
    SubmissionSource,
    Unstorable,
    describe_unreadable,
    find_failure,
    parse_context,
    relabel,
)
from benchapp.intake.normalize.traces import RunTraces, parse_traces
from benchapp.intake.normalize.validity_inputs import RunContext, describe_other, read_run_context
from benchapp.intake.posts.envelope import BadEnvelope, SendingAgent, load_document
from benchapp.intake.posts.published_document import (
    MEASUREMENTS_MAXIMUM,
    Publication,
    ReportedMeasurement,
    ReportedRun,
    read_reported,
)
from benchapp.series.validity.rules import RunFailure, sort_codes
from benchapp.storage.rules.target_name import MeasuredTarget, name_target, unite_layouts
from benchapp.storage.write.hosts import canonical_json, environment_key, key_of, series_key

# Terse lines have the date of the text beside them.
_PRINTED_DATES: Final = ("normal", "terse")
_CLOCK_TOLERANCE: Final = timedelta(days=1)
_OLDEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
# More concurrent workloads are named by a digest: 20 000 jobs that each list the others would exhaust the memory.
_CONCURRENT_NAMED: Final = 8
# Of command, labels and warnings, which each run of a submission repeats: 40 KB may have 10 000 reports.
_REPEATED_BYTES_MAXIMUM: Final = 32 * 2**20
# Further options of a workload and their length: more than any job file has. Every series of the workload repeats them.
_OPTIONS_MAXIMUM: Final = 64
_OPTION_LENGTH: Final = 200
# The loop of the recipe is from 0 to 1000; its published limit does not apply to another number of files.
_SMALL_FILES: Final = ("gitlab-smallfiles", "1001")
_MEASURED: Final = ("read", "write", "trim", "mixed", "sync")


_UNKNOWN: Final = MeasuredTarget(None)


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """A row of Target. former_keys: of the targets that the same storage had before its name was known, best first.

    mapping_keys: those that only mappings of names distinguish from it. measured: what was opened, and is_other: not
    what the environment of the run describes.
    """

    key: bytes
    fields: Mapping[str, Any]
    former_keys: tuple[bytes, ...] = ()
    mapping_keys: frozenset[bytes] = frozenset()
    measured: MeasuredTarget = _UNKNOWN
    is_other: bool = False


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """One row of Measurement, with key and fields of its series.

    former_workload_key: where a number of jobs is unknown, which the number of those seen stood for.
    """

    series_key: bytes
    target: PlannedTarget
    workload_key: bytes
    workload: Mapping[str, Any]
    direction: str
    values: Mapping[str, Any]
    former_workload_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One row of Run with its measurements; target and environment by key and fields.

    target: of all measurements, or what they have in common.
    """

    source: SubmissionSource
    document: int
    target: PlannedTarget
    environment_key: bytes
    environment: Mapping[str, Any]
    values: Mapping[str, Any]
    measurements: tuple[PlannedMeasurement, ...]
    traces: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows of one submission."""

    source: SubmissionSource
    runs: tuple[PlannedRun, ...]
    agent: SendingAgent

    @property
    def failure(self) -> str:
        """Return why its first run that failed did, "" if none did."""
        return next((run.values["command"]["failure"] for run in self.runs if run.values["error"]), "")


@dataclass(frozen=True, slots=True)
class _Concurrent:
    """Workloads that ran together, with their counts. digest: of many, which are not named; computed once for all."""

    counts: Counter[str]
    total: int
    digest: str = ""

    def describe_others(self, own: str) -> str:
        """Name the other workloads; of many, their number and the digest."""
        if self.digest:
            return f"{self.total - 1} others of {self.digest}"
        counts = {workload: count - (workload == own) for workload, count in sorted(self.counts.items())}
        return ", ".join(f"{workload} × {count}" for workload, count in counts.items() if count)


def plan_submission(source: SubmissionSource) -> Plan:
    """Parse a submission and return its rows. Raises Unstorable."""
    sender = parse_context(source)
    try:
        report = read_output(sender.output, time_zone=sender.time_zone)
    except UnreadableOutput as error:
        raise Unstorable(error.code, describe_unreadable(error, sender.command)) from error
    traces = parse_traces(sender.logs, report)
    _check_repeated(sender, report)
    runs: list[PlannedRun] = []
    room = MEASUREMENTS_MAXIMUM
    for number in range(len(report.documents)):
        runs.append(_plan_run(source, sender, report, number, traces=traces, room=room))
        room -= len(runs[-1].measurements)
        if room < 0:
            raise Unstorable(
                "too-many-measurements",
                f"the result has more than {MEASUREMENTS_MAXIMUM} measurements: run fewer jobs at a time, or send each"
                " report separately",
            )
    return Plan(source, tuple(runs), sender.agent)


def _check_repeated(sender: SenderContext, report: Report) -> None:
    """Raise Unstorable if what each run of a submission repeats is too large for the number of its reports."""
    count = len(report.documents)
    warnings = [_plain_note(note) for note in report.warnings]
    size = len(orjson.dumps([_describe_command(sender, None), sender.labels, warnings]))
    if count > 1 and count * size > _REPEATED_BYTES_MAXIMUM:
        raise Unstorable(
            "too-many-reports",
            f"the body has {count} reports, whose runs would each repeat {size} bytes of command, labels and warnings"
            f" (at most {_REPEATED_BYTES_MAXIMUM // 2**20} MiB together): send each report separately",
        )


def _plan_run(
    source: SubmissionSource,
    sender: SenderContext,
    report: Report,
    number: int,
    *,
    traces: RunTraces,
    room: int,
) -> PlannedRun:
    """Return a run with at most one measurement more than there is room for."""
    document = report.documents[number]
    sender, stated = relabel(sender, source.changes.get(number, {}))
    environment = {**sender.environment, "fio_version": document.fio_version[:100] or None}
    starts = list(_list_starts(sender, document))
    known = [moment for moment in starts if _is_plausible(moment, source)]
    started_at = known[0] if known else source.received_at
    refused = [_refuse_time(moment) for moment in starts if not _is_plausible(moment, source)][:1]
    has_zone = document.format not in _PRINTED_DATES or sender.time_zone is not None
    finished_at = (document.finished_at if has_zone else None) or sender.finished_at or document.finished_at
    failure = find_failure(report, number, sender.command)
    # In a sweep, the load of the minute before is that of the run before.
    conditions = sender.conditions if sender.sweep_id is None else {**sender.conditions, "load_before": None}
    context = read_run_context(
        document, environment=environment, target=sender.target, conditions=conditions, failure=failure
    )
    targets = _plan_targets(source, sender, document)
    contexts = [
        describe_other(
            context, environment, target=each.fields, entry=next(filter(None, each.measured.entries))
        )
        if each.is_other
        else context
        for each in targets
    ]
    planned = _plan_measurements(
        source.scope,
        targets,
        document,
        contexts=contexts,
        stated_name=sender.target["target_name"] or "",
        traces=traces,
    )
    measurements = tuple(islice(planned, room + 1))
    values = {
        "profile": sender.profile or _find_profile(document),
        "sweep_id": sender.sweep_id,
        "labels": dict(sender.labels),
        "started_at": started_at,
        "started_at_is_known": bool(known),
        "finished_at": finished_at
        if finished_at and finished_at >= started_at and _is_plausible(finished_at, source)
        else None,
        "format": document.format,
        "fio_version": document.fio_version[:100],
        "command": _describe_command(sender, failure),
        "error": failure.error if failure else 0,
        "is_partial": document.is_partial,
        "warnings": [
            _plain_note(note) for note in (*refused, *_list_warnings(sender, report), *traces.warnings)
        ],
        "badges": _unite_badges(measurements, has_failed=failure is not None),
        "parser_version": PARSER_VERSION,
        "stated": stated,
    }
    return PlannedRun(
        source=source,
        document=number,
        target=_find_common(targets, sender),
        environment_key=environment_key(environment),
        environment=environment,
        values=values,
        measurements=measurements,
        traces=traces.traces,
    )


def _list_warnings(sender: SenderContext, report: Report) -> Iterator[Note]:
    """Yield the warnings of the reader, and the fio servers that fio names on its standard error alone."""
    yield from report.warnings
    notes = Notes()
    notes.add_missing_clients(list_missing_clients(str(sender.command.get("stderr") or "")))
    yield from (note for note in notes.list_all() if note not in report.warnings)


def _describe_command(sender: SenderContext, failure: RunFailure | None) -> dict[str, Any]:
    """Return the command, why it failed, and conditions and parameters of its profile, where they were sent."""
    command = dict(sender.command)
    if failure:
        command["failure"] = failure.reason
    if sender.conditions:
        command["conditions"] = sender.conditions
    if sender.parameters is not None:
        command["parameters"] = sender.parameters
    return command


def _find_profile(document: Document) -> str:
    """Return the profile that the document itself identifies, for senders without one; else ""."""
    name, files = _SMALL_FILES
    is_recipe = all(group.options.get("nrfiles", files) == files for group in document.groups)
    return name if document.format == "time" and is_recipe else ""


def _unite_badges(measurements: Sequence[PlannedMeasurement], *, has_failed: bool) -> list[str]:
    """Return the codes of all measurements; a failed job may have no measurement."""
    codes = [badge["code"] for measurement in measurements for badge in measurement.values["badges"]]
    return sort_codes([*codes, "failed-job"] if has_failed else codes)


def _list_starts(sender: SenderContext, document: Document) -> Iterator[datetime]:
    """Yield the start by fio, by the sender, and by what fio printed: the first plausible one counts."""
    printed = document.finished_at
    if printed is not None and document.format in _PRINTED_DATES:
        # By the clock of the host, in an assumed time zone: what the sender says goes before.
        printed -= measure_length(document)
    for moment in (document.started_at, sender.started_at, printed):
        if moment is not None:
            yield moment


def _is_plausible(moment: datetime, source: SubmissionSource) -> bool:
    """Return whether a clock may have shown a time: not before 2000, and at most a day after the receipt."""
    return _OLDEST <= moment <= source.received_at + _CLOCK_TOLERANCE


def _refuse_time(moment: datetime) -> Note:
    kind = "before 2000" if moment < _OLDEST else "more than a day after the server received the result"
    return Note(
        "clock-not-used", "", f"the start {format_utc_moment(moment)} is {kind}; check the clock of the host"
    )


def _plan_targets(source: SubmissionSource, sender: SenderContext, document: Document) -> list[PlannedTarget]:
    """Return the target of each group of jobs."""
    planned: dict[tuple[object, ...], PlannedTarget] = {}
    targets = []
    for group in document.groups:
        measured = name_target(
            group.options,
            # Of several directories, the first job uses the first.
            numjobs=group.numjobs or 1,
            client=group.hostname,
            opened=sender.targets,
            is_pool=source.scope.startswith("pool:"),
            mappings=source.mappings,
        )
        identity = (measured.name, measured.other_names, measured.mapping_names, *map(id, measured.entries))
        if identity not in planned:
            is_alone = len(document.groups) == 1
            planned[identity] = _plan_target(
                sender, measured, counts_volumes=is_alone or not measured.is_guess
            )
        targets.append(planned[identity])
    return targets


def _plan_target(sender: SenderContext, measured: MeasuredTarget, *, counts_volumes: bool) -> PlannedTarget:
    """Return the row of a target: what the sender states goes before what fio and the agent name."""
    given = sender.target
    layouts = [entry["layout"] for entry in measured.entries if entry]
    is_other = bool(layouts) and sender.targets[0]["layout"] not in layouts
    stated = given["target_name"]
    own_name = {"target_name": stated or measured.name}
    fields = _describe_layout(sender, measured.entries, counts_volumes=counts_volumes) | own_name
    names = (stated, None) if stated else (measured.name, *measured.other_names, None)
    key = key_of(fields)
    if sender.relabeled:
        # Only some runs of a series may be relabeled: it never goes on under another name.
        return PlannedTarget(key, fields, measured=measured, is_other=is_other)
    former_keys = dict.fromkeys(key_of({**given, "target_name": name}) for name in names)
    if is_other and all(layout == layouts[0] for layout in layouts):
        # As before volumes of several devices were counted.
        former_keys = dict.fromkeys([key_of({**given, **layouts[0], **own_name}), *former_keys])
    mapping_names = () if stated else measured.mapping_names
    mapping_keys = dict.fromkeys(key_of({**fields, "target_name": name}) for name in mapping_names)
    return PlannedTarget(
        key,
        fields,
        tuple(each for each in {**mapping_keys, **former_keys} if each != key),
        frozenset(mapping_keys),
        measured,
        is_other=is_other,
    )


def _describe_layout(
    sender: SenderContext, entries: Sequence[Mapping[str, Any] | None], *, counts_volumes: bool = True
) -> dict[str, Any]:
    """Return the fields of the storage that an agent describes by these entries; without any as the sender states."""
    layout = unite_layouts(entries, counts_volumes=counts_volumes) if entries else None
    # `target` is the layout of the first one, with what the user of the agent states.
    is_stated = layout is None or layout == sender.targets[0]["layout"]
    return {**sender.target, **({} if is_stated else layout or {}), **sender.relabeled}


def _find_common(targets: Sequence[PlannedTarget], sender: SenderContext) -> PlannedTarget:
    """Return the target of a run: the one of all groups, else the layout and the name that all share."""
    by_key = {target.key: target for target in targets}
    if len(by_key) == 1 and not targets[0].measured.is_guess:
        return targets[0]
    names = {target.fields["target_name"] for target in targets}
    name = names.pop() if len(names) == 1 else sender.target["target_name"]
    parts = {id(entry): entry for target in by_key.values() for entry in target.measured.entries}
    is_described = all(target.measured.entries for target in by_key.values())
    fields = _describe_layout(sender, tuple(parts.values()) if is_described else ()) | {"target_name": name}
    return PlannedTarget(key_of(fields), fields)


def _plan_measurements(
    scope: str,
    targets: Sequence[PlannedTarget],
    document: Document,
    *,
    contexts: Sequence[RunContext],
    stated_name: str,
    traces: RunTraces,
) -> Iterator[PlannedMeasurement]:
    specs = [read_workload(group) for group in document.groups]
    workloads = _list_workloads(document, specs)
    keys = [key_of(workload) for workload in workloads]
    former_keys = _list_former_keys(document, specs)
    shared = _find_shared(targets, keys) if stated_name else {}
    for group, spec, target, workload, workload_key, former_key, context in zip(
        document.groups, specs, targets, workloads, keys, former_keys, contexts, strict=True
    ):
        names = shared.get((target.key, workload_key), ()) if stated_name else target.measured.parts
        context = replace(context, target_name=target.fields["target_name"])
        if not stated_name and group.server_number:
            name = group.hostname or "fio's client"
            context = replace(context, targets=_list_servers(document, group), stated_name=name)
        elif len(names) > 1:
            context = replace(context, targets=tuple(sorted(names)), stated_name=stated_name)
        for direction in list_measured_directions(group, spec.rw):
            yield PlannedMeasurement(
                series_key=series_key(
                    scope=scope, target_key=target.key, workload_key=workload_key, direction=direction.name
                ),
                target=target,
                workload_key=workload_key,
                workload=workload,
                direction=direction.name,
                values=measurement_columns(
                    context,
                    group,
                    direction,
                    spec=spec,
                    steadiness=traces.find_steadiness(group, direction.name),
                ),
                former_workload_key=former_key,
            )


def _list_workloads(document: Document, specs: Sequence[WorkloadSpec]) -> list[dict[str, Any]]:
    """Return the fields of the workload of each group."""
    concurrent = _find_concurrent(document, specs)
    return [
        _workload_fields(group, spec, concurrent[_identify_server(group)])
        for group, spec in zip(document.groups, specs, strict=True)
    ]


def _list_former_keys(document: Document, specs: Sequence[WorkloadSpec]) -> Sequence[bytes | None]:
    """Return the keys of the workloads with the number of jobs seen where it is unknown; None if all are known."""
    if all(spec.numjobs for spec in specs):
        return [None] * len(specs)
    clones = {job.index: job.clones for job in document.jobs}
    former = [
        spec
        if spec.numjobs
        else replace(spec, numjobs=min(sum(clones[index] for index in group.jobs), INTEGER_MAXIMUM))
        for group, spec in zip(document.groups, specs, strict=True)
    ]
    return [key_of(workload) for workload in _list_workloads(document, former)]


def _list_servers(document: Document, group: Group) -> tuple[str, ...]:
    """Name the servers among which the output does not distinguish that of a group."""
    numbers = {each.server_number for each in document.groups if each.hostname == group.hostname}
    return tuple(f"server {number}" for number in sorted(numbers))


def _find_shared(
    targets: Sequence[PlannedTarget], workload_keys: Sequence[bytes]
) -> dict[tuple[bytes, bytes], set[str]]:
    """Return the names of what was opened that one series shares, by the keys of its target and workload."""
    shared: dict[tuple[bytes, bytes], set[str]] = defaultdict(set)
    for target, workload_key in zip(targets, workload_keys, strict=True):
        if target.measured.name:
            shared[target.key, workload_key].add(target.measured.name)
    return shared


def _workload_fields(group: Group, spec: WorkloadSpec, concurrent: _Concurrent) -> dict[str, Any]:
    options = bound_options(spec.extra)
    if group.options.get("time_based") in ("1", ""):
        # As configured: whether the runtime ended the run depends on its speed.
        options["time_based"] = "1"
    if concurrent.total > 1:
        # Concurrent jobs share the storage: such a measurement is only comparable with the same combination.
        options["beside"] = concurrent.describe_others(_describe_workload(spec))
    return {
        "rw": spec.rw,
        "block_size_bytes": spec.block_size_bytes,
        "block_size_text": spec.block_size_text,
        "iodepth": spec.iodepth,
        "numjobs": spec.numjobs,
        "file_size_bytes": spec.file_size_bytes,
        "file_size_text": spec.file_size_text,
        "is_direct": spec.is_direct,
        "engine": spec.engine,
        "read_share_percent": spec.read_share_percent,
        "runtime_s": spec.runtime_s,
        "options": options,
    }


def bound_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return at most 64 options, with at most 200 characters of each; the rest as their number and a digest of all.

    Options within these bounds are unchanged, so that they keep the key of their series.
    """
    names = sorted(options)
    bounded = {
        fit_text(name, _OPTION_LENGTH): fit_text(options[name], _OPTION_LENGTH)
        for name in names[:_OPTIONS_MAXIMUM]
    }
    if len(names) > _OPTIONS_MAXIMUM:
        digest = hashlib.sha256(canonical_json(options)).hexdigest()[:16]
        bounded["more options"] = f"{len(names) - _OPTIONS_MAXIMUM} of {digest}"
    return bounded


def _find_concurrent(
    document: Document, specs: Sequence[WorkloadSpec]
) -> dict[tuple[object, ...], _Concurrent]:
    """Return the workloads that ran together, by groupid and server."""
    counts: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
    for group, spec in zip(document.groups, specs, strict=True):
        counts[_identify_server(group)][_describe_workload(spec)] += 1
    return {key: _count_concurrent(workloads) for key, workloads in counts.items()}


def _identify_server(group: Group) -> tuple[object, ...]:
    return group.groupid, group.hostname, group.server_number


def _count_concurrent(counts: Counter[str]) -> _Concurrent:
    if len(counts) <= _CONCURRENT_NAMED:
        return _Concurrent(counts, counts.total())
    digest = hashlib.sha256(
        "\n".join(f"{workload} × {counts[workload]}" for workload in sorted(counts)).encode()
    )
    return _Concurrent(counts, counts.total(), digest.hexdigest()[:16])


def _describe_workload(spec: WorkloadSpec) -> str:
    size = spec.block_size_bytes if spec.block_size_bytes is not None else spec.block_size_text
    # As before patterns could be unknown: the text is part of the identity of series.
    return f"{spec.rw.removeprefix(UNKNOWN_ORDER)} {size} iodepth {spec.iodepth} numjobs {spec.numjobs}"


def list_measured_directions(group: Group, rw: str) -> tuple[Direction, ...]:
    """Return the directions with I/O, those that ran without any, and the configured ones of a failed group."""
    active = tuple(_list_active(group))
    if mix := list_mix(active):
        active += (merge_alike("mixed", mix, DIRECTIONS),)
    if active or not group.error:
        return active
    wanted = [name for name in ("read", "write", "trim") if name in rw] or ["read", "write"]
    return tuple(
        Direction(name, None, None, None, None, None, missing={"all": "job-failed"})  # type: ignore[arg-type]
        for name in wanted
    )


def list_mix(directions: Sequence[Direction]) -> tuple[Direction, ...]:
    """Return the reads and writes of a mix, whose total is a measurement; () without both, or if fio printed it."""
    parts = tuple(part for part in directions if part.name in ("read", "write"))
    return parts if len(parts) == 2 and all(part.name != "mixed" for part in directions) else ()


def _list_active(group: Group) -> Iterator[Direction]:
    # Without options, fio prints a run time only of what it did.
    asked = list_directions_asked(group.options) or _MEASURED
    for direction in group.directions:
        counts = (direction.total_ios, direction.io_bytes)
        if direction.name not in _MEASURED:
            continue
        if any(counts) or direction.elapsed_s is not None:
            yield direction
        elif 0 in counts and direction.runtime_s and direction.name in asked and not group.error:
            missing = dict.fromkeys(("latency", "percentiles"), "no-io")
            yield replace_struct(direction, iops=0.0, bandwidth_bytes_per_s=0.0, missing=missing)


def _plain_note(note: Note) -> dict[str, str]:
    return {"code": note.code, "where": note.where, "message": note.message}


FORMAT: Final = "reported"
BADGE: Final = "reported"
# Only workloads that are timed as a whole have it: its absence needs no reason.
_MAY_BE_ABSENT: Final = frozenset({"elapsed_s"})


def plan_reported(source: SubmissionSource) -> Plan:
    """Parse a submission of published numbers and return its rows. Raises Unstorable."""
    try:
        reported = read_reported(load_document(source.body))
    except BadEnvelope as error:
        raise Unstorable(error.code, str(error)) from error
    runs = tuple(
        _plan_reported_run(source, run, publication=reported.source, number=number)
        for number, run in enumerate(reported.runs)
    )
    return Plan(source, runs, SendingAgent())


def _plan_reported_run(
    source: SubmissionSource, run: ReportedRun, *, publication: Publication, number: int
) -> PlannedRun:
    run, stated = relabel(run, source.changes.get(number, {}))
    target = PlannedTarget(key_of(run.target), run.target)
    values = {
        "profile": run.profile,
        "sweep_id": None,
        "labels": dict(run.labels),
        "started_at": run.started_at,
        "started_at_is_known": True,
        "finished_at": None,
        "format": FORMAT,
        "fio_version": (run.environment.get("fio_version") or "")[:100],
        "command": {"source": publication.plain()},
        "error": 0,
        "is_partial": False,
        "warnings": [],
        "badges": [BADGE],
        "parser_version": PARSER_VERSION,
        "stated": stated,
    }
    return PlannedRun(
        source=source,
        document=number,
        target=target,
        environment_key=environment_key(run.environment),
        environment=run.environment,
        values=values,
        measurements=tuple(_plan_reported_measurements(source.scope, target, run, publication=publication)),
    )


def _plan_reported_measurements(
    scope: str, target: PlannedTarget, run: ReportedRun, *, publication: Publication
) -> Iterator[PlannedMeasurement]:
    for measurement in run.measurements:
        workload_key = key_of(measurement.workload)
        yield PlannedMeasurement(
            series_key=series_key(
                scope=scope,
                target_key=target.key,
                workload_key=workload_key,
                direction=measurement.direction,
            ),
            target=target,
            workload_key=workload_key,
            workload=measurement.workload,
            direction=measurement.direction,
            values=_make_values(measurement, publication),
        )


def _make_values(measurement: ReportedMeasurement, publication: Publication) -> dict[str, Any]:
    known = measurement.metrics
    absent = [name for name in CATALOG if name not in known and name not in _MAY_BE_ABSENT]
    return {
        **{name: known.get(name) for name in CATALOG},
        "job_name": _name_workload(measurement.workload),
        "error": 0,
        "latency_kind": "",
        "latency_stddev_ns": None,
        "total_ios": None,
        "io_bytes": None,
        "runtime_s": None,
        "clones": 1,
        "latency_bins": None,
        "percentiles": {},
        "missing": dict.fromkeys([*absent, "percentiles"], "not-reported"),
        "badges": [{"code": BADGE, "sentence": _describe_source(measurement, publication), "numbers": {}}],
    }


def _name_workload(workload: Mapping[str, Any]) -> str:
    """Name a measurement: "4k randread"."""
    size = workload["block_size_bytes"]
    units = ((2**20, "M"), (2**10, "k"))
    text = next((f"{size // factor}{unit}" for factor, unit in units if size and size % factor == 0), size)
    return f"{text or ''} {workload['rw']}".strip()


def _describe_source(measurement: ReportedMeasurement, publication: Publication) -> str:
    text = f"Published in “{publication.title}”, not measured here."
    return f"{text} Note: {measurement.note.rstrip('.')}." if measurement.note else text
