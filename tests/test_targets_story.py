"""Drives of one host: each has its series, also in a database whose series mixed them."""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from benchapp import judge, tasks
from benchapp.catalog.grammar import parse_filter
from benchapp.fio import PARSER_VERSION
from benchapp.intake.normalize import plan
from benchapp.intake.normalize.batch import _settle, lock_sources, normalize_batch
from benchapp.intake.normalize.preview import Preview, preview_submission
from benchapp.intake.normalize.reparse import reparse_outdated
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import (
    Host,
    Incident,
    Kind,
    Level,
    Measurement,
    Notice,
    Role,
    Run,
    Series,
    Submission,
    Subscription,
)
from benchapp.models.filtering import match_runs
from benchapp.storage.actions import set_pool
from benchapp.storage.read.hosts import read_host
from benchapp.storage.read.patterns import read_host_patterns
from benchapp.storage.rules.target_name import MeasuredTarget
from tests.envelopes import make_envelope
from tests.factories import NOON, make_user
from tests.fio.outputs import read_bytes
from tests.pages import Page
from tests.stories import at_time, silence_queue
from tests.test_no_io_story import HANGING, IDLE, read_at

pytestmark = pytest.mark.django_db

STEP = timedelta(hours=6)
SDA, SDB, SDC = ({"filename": f"/dev/{name}"} for name in ("sda", "sdb", "sdc"))
UNNAMED = {"volume_type": "ssd"}


def make_report(run: int, jobs: list[tuple[Mapping[str, str], int]], *, concurrent: bool = False) -> str:
    """Return a report of jobs that differ in their place alone."""
    options = {
        "rw": "randread",
        "bs": "4k",
        "iodepth": "4",
        "ioengine": "libaio",
        "direct": "1",
        "runtime": "60",
    }
    return json.dumps(
        {
            "fio version": "fio-3.36",
            "timestamp_ms": round((NOON + run * STEP).timestamp() * 1000) + 61_000,
            "jobs": [
                {
                    "jobname": f"job{number}",
                    "groupid": 0 if concurrent else number,
                    "error": 0,
                    "elapsed": 61,
                    "job options": {**options, **place},
                    "read": read_at(iops),
                    "write": IDLE,
                    "trim": IDLE,
                }
                for number, (place, iops) in enumerate(jobs)
            ],
        }
    )


def submit(run: int, report: str, host: str = "db-1", **changes: Any) -> UUID:
    started_at = NOON + run * STEP
    body = make_envelope(started_at=started_at.isoformat(), finished_at=None, fio_output=report)
    body = body | {"target": UNNAMED} | changes
    with at_time(started_at + timedelta(minutes=2)):
        row = Host.objects.get_or_create(name=host)[0]
        return accept_submission(
            IncomingSubmission(row.pk, Kind.ENVELOPE, json.dumps(body).encode(), UUID(body["id"]))
        ).id


def post_drives(runs: int, *, host: str = "db-1", speeds: Mapping[str, int], start: int = 0) -> None:
    """Store runs that each measure some drives, one after the other."""
    for run in range(start, start + runs):
        jitter = run % 5 - 2
        jobs = [({"filename": f"/dev/{name}"}, iops + jitter) for name, iops in speeds.items()]
        submit(run, make_report(run, jobs), host)
    while normalize_batch().claimed:
        pass


@contextmanager
def before_names() -> Iterator[None]:
    """Store as before targets had names."""
    with mock.patch.object(plan, "name_target", lambda *_, **__: MeasuredTarget(None)):
        yield


def make_outdated() -> None:
    Submission.objects.update(parser_version=PARSER_VERSION - 1)


def count_points() -> dict[str | None, int]:
    """Return the number of points by the name of the target; series without points are left out."""
    return dict(
        Series.objects.filter(measurement_count__gt=0).values_list("target_name", "measurement_count")
    )


@pytest.mark.parametrize("concurrent", [False, True])
def test_drives_of_one_job_file_have_their_own_series(concurrent: bool) -> None:
    for run in range(7):
        submit(run, make_report(run, [(SDA, 500), (SDB, 200)], concurrent=concurrent))
    while normalize_batch().claimed:
        pass
    while judge.judge_due().series_ids:
        pass

    assert count_points() == {"sda": 7, "sdb": 7}
    levels = Level.objects.filter(metric="iops").values_list("series__target_name", "median")
    assert dict(levels) == {"sda": 500.0, "sdb": 200.0}
    assert set(Run.objects.values_list("target__target_name", flat=True)) == {None}
    # The other one loads the host, whichever it is.
    beside = "randread 4096 iodepth 4 numjobs 1 × 1"
    assert {series.options.get("beside") for series in Series.objects.all()} == (
        {beside} if concurrent else {None}
    )


