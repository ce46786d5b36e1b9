"""Runs as an agent posts them, and the tasks that workers run after them, by the clock of the story."""

import copy
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone

from benchapp import tasks
from benchapp.accounts.write.tokens import issue_token
from benchapp.intake.api import posts
from benchapp.intake.api.posts import Limits
from benchapp.models import Host, Notice, Scope
from tests.envelopes import pack_envelope, read_fio
from tests.factories import NOON
from tests.intake.api.test_posts import post


@contextmanager
def at_time(moment: datetime) -> Iterator[None]:
    """Set the clock of the server."""
    with mock.patch.object(timezone, "now", lambda: moment):
        yield


def silence_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tasks wake nobody: a story calls them in order."""
    monkeypatch.setattr(posts, "_LIMITS", Limits())
    for name in ("normalize", "judge", "notify"):
        monkeypatch.setattr(getattr(tasks, name), "delay_on_commit", lambda: None)


def tell_story(
    speeds: Sequence[Sequence[Mapping[str, float]]], *, step: timedelta, judged: Collection[int]
) -> list[tuple[int, str]]:
    """Post run after run of one host, and return the notices to subscriptions as (run, kind).

    speeds: of each run, as of `make_body`. judged: the runs after which workers do what they do.
    """
    with at_time(NOON - step):
        host = Host.objects.create(name="db-1")
        token = issue_token(scope=Scope.INGEST, host=host)[1]
    told: list[tuple[int, str]] = []
    for run, of_jobs in enumerate(speeds):
        with at_time(NOON + run * step + timedelta(minutes=1)):
            assert post(make_body(NOON + run * step, of_jobs), token).status == 202
            if run in judged:
                tasks.normalize()
                tasks.judge()
        new = Notice.objects.order_by("pk")[len(told) :].values_list("body__kind", flat=True)
        told += [(run, kind.removeprefix("incident.")) for kind in new]
    return told


def make_body(started_at: datetime, speeds: Sequence[Mapping[str, float]], *, kernel: str = "6.1.0") -> bytes:
    """Return an envelope with a job for each of `speeds`, which has the speed of each direction; usually 1."""
    printed = read_fio("16_randrw7030_json.out")
    report = json.loads(printed[printed.index("{") :])
    report["jobs"] = [copy.deepcopy(report["jobs"][0]) for _ in speeds]
    for number, (job, of) in enumerate(zip(report["jobs"], speeds, strict=True)):
        job["job options"]["iodepth"] = str(4 << number)
        for direction, speed in of.items():
            vary_speed(job[direction], speed)
    report["timestamp_ms"] = round(started_at.timestamp() * 1000) + 20_000
    report["timestamp"] = report["timestamp_ms"] // 1000
    del report["time"]
    return pack_envelope(
        started_at=started_at.isoformat(),
        finished_at=(started_at + timedelta(seconds=20)).isoformat(),
        fio_output=json.dumps(report),
        environment={"kernel": kernel, "cpu_count": 2},
    )


def vary_speed(entry: dict[str, Any], factor: float) -> None:
    """Make the direction of a job so many times as fast, with latencies to match."""
    for name in ("io_bytes", "io_kbytes", "bw_bytes", "bw", "total_ios"):
        entry[name] = round(entry[name] * factor)
    entry["iops"] *= factor
    for name in ("slat_ns", "clat_ns", "lat_ns"):
        for part in ("min", "max", "mean", "stddev"):
            entry[name][part] /= factor
    percentiles = entry["clat_ns"]["percentile"]
    for percent, value in percentiles.items():
        percentiles[percent] = round(value / factor)
