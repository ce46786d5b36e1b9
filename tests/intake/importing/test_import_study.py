"""`manage.py import_study`: all of a file or nothing, and nothing twice."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.models import Host, Kind, Level, Measurement, Run, Submission
from benchapp.series.write import include_run

pytestmark = pytest.mark.django_db

TABLE = (
    "study,volume_type,volume_size_gb,volume_count,rw,block_size,numjobs,metric,value,note\n"
    "1,standard,20,1,read,4k,64,iops,16000,\n"
    "1,standard,20,1,read,32m,8,bandwidth_mb_s,94.935,\n"
    "1,standard,20,2,read,4k,64,iops,19408,faint digits\n"
)


@pytest.fixture(autouse=True)
def database_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///the-tests-own")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "disks-2013.csv"
    path.write_text(TABLE)
    return path


def import_study(file: Path, **options: Any) -> str:
    out = StringIO()
    call_command("import_study", str(file), **{"date": "2013-04-01", **options}, stdout=out)
    return out.getvalue()


def test_rows_become_runs_of_a_host_named_after_the_file(file: Path) -> None:
    said = import_study(file, title="Disks of 2013", url="https://blog.example/")

    assert said == (
        "“Disks of 2013”, host disks-2013:\nstored: 2 runs (3 measurements of 3 series)\nalready stored: 0 runs\n"
    )
    assert Host.objects.get().name == "disks-2013"
    assert set(Submission.objects.values_list("kind", flat=True)) == {Kind.REPORTED}
    values = Measurement.objects.order_by("run_id", "position").values_list("iops", "bandwidth_bytes_per_s")
    assert list(values) == [(16000.0, None), (None, 94935000.0), (19408.0, None)]


def test_series_are_summarised_at_once(file: Path) -> None:
    import_study(file)

    assert sorted(Level.objects.values_list("metric", "median")) == [
        ("bandwidth_bytes_per_s", 94935000.0),
        ("iops", 16000.0),
        ("iops", 19408.0),
    ]


def test_second_import_finds_everything_there(file: Path) -> None:
    import_study(file)

    assert import_study(file).endswith(
        "stored: 0 runs (0 measurements of 0 series)\nalready stored: 2 runs\n"
    )
    assert Run.objects.count() == 2


def test_row_added_later_brings_only_its_own_run(file: Path) -> None:
    import_study(file)
    file.write_text(TABLE + "1,standard,20,4,read,4k,64,iops,18207,\n")

    assert "stored: 1 run (1 measurement of 1 series)\nalready stored: 2 runs\n" in import_study(file)


def test_changed_source_of_the_same_numbers_is_reported_and_not_stored(file: Path) -> None:
    import_study(file, title="First")

    assert "already stored under another source, which stays unchanged: 2 runs" in import_study(
        file, title="Second"
    )
    assert {run.command["source"]["title"] for run in Run.objects.all()} == {"First"}


CORRECTED = TABLE.replace("16000", "17000")


def list_counted() -> list[float]:
    """Return the IOPS that count, by layout and time of import."""
    rows = Measurement.objects.filter(is_excluded=False, iops__isnull=False)
    return list(rows.order_by("series__volume_count", "run_id").values_list("iops", flat=True))


def test_corrected_number_replaces_the_earlier_run_which_stays_excluded(file: Path) -> None:
    import_study(file)
    first = Run.objects.earliest("id")
    file.write_text(CORRECTED)

    said = import_study(file)

    assert "stored: 1 run (2 measurements of 2 series)\nalready stored: 1 run\n" in said
    assert "corrected: 1 run, which are kept but excluded\n" in said
    first.refresh_from_db()
    assert first.excluded_at is not None
    assert first.excluded_reason == f"corrected by run {Run.objects.latest('id').pk}"
    assert list_counted() == [17000.0, 19408.0]
    assert Level.objects.get(series__volume_count=1, metric="iops").median == 17000.0


def test_correcting_twice_changes_nothing_and_the_old_file_brings_nothing_back(file: Path) -> None:
    import_study(file)
    file.write_text(CORRECTED)
    import_study(file)
    before = list(Run.objects.order_by("id").values_list("id", "excluded_at", "excluded_reason"))

    assert "corrected" not in import_study(file)
    file.write_text(TABLE)
    assert "already corrected by a newer import: 1 run" in import_study(file)

    assert list(Run.objects.order_by("id").values_list("id", "excluded_at", "excluded_reason")) == before
    assert list_counted() == [17000.0, 19408.0]


def test_correction_of_a_correction_counts_once_too(file: Path) -> None:
    for value in ("16000", "17000", "18000"):
        file.write_text(TABLE.replace("16000", value))
        import_study(file)

    assert list_counted() == [18000.0, 19408.0]


def test_import_that_died_before_it_corrected_corrects_when_it_is_run_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_study(file)
    file.write_text(CORRECTED)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("benchapp.intake.importing.published.replace_corrected", die)
        import_study(file)
    assert list_counted() == [16000.0, 17000.0, 19408.0]

    assert "corrected: 1 run" in import_study(file)
    assert list_counted() == [17000.0, 19408.0]


def test_corrected_run_that_a_user_included_stays_included(file: Path) -> None:
    import_study(file)
    file.write_text(CORRECTED)
    import_study(file)
    include_run(Run.objects.earliest("id").pk, None)

    assert "corrected" not in import_study(file)
    assert list_counted() == [16000.0, 17000.0, 19408.0]


def test_corrected_environment_of_the_same_numbers_is_a_correction(file: Path) -> None:
    import_study(file, set=["fio_version=2.0.8"])

    assert "corrected: 2 runs" in import_study(file, set=["fio_version=2.0.9"])
    assert list_counted() == [16000.0, 19408.0]
    counted = Run.objects.filter(excluded_at__isnull=True)
    assert {run.environment.fio_version for run in counted} == {"2.0.9"}


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (CORRECTED.replace("19408", "19500"), {"set": ["kernel=6.1"]}),
        (CORRECTED.replace("\n1,", "\n2,"), {}),
        (CORRECTED, {"title": "Other disks"}),
        (CORRECTED, {"date": "2013-05-01"}),
        (CORRECTED, {"host": "another"}),
        (CORRECTED.replace(",20,", ",40,"), {}),
        (CORRECTED.replace(",64,", ",32,").replace("32m", "16m"), {}),
    ],
    ids=["environment", "study", "source", "time", "host", "layout", "workload"],
)
def test_other_numbers_of_something_else_correct_nothing(
    file: Path, table: str, options: dict[str, Any]
) -> None:
    import_study(file)
    file.write_text(table)

    assert "corrected" not in import_study(file, **options)
    assert not Run.objects.filter(excluded_at__isnull=False).exists()


def test_runs_of_one_file_never_correct_each_other(file: Path) -> None:
    head, *rows = TABLE.splitlines()
    file.write_text(
        "\n".join([f"kernel,{head}", *(f"{kernel},{row}" for kernel in ("5.15", "6.1") for row in rows)])
    )

    assert "corrected" not in import_study(file)
    assert list_counted() == [16000.0, 16000.0, 19408.0, 19408.0]


def test_earlier_run_that_holds_more_still_counts_and_is_named(file: Path) -> None:
    import_study(file)
    file.write_text("\n".join(CORRECTED.splitlines()[:2]))

    said = import_study(file)

    assert (
        f"not excluded by their correction, as they contain more measurements: runs {Run.objects.earliest('id').pk}\n"
        in said
    )
    assert not Run.objects.filter(excluded_at__isnull=False).exists()


def test_bad_cell_is_named_and_nothing_is_stored(file: Path) -> None:
    file.write_text(TABLE + "1,standard,20,many,read,4k,64,iops,1,\n")

    with pytest.raises(
        CommandError, match=r"1 error; nothing was stored\n  line 5, volume_count: expected a whole number"
    ):
        import_study(file)
    assert (Host.objects.count(), Submission.objects.count()) == (0, 0)


def test_defaults_apply_to_all_rows(file: Path) -> None:
    import_study(file, set=["filesystem=xfs", "scheduler=noop", "direct=1"])

    run = Run.objects.select_related("target", "environment").first()
    assert run is not None
    assert (run.target.filesystem, run.environment.scheduler) == ("xfs", "noop")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"set": ["filesystem"]}, "is not COLUMN=VALUE"),
        ({"set": ["speed=1"]}, "for all rows, speed: unknown column"),
        ({"date": "April"}, "for all rows, started_at: 'April' is not a valid time"),
        ({"url": "javascript:x"}, "--url: 'javascript:x' is not a valid URL"),
        ({"host": "no host!"}, "no host!"),
    ],
)
def test_invalid_option_is_rejected_with_a_message(file: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        import_study(file, **options)
    assert Submission.objects.count() == 0


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        import_study(tmp_path / "none.csv")