def test_pages_show_neighbors_and_offsets_in_words_and_units(client: Client) -> None:
    drives = [(SDA | {"offset_increment": "128m"}, 500), (SDB, 200), (SDC, 100)]
    submit(0, make_report(0, drives, concurrent=True))
    normalize_batch()
    client.force_login(make_user())

    others = "random read 4k, QD 4 (2 jobs)"
    for address in ("/series/", f"/series/{Series.objects.get(target_name='sda').pk}/"):
        page = " ".join(client.get(address).content.decode().split())
        assert f"beside {others} · offset increment 128 MiB" in page
    assert f"<dt>beside</dt><dd>{others}</dd>" in page
    assert "134217728" not in page


def test_run_names_its_drives_in_title_layout_and_findings(client: Client) -> None:
    report = json.loads(make_report(0, [(SDA, 500), (SDB, 500)]))
    report["jobs"][1]["read"] = HANGING
    submit(0, json.dumps(report))
    normalize_batch()
    client.force_login(make_user())

    page = " ".join(client.get(f"/runs/{Run.objects.get().pk}/").content.decode().split())

    assert "<h1>db-1, sda, sdb: " in page
    assert "<dt>Names</dt><dd>sda, sdb</dd>" in page
    finding = "sdb did not answer. The values are 0."
    assert f'{finding}</span> <span class="muted">job1, sdb</span>' in page


def test_clones_of_a_job_are_one_target() -> None:
    place = {
        "directory": "/mnt/a",
        "filename_format": "$jobnum/$filenum",
        "unique_filename": "1",
        "numjobs": "3",
    }
    report = json.loads(make_report(0, [(place, 100)] * 3, concurrent=True))
    for job in report["jobs"]:
        job["jobname"] = "clones"
    submit(0, json.dumps(report))

    normalize_batch()

    assert list(Measurement.objects.values_list("series__target_name", "clones", "iops")) == [
        ("/mnt/a", 3, 300.0)
    ]
    assert Run.objects.get().target.target_name == "/mnt/a"


def test_agent_names_mount_points_and_describes_each_storage() -> None:
    targets = [
        {"path": "/data/x", "mount_point": "/data", "layout": {"filesystem": "xfs", "volume_type": "ssd"}},
        {
            "path": "/dev/sdb",
            "device": {"kernel_name": "sdb", "identifier": "wwn-0x5", "class": "hdd"},
            "layout": {"volume_type": "hdd"},
        },
    ]
    jobs = [({"filename": "/data/x/1"}, 900), (SDB, 200)]
    submit(0, make_report(0, jobs), targets=targets, target={"filesystem": "xfs", "instance_type": "m5"})

    normalize_batch()

    columns = ("target_name", "filesystem", "volume_type", "instance_type")
    assert sorted(Series.objects.values_list(*columns)) == [
        ("/data", "xfs", None, "m5"),
        ("wwn-0x5", None, "hdd", "m5"),
    ]
    assert Run.objects.get().target.filesystem is None


def describe_drive(name: str, size_bytes: int, volume_type: str = "ssd") -> dict[str, Any]:
    """Return what an agent sends about a drive."""
    layout = {"volume_type": volume_type, "volume_count": 1, "volume_size_bytes": size_bytes}
    return {"path": f"/dev/{name}", "device": {"kernel_name": name, "class": "ssd"}, "layout": layout}


DRIVES = [describe_drive("sda", 100), describe_drive("sdb", 100), describe_drive("sdc", 200)]
LAYOUT = ("target_name", "volume_count", "volume_size_bytes", "volume_type")


def list_layouts() -> list[tuple[Any, ...]]:
    rows = Series.objects.filter(measurement_count__gt=0).order_by("target_name")
    return list(rows.values_list(*LAYOUT))


def list_run_layout() -> tuple[Any, ...]:
    return Run.objects.values_list(*(f"target__{name}" for name in LAYOUT)).latest("pk")


