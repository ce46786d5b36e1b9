"""A small world of rows that fills every page."""

import random
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.urls import reverse
from django.utils import timezone

from benchapp.accounts.write.accounts import create_invitation
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.intake.normalize.series_lookup import recalculate_environments
from benchapp.layouts.texts import NotAnswerable, find_layout_answer
from benchapp.models import (
    WITHHELD,
    Channel,
    DetectionDryRun,
    EmailAddress,
    Environment,
    Host,
    Incident,
    IncidentEvent,
    Measurement,
    Notice,
    PlannedEvent,
    PlannedEventKind,
    Role,
    Run,
    SavedView,
    Scope,
    Series,
    State,
    Study,
    Subscription,
    Target,
    Trace,
    User,
    WantedSchedule,
)
from benchapp.notices.write.layout_answers import notify_layout_answers
from benchapp.notices.write.thresholds import store_present_violations
from benchapp.requests.write.wanted_schedules import ScheduleScope, save_wanted_schedule
from tests.envelopes import read_fio
from tests.factories import (
    calculate_levels,
    make_change,
    make_correction,
    make_detection_policy,
    make_detection_result,
    make_dry_run,
    make_environment,
    make_host,
    make_incident,
    make_measurement,
    make_price,
    make_request_policy,
    make_run,
    make_run_request,
    make_schedule_adoption,
    make_series,
    make_signed_link,
    make_submission,
    make_target,
    make_token,
    make_workload,
)
from tests.received_notices import make_subscription

PASSWORD = "correct horse battery"
HOSTILE = "<img src=x onerror=document.title='owned'>"
PERCENTILES = {"1": 87_600, "50": 198_000, "90": 310_000, "99": 447_488, "99.9": 583_000, "99.99": 727_000}


@dataclass(frozen=True)
class World:
    """Names and addresses of what is there."""

    admin: str
    run: str
    failed_run: str
    hostile_run: str
    hostile_series: str
    history: str
    host: str
    rejected: str
    invitation: str
    traced_run: str
    expired_run: str
    study: str
    shared: str
    incident: str
    moved_series: str
    subscription: str
    unconfirmed: str
    confirmation: str
    planned_event: str
    policy: str
    correction: str
    dry_run: str


def make_world() -> World:
    """Make a host with thirty runs of two workloads, a failed run, hostile names, uploads in every state."""
    admin = User.objects.create_user("ada", password=PASSWORD, role=Role.ADMIN)
    now = timezone.now()
    host = make_host(
        "db-01",
        agent_version="0.0.9",
        agent_installation="zipapp",
        last_seen_at=now,
        dropped_at=now,
        dropped_count=3,
    )
    make_token(host=host, label="enrolled", created_by=admin)
    make_token(Scope.READ, label="grafana", created_by=admin)
    make_host("cache-07", pool="cache")
    make_price(created_by=admin)
    make_signed_link(
        created_by=admin,
        url="/api/v1/charts/history.png?metrics=iops%2Clatency_p99_ns&q=host%3Adb-01&from=-90d&theme=dark",
    )
    make_signed_link(created_by=admin, revoked_at=timezone.now())
    make_price(instance_type="m5.4xlarge", per_hour=0.768)
    runs, history = _make_history(host)
    hostile_run, hostile_series = _make_hostile()
    rejected = _make_uploads(host)
    study = _make_study(admin)
    _make_saved_views(admin)
    incident, moved = _make_incidents(admin)
    calculate_levels(list(Series.objects.values_list("pk", flat=True)))
    _make_requests(Host.objects.get(name="db-09"), incident)
    _make_schedules(host)
    create_invitation(role=Role.VIEWER, created_by=admin)
    return World(
        admin="ada",
        run=reverse("run", args=[runs[-1].pk]),
        failed_run=reverse("run", args=[runs[20].pk]),
        hostile_run=reverse("run", args=[hostile_run.pk]),
        hostile_series=reverse("series", args=[hostile_series.pk]),
        history=reverse("series", args=[history.pk]),
        host=reverse("host", args=["db-01"]),
        rejected=reverse("upload", args=[rejected]),
        invitation=reverse("setup", args=[create_invitation(role=Role.ADMIN, created_by=admin)]),
        traced_run=reverse("run", args=[_make_traced_run().pk]),
        expired_run=reverse("run", args=[_make_expired_run().pk]),
        study=reverse("study", args=[study.pk]),
        shared=reverse("shared_study", args=[study.share_token]),
        incident=reverse("incident", args=[incident.pk]),
        moved_series=reverse("series", args=[moved.pk]),
        subscription=reverse("subscription", args=[_make_subscription(admin).pk]),
        unconfirmed=reverse("subscription", args=[_make_unconfirmed(admin).pk]),
        confirmation=reverse("confirm_address", args=["c" * 43]),
        planned_event=reverse("planned_event", args=[_make_planned_event(admin).pk]),
        # Of no series: other pages show the thresholds of the catalog.
        policy=reverse("detection_policy", args=[make_detection_policy(label="tier=none").pk]),
        correction=reverse("correction", args=[make_correction(is_due=False, done_count=1).pk]),
        dry_run=reverse("dry_run", args=[_make_finished_dry_run(moved).pk]),
    )


