"""Every command of docs/clients.md, "Cookbook", gives the answer below it, from a server with planted data."""

import os
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from benchapp.models import Host, Scope, State
from tests.factories import (
    NOON,
    add_measurements,
    calculate_levels,
    make_change,
    make_environment,
    make_host,
    make_run,
    make_series,
    make_submission,
    make_target,
    make_token,
    make_workload,
)

TEXT = (Path(__file__).parent.parent / "docs" / "clients.md").read_text().partition("\n## Cookbook\n")[2]
RECIPES = re.findall(r"\n### (.+?)\n.*?```sh\n(.+?)\n```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
SWEEP = UUID("6f1cbb2e-9d3e-4a55-8d0a-222222222222")

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="the commands need curl and jq"
)


def plant() -> int:
    """Plant three hosts, the second with two block sizes, the last silent; return the id of the first series."""
    layouts = {
        "db-01": {"volume_type": "gp3", "volume_count": 4},
        "db-02": {"volume_type": "gp3", "volume_count": 4},
        "web-01": {"volume_type": "io2", "volume_count": 8},
    }
    medians = {"db-01": 1000.0, "db-02": 2000.0, "web-01": 500.0}
    series = {}
    for name, layout in layouts.items():
        host, target = make_host(name), make_target(**layout)
        series[name] = make_series(host=host, target=target)
        is_silent = name == "web-01"
        days = range(9, 4, -1) if is_silent else range(9, -1, -1)
        kernel = make_environment(kernel="5.15.0" if is_silent else "6.1.0")
        runs, values = [], []
        for day in days:
            is_last = day == 0
            facts = {}
            if is_last and name == "db-01":
                facts = {"sweep_id": SWEEP}
            if is_last and name == "db-02":
                facts = {"labels": {"branch": "main"}, "profile": "nightly"}
            runs.append(
                make_run(
                    host, target=target, environment=kernel, started_at=NOON - timedelta(days=day), **facts
                )
            )
            values.append(
                {
                    "iops": 750.0 if is_last and name == "db-01" else medians[name],
                    "latency_p99_ns": 3.4e6 if is_last else 2.1e6,
                }
            )
        add_measurements(series[name], runs, values)
        if name == "db-02":
            large = make_series(host=host, target=target, workload=make_workload(block_size_bytes=65536))
            values = [{"position": 1, "iops": 800.0, "latency_p99_ns": 9.0e6} for _ in runs]
            add_measurements(large, runs, values)
    calculate_levels()
    make_change(series["db-01"], at=NOON, before=1000.0, after=750.0)
    make_change(series["db-02"], at=NOON - timedelta(days=1), before=2000.0, after=1750.0)
    make_change(series["db-02"], at=NOON - timedelta(days=8), before=2000.0, after=1000.0)
    web = Host.objects.get(name="web-01")
    make_submission(
        web, state=State.REJECTED, reason_code="empty-output", reason="the output is empty", settled_at=NOON
    )
    web.schedule = [{"profile": "", "every_s": 86400, "splay_s": 0, "directory": "/"}]
    web.schedule_since_at = NOON - timedelta(days=30)
    web.save()
    return series["db-01"].pk


@pytest.fixture
def place(live_server, monkeypatch):
    """Return the environment of the commands."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(minutes=1))
    series = plant()
    _, token = make_token(Scope.READ)
    return {
        "BENCHAPP_URL": live_server.url,
        "BENCHAPP_TOKEN": token,
        "SERIES": str(series),
        "PATH": os.environ["PATH"],
    }


def test_every_command_gives_the_answer_below_it(place):
    wrong = {}
    for question, command, answer in RECIPES:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], env=place, capture_output=True, text=True, timeout=60
        )
        printed = done.stdout.replace("\r\n", "\n").strip("\n")
        if done.returncode or printed != answer.strip("\n"):
            wrong[question] = (done.returncode, printed, done.stderr)

    assert wrong == {}


def test_there_is_one_line_for_each_of_the_seventeen_questions():
    assert len(RECIPES) == 14 == len(re.findall(r"^### ", TEXT, re.MULTILINE))
    assert all("\n" not in command and command.count("curl") == 1 for _, command, _ in RECIPES)