@pytest.mark.parametrize(
    ("filename", "series"),
    [
        ("/dev/sda", ("sda", 1, 100, "ssd")),
        ("/dev/sda:/dev/sdb", ("sda, sdb", 2, 100, "ssd")),
        ("/dev/sdb:/dev/sdc", ("sdb, sdc", 2, None, "ssd")),
        ("/dev/sda:/dev/sdb:/dev/sdc", ("sda, sdb, sdc", 3, None, "ssd")),
        # The agent knows nothing of it.
        ("/dev/sda:/dev/sdx", ("sda, sdx", None, None, None)),
    ],
)
def test_job_on_several_drives_counts_them_and_keeps_what_they_share(
    filename: str, series: tuple[Any, ...]
) -> None:
    report = make_report(0, [({"filename": filename}, 500)])

    submit(0, report, target=DRIVES[0]["layout"], targets=DRIVES)
    normalize_batch()

    assert list_layouts() == [series]
    assert list_run_layout() == series


def test_run_of_several_jobs_counts_the_drives_of_all() -> None:
    report = make_report(0, [(SDA, 500), (SDC, 200)])

    submit(0, report, target=DRIVES[0]["layout"], targets=[DRIVES[0], DRIVES[2]])
    normalize_batch()

    assert list_layouts() == [("sda", 1, 100, "ssd"), ("sdc", 1, 200, "ssd")]
    assert list_run_layout() == (None, 2, None, "ssd")
    found = ("volumes:1", "volumes:2", "target:sdc", "volumes:3")
    assert [Run.objects.filter(match_runs(parse_filter(each))).count() for each in found] == [1, 1, 1, 0]


@pytest.mark.parametrize(("jobs", "volumes"), [(1, 2), (2, None)])
def test_text_which_names_no_files_has_the_drives_of_the_run_if_it_has_one_job(
    jobs: int, volumes: int | None
) -> None:
    text = read_bytes(
        "generated/01_normal.out" if jobs == 1 else "generated/81_multi_job_normal.out"
    ).decode()

    submit(0, text, target=DRIVES[0]["layout"], targets=[DRIVES[0], DRIVES[2]])
    normalize_batch()

    assert set(list_layouts()) == {(None, volumes, None, "ssd")}
    assert list_run_layout() == (None, 2, None, "ssd")


def test_series_of_several_drives_goes_on_when_they_are_counted() -> None:
    before = mock.patch.object(plan, "unite_layouts", lambda entries, **_: entries[0]["layout"])
    several = {"filename": "/dev/sdb:/dev/sdc"}
    for filename, targets in (("/dev/sda:/dev/sdb", DRIVES), ("/dev/sdb:/dev/sda", DRIVES[:2])):
        with before:
            submit(
                0,
                make_report(0, [({"filename": filename}, 500)]),
                targets=targets,
                target=DRIVES[0]["layout"],
            )
            normalize_batch()
    (series,) = Series.objects.all()
    assert (series.volume_count, series.measurement_count) == (1, 2)

    make_outdated()
    while reparse_outdated():
        pass
    submit(1, make_report(1, [(several, 500)]), targets=DRIVES, target=DRIVES[0]["layout"])
    normalize_batch()

    assert list_layouts() == [("sda, sdb", 2, 100, "ssd"), ("sdb, sdc", 2, None, "ssd")]
    assert Series.objects.get(target_name="sda, sdb").pk == series.pk


def test_series_of_alike_drives_that_are_not_the_first_goes_on() -> None:
    targets = [DRIVES[2], DRIVES[0], DRIVES[1]]
    report = make_report(0, [({"filename": "/dev/sda:/dev/sdb"}, 500)])
    with mock.patch.object(plan, "unite_layouts", lambda entries, **_: entries[0]["layout"]):
        submit(0, report, targets=targets, target=DRIVES[2]["layout"])
        normalize_batch()
    series = Series.objects.get()
    assert list_layouts() == [("sda, sdb", 1, 100, "ssd")]

    make_outdated()
    reparse_outdated()

    assert list_layouts() == [("sda, sdb", 2, 100, "ssd")]
    assert Series.objects.get(measurement_count=1).pk == series.pk


def test_pool_names_raw_devices_by_the_kernel() -> None:
    device = {"kernel_name": "sdb", "class": "hdd"}
    for host in ("db-1", "db-2"):
        Host.objects.create(name=host, pool="db")
        entry = {"path": "/dev/sdb", "device": device | {"identifier": f"wwn-{host}"}}
        submit(0, make_report(0, [(SDB, 200)]), host, targets=[entry])

    normalize_batch()

    assert count_points() == {"sdb": 2}


def test_series_of_a_host_that_joins_a_pool_goes_on_under_the_name_of_the_kernel() -> None:
    entry = {"path": "/dev/sdb", "device": {"kernel_name": "sdb", "identifier": "wwn-1", "class": "hdd"}}
    submit(0, make_report(0, [(SDB, 200)]), targets=[entry])
    normalize_batch()
    assert count_points() == {"wwn-1": 1}

    set_pool("db-1", "db")
    submit(1, make_report(1, [(SDB, 200)]), targets=[entry])
    normalize_batch()

    assert count_points() == {"sdb": 2}