def _make_finished_dry_run(series: Series) -> DetectionDryRun:
    """Make a dry run with an incident that is added, and more of them than are listed."""
    added = {
        "scope": series.scope,
        "started_at": timezone.now().isoformat(),
        "metric": "iops",
        "relative": -0.035,
        "series": 3,
        "series_id": series.pk,
        "incident": None,
    }
    result = {
        "current": 5,
        "proposed": 1234,
        "added_count": 1230,
        "removed_count": 1,
        "added": [added],
        "removed": [added],
    }
    return make_dry_run(state="done", series_ids=[series.pk], series_count=1200, result=result)


def _make_planned_event(admin: User) -> PlannedEvent:
    """Make a maintenance that runs, an expected change to come with a long reason, and notes of charts."""
    now = timezone.now()
    EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.CHANGE,
            filter="pool:cache volume_type:gp3,io2 bs:4k iodepth:>=8",
            from_at=now + timedelta(days=2),
            to_at=now + timedelta(days=4),
            reason="The volumes of the cache pool move to a smaller type, a third of them each night",
        ),
        by=admin,
    )
    for begin_days, end_days, text in (
        (25, None, "moved to rack 7"),
        (18, 15, "backup of all volumes at night"),
    ):
        EVENTS.create(
            PlannedEvent(
                kind=PlannedEventKind.NOTE,
                filter="host:db-01,db-09",
                from_at=now - timedelta(days=begin_days),
                to_at=None if end_days is None else now - timedelta(days=end_days),
                reason=text,
            ),
            by=admin,
        )
    return EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.MAINTENANCE,
            filter="host:cache-*",
            from_at=now - timedelta(hours=1),
            to_at=now + timedelta(hours=3),
            reason="new disks",
        ),
        by=admin,
    )


def _make_unconfirmed(owner: User) -> Subscription:
    """Make a subscription of an address that nobody confirmed, with a link and a notice that was not sent."""
    now = timezone.now()
    subscription = make_subscription(
        owner, is_confirmed=False, address="storage-performance-on-call@lists.example.org"
    )
    EmailAddress.objects.create(
        owner=owner,
        address=subscription.address,
        asked_at=now,
        digest=sha256(b"c" * 43).digest(),
        expires_at=now + timedelta(days=1),
    )
    Notice.objects.create(
        subscription=subscription,
        key="incident 1: opened",
        state="dropped",
        body={"subject": "Regression, high: incident 1"},
        log=[{"at": now.isoformat(), "outcome": WITHHELD}],
        created_at=now - timedelta(days=1),
        not_before_at=now - timedelta(days=1),
    )
    return subscription


