"""`manage.py import_study`: all of a file or nothing, and nothing twice."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.models import Host, Kind, Measurement, Run, SeriesSummary, Submission

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
        "“Disks of 2013”, host disks-2013:\nstored: 2 runs (3 measurements of 3 series)\nalready there: 0 runs\n"
    )
    assert Host.objects.get().name == "disks-2013"
    assert set(Submission.objects.values_list("kind", flat=True)) == {Kind.REPORTED}
    values = Measurement.objects.order_by("run_id", "position").values_list("iops", "bandwidth_bytes_per_s")
    assert list(values) == [(16000.0, None), (None, 94935000.0), (19408.0, None)]


def test_series_are_summarised_at_once(file: Path) -> None:
    import_study(file)

    assert sorted(SeriesSummary.objects.values_list("metric", "median")) == [
        ("bandwidth_bytes_per_s", 94935000.0),
        ("iops", 16000.0),
        ("iops", 19408.0),
    ]


def test_second_import_finds_everything_there(file: Path) -> None:
    import_study(file)

    assert import_study(file).endswith("stored: 0 runs (0 measurements of 0 series)\nalready there: 2 runs\n")
    assert Run.objects.count() == 2


def test_row_added_later_brings_only_its_own_run(file: Path) -> None:
    import_study(file)
    file.write_text(TABLE + "1,standard,20,4,read,4k,64,iops,18207,\n")

    assert "stored: 1 run (1 measurement of 1 series)\nalready there: 2 runs\n" in import_study(file)


def test_other_words_around_the_same_numbers_are_told_and_left(file: Path) -> None:
    import_study(file, title="First")

    assert "already there under another source, which stays: 2 runs" in import_study(file, title="Second")
    assert {run.command["source"]["title"] for run in Run.objects.all()} == {"First"}


def test_bad_cell_is_named_and_nothing_is_stored(file: Path) -> None:
    file.write_text(TABLE + "1,standard,20,many,read,4k,64,iops,1,\n")

    with pytest.raises(
        CommandError, match=r"1 fault; nothing was stored\n  line 5, volume_count: a whole number"
    ):
        import_study(file)
    assert (Host.objects.count(), Submission.objects.count()) == (0, 0)


def test_what_holds_for_all_rows_is_said_once(file: Path) -> None:
    import_study(file, set=["filesystem=xfs", "scheduler=noop", "direct=1"])

    run = Run.objects.select_related("target", "environment").first()
    assert run is not None
    assert (run.target.filesystem, run.environment.scheduler) == ("xfs", "noop")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"set": ["filesystem"]}, "is no COLUMN=VALUE"),
        ({"set": ["speed=1"]}, "for all rows, speed: no column is called so"),
        ({"date": "April"}, "for all rows, started_at: 'April' is no time"),
        ({"url": "javascript:x"}, "--url: 'javascript:x' is no address"),
        ({"host": "no host!"}, "no host!"),
    ],
)
def test_bad_option_is_refused_in_words(file: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        import_study(file, **options)
    assert Submission.objects.count() == 0


def test_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        import_study(tmp_path / "none.csv")