def test_history_named_by_serial_joins_that_of_a_pool_without_a_new_result() -> None:
    device = {"kernel_name": "sdb", "class": "hdd"}
    for host in ("db-1", "db-2"):
        entry = {"path": "/dev/sdb", "device": device | {"identifier": f"wwn-{host}"}}
        submit(0, make_report(0, [(SDB, 200)]), host, targets=[entry])
    normalize_batch()

    set_pool("db-1", "db")
    set_pool("db-2", "db")
    while reparse_outdated():
        pass

    assert count_points() == {"sdb": 2}


def test_series_of_an_older_agent_goes_on_under_the_name_that_the_newer_one_gives() -> None:
    submit(0, make_report(0, [({"directory": "/data/bench"}, 200)]))
    normalize_batch()
    series = Series.objects.get()
    assert series.target_name == "/data/bench"

    entry = {"path": "/data/bench", "mount_point": "/data", "layout": UNNAMED}
    submit(1, make_report(1, [({"directory": "/data/bench"}, 200)]), targets=[entry])
    submit(2, make_report(2, [({"directory": "/data/bench"}, 200)]))
    normalize_batch()
    make_outdated()
    assert reparse_outdated() == 3

    assert count_points() == {"/data": 3}
    assert Series.objects.get().pk == series.pk


def test_name_that_the_sender_gives_goes_before_and_continues_the_series() -> None:
    submit(0, make_report(0, [({}, 200)]))
    normalize_batch()
    assert count_points() == {None: 1}

    submit(1, make_report(1, [({}, 200)]), target=UNNAMED | {"name": "scratch"})
    normalize_batch()
    make_outdated()
    reparse_outdated()

    assert count_points() == {"scratch": 2}


def test_mixed_series_is_split_by_drive_and_an_unmixed_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    silence_queue(monkeypatch)
    Subscription.objects.create(owner=make_user(), channel="webhook", address="http://127.0.0.1:9/")
    with before_names():
        post_drives(30, speeds={"sda": 500, "sdb": 480, "sdc": 200})
        post_drives(20, host="db-2", speeds={"nvme0n1": 9000})
        post_drives(12, host="db-2", speeds={"nvme0n1": 5000}, start=20)
    with at_time(NOON + 32 * STEP):
        tasks.judge()
        mixed, unmixed = Series.objects.get(scope="host:db-1"), Series.objects.get(scope="host:db-2")
        incident = Incident.objects.get(scope="host:db-2")
        changes = set(unmixed.changes.values_list("pk", "state", "incident"))
        notices = Notice.objects.count()
        make_outdated()
        while reparse_outdated():
            pass
        assert set(Series.objects.filter(judging_is_due=True).values_list("is_reread", flat=True)) == {True}
        tasks.judge()

    assert set(Series.objects.filter(scope="host:db-1").values_list("target_name", "measurement_count")) == {
        ("sda", 30),
        ("sdb", 30),
        ("sdc", 30),
    }
    assert Series.objects.get(pk=mixed.pk).target_name == "sda"
    levels = Level.objects.filter(metric="iops", series__scope="host:db-1")
    assert dict(levels.values_list("series__target_name", "median")) == {
        "sda": 500.0,
        "sdb": 480.0,
        "sdc": 200.0,
    }
    again = Series.objects.get(scope="host:db-2", measurement_count__gt=0)
    assert (again.pk, again.target_name, again.measurement_count) == (unmixed.pk, "nvme0n1", 32)
    assert set(again.changes.values_list("pk", "state", "incident")) == changes
    assert Incident.objects.get(scope="host:db-2").pk == incident.pk
    assert Notice.objects.count() == notices


def test_drop_of_one_of_three_drives_is_found_when_history_is_read_again_without_a_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence_queue(monkeypatch)
    Subscription.objects.create(owner=make_user(), channel="webhook", address="http://127.0.0.1:9/")
    with before_names():
        post_drives(24, speeds={"sda": 500, "sdb": 480, "sdc": 200})
        post_drives(10, speeds={"sda": 500, "sdb": 480, "sdc": 80}, start=24)
    with at_time(NOON + 34 * STEP):
        tasks.judge()
        assert not Incident.objects.exists()
        make_outdated()
        while reparse_outdated():
            pass
        tasks.judge()

        incident = Incident.objects.get()
        assert {change.series.target_name for change in incident.changes.select_related("series")} == {"sdc"}
        assert not Notice.objects.exists()

    # A drop in results that come afterwards is news.
    post_drives(10, speeds={"sda": 100, "sdb": 480, "sdc": 80}, start=34)
    with at_time(NOON + 44 * STEP):
        tasks.judge()
    assert set(Notice.objects.values_list("incident__changes__series__target_name", flat=True)) == {"sda"}