def _make_subscription(owner: User) -> Subscription:
    """Make a webhook that failed twice, with one notice that waits and one that arrived."""
    thresholds = ["p99 latency < 400 µs", "IOPS > 1"]
    webhook = make_subscription(
        owner,
        channel=Channel.WEBHOOK,
        filter="host:db-*",
        failures=2,
        metrics=["iops", "latency_p99_ns"],
        thresholds=thresholds,
        layout_question="iops=1",
    )
    store_present_violations(webhook, added=thresholds)
    notify_layout_answers(find_layout_answer, refusal=NotAnswerable)
    now = timezone.now()
    attempts = [{"at": now.isoformat(), "outcome": "answered 503"}, {"at": now.isoformat(), "outcome": ""}]
    for key, state in (("incident 1: opened", "waiting"), ("incident 2: opened", "sent")):
        body = {"subject": f"Regression, high: {key}"}
        times = {"created_at": now, "not_before_at": now}
        Notice.objects.create(
            subscription=webhook, key=key, state=state, body=body, log=attempts, attempts=2, **times
        )
    return webhook


def _make_history(host: Host) -> tuple[list[Run], Series]:
    chance = random.Random(1)
    target = make_target(
        volume_type="gp3", volume_size_bytes=500 * 2**30, volume_count=4, raid_level="0", filesystem="ext4"
    )
    environment = make_environment(kernel="6.1.0", cpu_count=8, memory_bytes=32 * 2**30)
    reads = make_series(host=host, target=target)
    writes = make_series(host=host, target=target, workload=make_workload(rw="randwrite"), direction="write")
    began = timezone.now() - timedelta(days=30)
    runs = []
    for day in range(30):
        is_failed = day == 20
        run = make_run(
            host,
            target=target,
            environment=environment,
            started_at=began + timedelta(days=day),
            error=5 if is_failed else 0,
            labels={"rack": "r12"},
            command={
                "argv": ["fio", "quick.fio"],
                "exit_status": int(is_failed),
                "stderr": "",
                "jobfile": "[global]",
            },
            warnings=[{"code": "short-run", "where": "job 0", "message": "The job ran 3 s of 60 s."}],
        )
        for series, level in ((reads, 33_000), (writes, 15_000)):
            iops = level * (1 + chance.gauss(0, 0.02))
            make_measurement(
                run,
                series,
                job_name=series.rw,
                error=5 if is_failed else 0,
                iops=iops,
                bandwidth_bytes_per_s=iops * 4096,
                latency_mean_ns=8e9 / iops,
                latency_p50_ns=198_000,
                latency_p95_ns=352_000,
                # One run in ten is forty times as slow: the range for which a log axis is offered.
                latency_p99_ns=447_488.0 * (40 if day % 10 == 9 else 1),
                latency_p99_9_ns=583_000,
                latency_max_ns=1_240_000,
                percentiles=PERCENTILES,
            )
        runs.append(run)
    return runs, reads


def _make_hostile() -> tuple[Run, Series]:
    host = make_host(HOSTILE)
    run = make_run(host, labels={HOSTILE: HOSTILE}, target=make_target(target_name=HOSTILE), profile=HOSTILE)
    series = make_series(host=host, target=run.target, workload=make_workload(iodepth=1))
    make_measurement(run, series, job_name=HOSTILE, iops=1200.0, percentiles=PERCENTILES)
    Measurement.objects.filter(run=run).update(missing={"latency": HOSTILE})
    return run, series


def _make_study(owner: User) -> Study:
    """Make a shared study with a picture of each kind that is drawn, and hostile words."""
    text = f"{HOSTILE}\n\n- **one**\n- [two](/runs/)\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    return Study.objects.create(
        title="Disks of db-01",
        text=text,
        owner=owner,
        share_token="s" * 43,
        panels=[
            {"kind": kind, "query": query, "title": title, "text": HOSTILE}
            for kind, query, title in (
                ("scaling", "q=host:db-01", "Scaling"),
                ("history", "q=host:db-01", HOSTILE),
                ("matrix", "q=host:db-01", "Matrix"),
                ("compare", "q=host:db-01&a=rw:randread&b=rw:randwrite", ""),
                ("layouts", "q=host:db-01&iops=20000&price_of=volumes", ""),
            )
        ],
    )


