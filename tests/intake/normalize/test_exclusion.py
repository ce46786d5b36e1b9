"""Runs that are stored but in no level: the same execution that arrives again, and runs of branches."""

import json
from typing import Any

import pytest

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize, select_submissions
from benchapp.judge import judge_due
from benchapp.models import Level, Run
from benchapp.series.write import include_run
from tests.envelopes import read_fio
from tests.factories import make_host
from tests.intake.normalize.test_batch import submit

pytestmark = pytest.mark.django_db


def list_excluded() -> list[bool]:
    return [run.excluded_at is not None for run in Run.objects.order_by("id")]


def change_output(**changes: Any) -> str:
    report = json.loads(read_fio("07_json.out"))
    report["jobs"][0]["read"].update(changes)
    return json.dumps(report)


def test_reformatted_and_relabeled_copies_count_once() -> None:
    report = json.loads(read_fio("07_json.out"))
    submit(fio_output=json.dumps(report))
    submit(fio_output=json.dumps(report, indent=4))
    normalize_batch()
    submit(fio_output=json.dumps(report), labels={"rack": "r1", "commit": "abc"})
    normalize_batch()
    judge_due()

    first, *copies = Run.objects.order_by("id")
    assert list_excluded() == [False, True, True]
    assert {run.excluded_reason for run in copies} == {
        f"copy of run {first.pk}: same host, start, jobs and totals"
    }
    assert set(Level.objects.values_list("n", flat=True)) == {1}


def test_whole_report_is_no_copy_of_the_one_that_was_cut() -> None:
    report = change_output()
    submit(fio_output=report[: report.rindex("disk_util")])
    normalize_batch()
    submit(fio_output=report)
    normalize_batch()

    cut, whole = Run.objects.order_by("id")
    assert (cut.error != 0, whole.error, list_excluded()) == (True, 0, [False, False])


def test_copy_that_a_person_includes_again_stays_included() -> None:
    for _ in range(2):
        submit(fio_output=change_output())
    normalize_batch()
    copy = Run.objects.order_by("id")[1]

    include_run(copy.pk, None)
    renormalize(select_submissions(), is_dry_run=False)

    assert list_excluded() == [False, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"fio_output": change_output(total_ios=55_630)},
        {"target": {"volume_type": "gp3", "volume_count": 8}},
        {"host": "db-2"},
    ],
)
def test_other_totals_layout_or_host_is_another_execution(changes: dict[str, Any]) -> None:
    submit(fio_output=change_output())
    normalize_batch()
    host = make_host(changes["host"]) if "host" in changes else None

    submit(
        host, **({"fio_output": change_output()} | {key: changes[key] for key in changes if key != "host"})
    )
    normalize_batch()

    assert list_excluded() == [False, False]


def test_run_with_one_more_job_is_no_copy() -> None:
    report = json.loads(change_output())
    submit(fio_output=json.dumps(report))
    normalize_batch()
    report["jobs"].append(report["jobs"][0] | {"jobname": "other", "groupid": 1})

    submit(fio_output=json.dumps(report))
    normalize_batch()

    assert list_excluded() == [False, False]


@pytest.mark.parametrize(
    ("labels", "is_excluded"),
    [({}, False), ({"branch": "main"}, False), ({"branch": "release-2"}, False), ({"branch": "pr-17"}, True)],
)
def test_run_of_a_branch_is_in_no_level(settings, labels, is_excluded) -> None:
    settings.MAIN_BRANCHES = ["release-*"]
    submit(fio_output=change_output(), labels=labels)
    normalize_batch()
    judge_due()

    run = Run.objects.get()
    assert list_excluded() == [is_excluded]
    assert run.excluded_reason == (
        "branch pr-17: the gate compares it, levels leave it out" if is_excluded else ""
    )
    assert Level.objects.exists() is not is_excluded


def test_run_of_a_branch_that_a_person_includes_stays_included() -> None:
    submit(fio_output=change_output(), labels={"branch": "pr-17"})
    normalize_batch()
    include_run(Run.objects.get().pk, None)

    renormalize(select_submissions(), is_dry_run=False)

    assert list_excluded() == [False]


def test_result_of_a_branch_is_not_what_its_merge_copies() -> None:
    for branch in ("pr-17", "main", "main"):
        submit(fio_output=change_output(), labels={"branch": branch})
        normalize_batch()

    assert list_excluded() == [True, False, True]