def test_slow_drive_is_named_in_the_title_and_compared_with_other_hosts(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence_queue(monkeypatch)
    post_drives(34, host="db-2", speeds={"sdx": 500, "sdz": 400})
    post_drives(34, host="db-3", speeds={"sdy": 450})
    post_drives(24, speeds={"sda": 500, "sdb": 480, "sdc": 500})
    post_drives(10, speeds={"sda": 500, "sdb": 480, "sdc": 80}, start=24)
    client.force_login(make_user())
    with at_time(NOON + 34 * STEP):
        tasks.judge()
        page = " ".join(client.get("/hosts/db-1/").content.decode().split())
        incident = Incident.objects.get()
        shown = " ".join(client.get(f"/incidents/{incident.pk}/").content.decode().split())
        (series,) = Series.objects.filter(target_name="sdc")
        history = client.get(f"/series/{series.pk}/").content.decode()

    assert incident.title.startswith(
        "db-1, sdc: IOPS −84 % in 1 of 3 series, only this host (2 peers with the same"
    )
    assert "4k random read IOPS of db-1, sdc down 84 %" in shown
    assert "Target sdc only." in shown
    assert "4k random read on db-1, sdc: 80.0 IOPS since" in history
    # Drives are no peers, hosts are: the median of 500 and 400 IOPS, and 450 IOPS.
    assert "Random read · sdc is 82 % below the median of 2 peers." in page
    assert "Compare the 3 targets of this host" in page


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_what_is_split_is_listed_by_the_command_and_in_the_audit_record(
    arguments: tuple[str, ...], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with before_names():
        post_drives(2, speeds={"sda": 500, "sdb": 480})
        post_drives(1, host="db-2", speeds={"sda": 500})

    call_command("renormalize", *arguments)

    printed = capsys.readouterr().out
    would = "would be" if arguments else "are"
    assert f"series that {would} named by their target: 2; split, as they mixed targets: 1" in printed
    assert "host:db-1, 4k random read" in printed
    assert ": sda, sdb" in printed
    names = {None} if arguments else {"sda", "sdb"}
    assert set(Series.objects.values_list("target_name", flat=True)) == names
    client.force_login(make_user(Role.ADMIN))
    page = Page(client.get("/audit/")).words
    assert ("4k random read · QD 4 × 1 job · ≤ 60 s on db-1, sdb" in page) == (not arguments)


@pytest.mark.django_db(transaction=True)
def test_two_workers_name_one_series_once() -> None:
    with before_names():
        post_drives(1, speeds={"sda": 500})
    unnamed = Series.objects.get()
    ids = [submit(1, make_report(1, [(place, 500)])) for place in (SDA, SDB, SDA, SDC)]
    begun, failures = threading.Barrier(len(ids)), []

    def work(submission_id: UUID) -> None:
        try:
            begun.wait(timeout=60)
            _settle([submission_id])
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=[each]) for each in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)

    assert failures == []
    points = count_points()
    assert (points.pop(Series.objects.get(pk=unnamed.pk).target_name) >= 2, sum(points.values()) <= 3) == (
        True,
        True,
    )
    assert set(Series.objects.values_list("target_name", flat=True)) == {"sda", "sdb", "sdc"}
    assert Series.objects.count() == 3
    assert Measurement.objects.count() == 5


@pytest.fixture
def benchfio(tmp_path: Path) -> Path:
    """Make a tree of bench-fio: a folder for each drive, with one for each block size."""
    for drive, filename in (("NVME", "/dev/nvme0n1"), ("SATA", "/dev/sda"), ("RAID", "/dev/md0")):
        for size in ("4k", "64k"):
            folder = tmp_path / "benchfio" / drive / size
            folder.mkdir(parents=True)
            for depth in ("1", "8", "32"):
                place = {"filename": filename, "bs": size, "iodepth": depth}
                (folder / f"randread-{depth}-1.json").write_text(make_report(0, [(place, 500)]))
    return tmp_path / "benchfio"


def import_tree(place: Path, *arguments: str) -> None:
    call_command("import", str(place), "--host", "lab1", "--create-host", "--quiet", *arguments)