def _make_saved_views(owner: User) -> None:
    """Make a shared view, a private one of hostile words, one of somebody else and a deleted one."""
    other = User.objects.create(username="storage-performance-on-call", role=Role.EDITOR, password="!")
    query = "q=host:db-01"
    SavedView.objects.bulk_create(
        [
            SavedView(owner=owner, name="Volumes of db-01", kind="scaling", query=query, is_shared=True),
            SavedView(owner=owner, name=HOSTILE, kind="history", query=query),
            SavedView(
                owner=other, name=f"Patterns, {'by layout ' * 8}".strip(), kind="matrix", is_shared=True
            ),
            SavedView(owner=owner, name="Levels", kind="matrix", query=query, removed_at=timezone.now()),
        ]
    )


def _make_schedules(host: Host) -> None:
    """Want schedules of hosts without a pool, of which one refuses one; with hostile words."""
    every = {"every_s": 21600, "directory": f"/{HOSTILE}", "splay_s": 3600}
    quick = {"every_s": 86400, "directory": "/data", "parameters": {"runtime": 10}}
    for wanted in (
        WantedSchedule(profile="saturation", parameters={"rw": "randread"}, **every),
        WantedSchedule(profile="quick", **quick),
    ):
        save_wanted_schedule(ScheduleScope(), wanted, by=None)
    entry = {"profile": "quick", "every_s": 86400, "splay_s": 0, "directory": "/data", "is_from_server": True}
    host.schedule, host.schedule_since_at = [entry], timezone.now()
    host.save(update_fields=["schedule", "schedule_since_at"])
    make_schedule_adoption(host, problem=HOSTILE)


def _make_requests(host: Host, incident: Incident) -> None:
    """Let a host allow requests, and make one of each state for an incident; one has hostile words."""
    make_request_policy(host, quiet_hours=["08:00-18:00"])
    now = timezone.now()
    run = Run.objects.filter(host=host).order_by("-started_at", "-pk")[0]
    run.profile, run.command = "quick", {"parameters": {"runtime": 10}}
    run.save(update_fields=["profile", "command"])
    # All, so that it is no change of the environment. The key identifies the facts.
    for environment in Environment.objects.filter(facts={}):
        environment.key = sha256(b"/data" + bytes(environment.key)).digest()
        environment.facts = {"directory": "/data"}
        environment.save(update_fields=["key", "facts"])
    fields: list[dict[str, Any]] = [
        {"state": "pending", "reason": "load 9.1 exceeds 4.0"},
        {"state": "running", "started_at": now, "duration_s": 1e9, "parameters": {"runtime": 10}},
        {"state": "failed", "reason": HOSTILE, "directory": HOSTILE, "parameters": {"rw": HOSTILE}},
        {"state": "done", "id": run.submission_id},
        {"state": "pending"},
    ]
    for number, each in enumerate(fields):
        make_run_request(host, incident=incident, created_at=now - timedelta(minutes=number), **each)


def _make_incidents(owner: User) -> tuple[Incident, Series]:
    """Make an incident of three cells with a suspect, one of hostile words, one of noise and an improvement."""
    host = make_host("db-09")
    target = make_target(volume_type="gp3", volume_count=16, raid_level="0", stripe_count=16)
    moved = [_make_moved(host, target, depth) for depth in (1, 8, 32)]
    at = moved[0].last_at - timedelta(days=8)
    changes = [
        make_change(series, at=at, before=10_000.0 * place, after=8_500.0 * place)
        for place, series in enumerate(moved, 1)
    ]
    kernel = {"name": "kernel", "before": "5.15.0", "after": "6.1.0", "share": 1.0, "text": "the kernel"}
    told = {
        "title": "db-09: IOPS −15 % in 3 of 12 series, all with stripes 16",
        "severity": "high",
        "suspects": [kernel],
        "common_factors": [
            {"dimension": "stripe_count", "value": "16", "share": 1, "text": "only with 16 stripes (3 of 3)"}
        ],
    }
    incident = make_incident(changes=changes, **told)
    hostile = {"name": HOSTILE, "before": HOSTILE, "after": HOSTILE, "share": 0.5, "text": HOSTILE}
    make_incident(title=HOSTILE, suspects=[hostile], common_factors=[hostile], severity="low")
    make_incident(title="db-10: p99 latency +40 % in 1 of 4 series", relative=0.4, state="acknowledged")
    make_incident(title="db-11: IOPS +20 % in 4 of 4 series", relative=0.2, is_regression=False)
    IncidentEvent.objects.create(
        incident=incident,
        at=timezone.now(),
        by=owner,
        kind="commented",
        text=f"{HOSTILE} https://example.com/",
    )
    for status, series in zip(("steady", "noisy", "learning"), moved, strict=True):
        make_detection_result(series, status, spread=0.02, smallest_detectable_change=0.08, runs_needed=12)
    return incident, moved[0]


def _make_moved(host: Host, target: Target, iodepth: int) -> Series:
    chance = random.Random(iodepth)
    scale = 1 + [1, 8, 32].index(iodepth)
    values = [10_000 * scale * (1 if day < 31 else 0.85) * (1 + chance.gauss(0, 0.015)) for day in range(40)]
    began = timezone.now() - timedelta(days=40)
    workload = make_workload(iodepth=iodepth)
    series = make_series(
        values, host=host, target=target, workload=workload, start_at=began, step=timedelta(days=1)
    )
    # Upgraded on the day of the change.
    runs = Run.objects.filter(measurements__series=series, started_at__lt=began + timedelta(days=31))
    runs.update(environment=make_environment(kernel="5.15.0"))
    recalculate_environments([series.pk])
    return series


def _make_uploads(host: Host):
    now = timezone.now()
    reason = {"reason_code": "truncated-report", "reason": "the report ends in the middle of job 2 of 4"}
    rejected = make_submission(
        host, state=State.REJECTED, received_at=now, settled_at=now, attempts=1, **reason
    )
    make_submission(host, state=State.REJECTED, received_at=now, settled_at=now, **reason)
    make_submission(host, state=State.RECEIVED, received_at=now)
    return rejected.pk


def _make_traced_run() -> Run:
    """Make a run with its real output and a minute of reads and writes, which pause for four seconds."""
    host = make_host("db-02")
    output = f"{HOSTILE}\n{read_fio('83_multi_job_jsonplus.out')}".encode()
    run = make_run(host, submission=make_submission(host, body=output))
    for direction in ("read", "write"):
        workload = make_workload(rw="randrw", iodepth=32)
        series = make_series(host=host, target=run.target, workload=workload, direction=direction)
        make_measurement(run, series, job_name="randrw", iops=15_100.0, latency_p99_ns=447_488.0)
    for kind, level in (("iops", 15_100.0), ("bw", 61_849_600.0), ("lat", 529_800.0)):
        for direction, share in (("read", 1.0), ("write", 0.43)):
            _make_trace(run, kind, direction, level=level * share)
    return run


def _make_trace(run: Run, kind: str, direction: str, *, level: float) -> None:
    chance = random.Random(f"{kind} {direction}")
    seconds = range(1, 61)
    counts = [0 if 30 <= second < 34 else 1 for second in seconds]
    means = [
        level * (1.4 if second < 5 else 1) * (1 + chance.gauss(0, 0.01)) * count
        for second, count in zip(seconds, counts, strict=True)
    ]
    is_latency = kind == "lat"
    known = [mean if count else None for mean, count in zip(means, counts, strict=True)]
    Trace.objects.create(
        run=run,
        kind=kind,
        direction=direction,
        jobs=2,
        entries=sum(counts),
        bucket_s=1.0,
        buckets={
            "at_s": [float(second) for second in seconds],
            "mean": known if is_latency else means,
            "minimum": [mean and mean * 0.8 if is_latency else None for mean in known],
            "maximum": [mean and mean * 1.5 if is_latency else None for mean in known],
            "count": counts,
        },
    )


def _make_expired_run() -> Run:
    host = make_host("db-03")
    return make_run(host, submission=make_submission(host, body=None))