def test_drives_of_an_imported_tree_have_their_own_series(benchfio: Path) -> None:
    import_tree(benchfio)

    names = Counter(Series.objects.values_list("target_name", flat=True))
    assert names == {"nvme0n1": 6, "sda": 6, "md0": 6}
    assert set(Series.objects.values_list("measurement_count", flat=True)) == {1}


def test_folders_of_an_imported_tree_can_name_the_targets(benchfio: Path) -> None:
    import_tree(benchfio, "--pattern", "{name}/{bs}/*")

    assert Counter(Series.objects.values_list("target_name", flat=True)) == {"NVME": 6, "SATA": 6, "RAID": 6}


def upload_tree(place: Path, **fields: str) -> list[dict[str, Any]]:
    """Send the files as the script of the page does, one by one with their folder; return the results."""
    Host.objects.get_or_create(name="lab1")
    client = Client(headers={"Accept": "application/json"})
    client.force_login(make_user(Role.EDITOR))
    results = []
    for path in sorted(place.rglob("*.json")):
        folder = path.parent.relative_to(place.parent).as_posix()
        with path.open("rb") as file:
            answer = client.post("/uploads/add", {"host": "lab1", "folder": folder, "file": file, **fields})
        results += answer.json()["files"]
    return results


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("", ["nvme0n1", "sda", "md0"]), ("{name}/{bs}/*", ["NVME", "SATA", "RAID"])],
)
def test_drives_of_an_uploaded_tree_have_their_own_series(
    pattern: str, names: list[str], benchfio: Path
) -> None:
    previewed = upload_tree(benchfio, name_pattern=pattern, do="preview")
    uploaded = upload_tree(benchfio, name_pattern=pattern)
    while normalize_batch().claimed:
        pass

    assert Counter(row["series"][0]["title"].split(" · ")[-1] for row in previewed) == dict.fromkeys(names, 6)
    assert {row["status"] for row in uploaded} == {202}
    assert Counter(Series.objects.values_list("target_name", flat=True)) == dict.fromkeys(names, 6)


def test_preview_names_the_targets_that_a_file_mixes_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "raid.json").write_text(make_report(0, [({"filename": "/dev/sda:/dev/sdb"}, 500)]))

    (row,) = upload_tree(tmp_path, do="preview")

    assert row["series"][0]["mixing"].startswith("The job opened 2 targets: sda, sdb.")
    assert "map names in the settings of the host" in row["series"][0]["mixing"]


def test_file_whose_folder_does_not_match_is_rejected(
    benchfio: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call_command("import", str(benchfio), "--host", "lab1", "--create-host", "--pattern", "{name}/old/*")

    assert "file-unknown: 18 files" in capsys.readouterr().out
    assert not Series.objects.exists()


def read_sentences() -> set[str]:
    rows = Measurement.objects.values_list("badges", flat=True)
    return {badge["sentence"] for badges in rows for badge in badges if badge["code"] == "several-targets"}


@pytest.mark.parametrize(
    ("places", "name", "sentences"),
    [
        (["/dev/sda", "/dev/sdb"], None, set()),
        (
            ["/dev/sda:/dev/sdb"],
            None,
            {"The job opened 2 targets: sda, sdb. The values are of all together."},
        ),
        # A name of the sender accepts the sum.
        (["/dev/sda:/dev/sdb"], "jbod", set()),
        (["/mnt/a/1:/mnt/a/2"], None, set()),
        (
            ["/dev/sda", "/dev/sdb"],
            "disk",
            {"2 targets have the name disk and one series: sda, sdb. Its level may be that of none."},
        ),
        (["/dev/sda", "/dev/sda"], "disk", set()),
    ],
)
def test_values_of_several_targets_are_marked(
    places: list[str], name: str | None, sentences: set[str]
) -> None:
    submit(
        0, make_report(0, [({"filename": place}, 500) for place in places]), target=UNNAMED | {"name": name}
    )

    normalize_batch()

    assert read_sentences() == sentences


def test_servers_that_a_text_does_not_tell_apart_are_marked() -> None:
    submit(0, read_bytes("generated/63_client_two_normal.out").decode())
    normalize_batch()

    assert read_sentences() == {
        "2 targets have the name vm and one series: server 1, server 2. Its level may be that of none."
    }
    reads = Measurement.objects.filter(series__direction="read")
    assert sorted(reads.values_list("series__target_name", "iops")) == [("vm", 11725), ("vm", 13502)]


def test_servers_of_one_host_are_told_apart_by_their_ports_in_json() -> None:
    submit(0, read_bytes("generated/62_client_two_json.out").decode())
    normalize_batch()

    named = Series.objects.filter(direction="read").values_list("target_name", flat=True)
    assert sorted(name.split("/")[0] for name in named) == ["127.0.0.1:", "127.0.0.1:8766:"]
    assert read_sentences() == set()


def test_series_of_different_workloads_are_not_mixed_by_one_name() -> None:
    jobs = [(SDA, 500), (SDB | {"iodepth": "8"}, 500)]
    submit(0, make_report(0, jobs), target=UNNAMED | {"name": "disk"})

    normalize_batch()

    assert read_sentences() == set()


def test_mixed_targets_are_named_on_the_pages_of_run_and_series(client: Client) -> None:
    submit(0, make_report(0, [(SDA, 500), (SDB, 200)]), target=UNNAMED | {"name": "disk"})
    normalize_batch()
    client.force_login(make_user())

    for address in (f"/runs/{Run.objects.get().pk}/", f"/series/{Series.objects.get().pk}/"):
        page = " ".join(client.get(address).content.decode().split())
        assert "2 targets have the name disk and one series: sda, sdb." in page
    assert "Measure each target by a job without a target name" in page


def test_import_lists_what_mixes_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raid.json").write_text(make_report(0, [({"filename": "/dev/sda:/dev/sdb"}, 500)]))

    call_command("import", str(tmp_path), "--host", "lab1", "--create-host")

    printed = capsys.readouterr().out
    assert "stored, but several targets share a value or a series: 1 file" in printed
    assert "The job opened 2 targets: sda, sdb." in printed
    assert "map names in the settings of the host" in printed


def test_memory_of_another_target_is_marked_there_alone() -> None:
    targets = [
        {"path": "/data", "mount_point": "/data", "layout": {"filesystem": "xfs"}},
        {
            "path": "/tmp",
            "mount_point": "/tmp",
            "layout": {"filesystem": "tmpfs"},
            "memory_filesystem": "tmpfs",
        },
    ]
    jobs = [({"directory": "/data"}, 500), ({"directory": "/tmp"}, 90_000)]
    submit(0, make_report(0, jobs), targets=targets, target={"filesystem": "xfs"})

    normalize_batch()

    marked = {
        row.series.target_name: any(badge["code"] == "memory-filesystem" for badge in row.badges)
        for row in Measurement.objects.select_related("series")
    }
    assert marked == {"/data": False, "/tmp": True}


def test_scaling_colored_by_target_shows_all_drives_whatever_their_type(client: Client) -> None:
    for drive, kind in (("nvme0n1", "ssd"), ("sda", "ssd"), ("md0", "raid")):
        for depth, iops in (("1", 100), ("8", 600), ("32", 900)):
            place = {"filename": f"/dev/{drive}", "iodepth": depth}
            submit(0, make_report(0, [(place, iops)]), target={"volume_type": kind})
    while normalize_batch().claimed:
        pass
    while judge.judge_due().series_ids:
        pass
    client.force_login(make_user())

    answer = client.get("/api/v1/scaling?x=iodepth&color=target").json()

    assert {cell["color"] for cell in answer["cells"]} == {"nvme0n1", "sda", "md0"}
    assert (answer["fixed"], answer["mixed"]) == ([], [])


def test_drives_are_named_where_a_run_measured_several(client: Client) -> None:
    submit(0, make_report(0, [(SDA, 500), (SDB, 200)]))
    submit(1, make_report(1, [(SDC, 300)]))
    normalize_batch()
    client.force_login(make_user())

    for address in ("/runs/", f"/runs/{Run.objects.order_by('started_at')[0].pk}/"):
        page = client.get(address).content.decode()
        assert page.count("· sda</a>") == page.count("· sdb</a>") == 1
        # The layout of the other run has its name.
        assert "· sdc</a>" not in page


@pytest.mark.parametrize(("text", "found"), [("sda", [0]), ("sd*", [1, 0]), ("sdc", [1]), ("sdd", [])])
def test_runs_are_found_by_each_of_their_targets(text: str, found: list[int], client: Client) -> None:
    submit(0, make_report(0, [(SDA, 500), (SDB, 200)]))
    submit(1, make_report(1, [(SDC, 300)]))
    normalize_batch()
    client.force_login(make_user())

    runs = client.get("/api/v1/runs", {"q": f"target:{text}"}).json()["runs"]

    first = Run.objects.order_by("started_at")[0].pk
    assert [run["id"] - first for run in runs] == found


def test_page_of_a_host_leads_to_the_comparison_of_its_drives(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence_queue(monkeypatch)
    post_drives(6, speeds={"sda": 500, "sdb": 480, "sdc": 200})
    with at_time(NOON + 6 * STEP):
        tasks.judge()
        client.force_login(make_user())
        page = client.get("/hosts/db-1/").content.decode()
        (address,) = re.findall(r'<a href="([^"]*)">Compare the 3 targets', page)

        matrix = client.get(unescape(address)).content.decode()

    assert re.findall(r">(sd[abc])<", matrix)[:3] == ["sda", "sdb", "sdc"]


def test_preview_of_a_named_result_joins_the_series_that_it_would_continue() -> None:
    with before_names():
        post_drives(1, speeds={"sda": 500})
    unnamed = Series.objects.get()
    submission_id = submit(1, make_report(1, [(SDA, 500), (SDB, 400)]))

    preview = preview_submission(lock_sources([submission_id])[0])

    assert isinstance(preview, Preview)
    ((_, measurements),) = preview.runs
    assert [each.series.pk for each in measurements] == [unnamed.pk, None]
    assert preview.new_series == 1
    assert list(Series.objects.values_list("target_name", flat=True)) == [None]


def test_series_that_gets_a_name_is_not_a_new_one_of_its_host(settings: Any) -> None:
    with before_names():
        post_drives(1, speeds={"sda": 500})
    settings.HOST_NEW_SERIES_PER_DAY = 0

    post_drives(1, speeds={"sda": 500}, start=1)
    post_drives(1, speeds={"sdb": 500}, start=2)

    assert count_points() == {"sda": 2}


def test_results_without_a_name_join_the_series_of_the_pool_that_their_host_shared() -> None:
    for run, host in enumerate(("db-1", "db-2")):
        Host.objects.create(name=host, pool="db")
        with before_names():
            post_drives(1, host=host, speeds={"sda": 500}, start=run)
    post_drives(1, host="db-1", speeds={"sda": 500}, start=2)
    set_pool("db-1", "")
    with before_names():
        post_drives(1, host="db-1", speeds={"sda": 500}, start=3)

    columns = ("scope", "target_name", "measurement_count")
    assert set(Series.objects.values_list(*columns)) == {("host:db-1", "sda", 3), ("pool:db", "sda", 1)}


def post_disk(host: str, serial: str, iops: int) -> None:
    """Store ten runs of a raw disk as an agent names it."""
    entry = {"path": "/dev/sdb", "device": {"kernel_name": "sdb", "identifier": serial, "class": "hdd"}}
    for run in range(10):
        submit(
            run, make_report(run, [(SDB, iops + run % 5 - 2)]), host, targets=[entry | {"layout": UNNAMED}]
        )
    while normalize_batch().claimed:
        pass


def test_disks_with_other_serials_are_peers_and_can_be_compared(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence_queue(monkeypatch)
    post_disk("db-1", "wwn-1", 500)
    post_disk("db-2", "wwn-2", 200)
    with at_time(NOON + 10 * STEP):
        tasks.judge()
        client.force_login(make_user())

        page = " ".join(client.get("/hosts/db-2/").content.decode().split())
        answer = client.get("/api/v1/comparison", {"a": "host:db-1", "b": "host:db-2"}).json()

    assert set(Series.objects.values_list("target_name", flat=True)) == {"wwn-1", "wwn-2"}
    assert "no peers" not in page
    (pair,) = [each for each in answer["pairs"] if each["metric"] == "iops"]
    assert pair["ratio"] == 0.4
    assert (answer["only_a"], answer["only_b"]) == ([], [])


def test_other_drives_of_a_host_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    silence_queue(monkeypatch)
    post_drives(6, speeds={"sda": 500, "sdb": 480})
    with at_time(NOON + 6 * STEP):
        tasks.judge()
        host = read_host("db-1")
        assert host is not None
        patterns = read_host_patterns(host)

    assert [(each.target, each.series_count, each.comparison) for each in patterns] == [
        ("sda", 1, None),
        ("sdb", 1, None),
    ]


def test_drives_of_two_hosts_are_compared_by_their_names_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence_queue(monkeypatch)
    post_drives(6, speeds={"sda": 500, "sdb": 400})
    post_drives(6, host="db-2", speeds={"sda": 250, "sdc": 100})
    with at_time(NOON + 6 * STEP):
        tasks.judge()
        client.force_login(make_user())
        answer = client.get("/api/v1/comparison", {"a": "host:db-1", "b": "host:db-2"}).json()

    ratios = sorted(each["ratio"] for each in answer["pairs"] if each["metric"] == "iops")
    assert ratios == pytest.approx([0.25, 0.5], rel=0.01)
