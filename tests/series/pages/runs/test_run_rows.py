"""Rows of the list of runs: text is escaped in every column."""

from types import SimpleNamespace

from django.template import Context, Template

from benchapp.series.pages.run_tables import make_run_lines
from benchapp.series.read.runs import MeasurementSummary, RunRow
from benchapp.series.read.shapes import TargetRow
from tests.factories import NOON
from tests.pages import Page

HOSTILE = "<script src='\"&'>"


def make_summary(**fields) -> MeasurementSummary:
    known = {
        "series_id": 7,
        "job_name": HOSTILE,
        "direction": HOSTILE,
        "rw": HOSTILE,
        "block_size_bytes": None,
        "block_size_text": HOSTILE,
        "iodepth": 8,
        "numjobs": 4,
        "target_name": HOSTILE,
        "error": 0,
        "iops": 33_415.26,
        "bandwidth_bytes_per_s": 1.3e8,
        "latency_mean_ns": 120_000.0,
        "latency_p99_ns": None,
        "elapsed_s": None,
        "missing": {},
    }
    return MeasurementSummary(**known | fields)


def make_row(*measurements: MeasurementSummary, count: int = 0, **fields) -> RunRow:
    known = {
        "id": 5,
        "host_id": 1,
        "host_name": HOSTILE,
        "pool": HOSTILE,
        "profile": HOSTILE,
        "started_at": NOON,
        "started_at_is_known": True,
        "finished_at": None,
        "fio_version": HOSTILE,
        "error": 5,
        "is_partial": True,
        "sweep_id": None,
        "submission_id": None,
        "excluded_at": NOON,
        "badges": (HOSTILE,),
        "target": TargetRow(),
        "target_title": HOSTILE,
        "measurements": measurements,
        "measurement_count": count or len(measurements),
    }
    return RunRow(**known | fields)


def render(*runs: RunRow, can_select: bool = True) -> Page:
    columns, lines = make_run_lines(runs)
    tag = Template("{% load rows %}{% run_rows runs columns can_select=can_select %}")
    text = tag.render(Context({"runs": lines, "columns": columns, "can_select": can_select}))
    return Page(SimpleNamespace(content=text.encode()))


def test_text_of_each_column_is_escaped() -> None:
    page = render(make_row(make_summary()))

    assert not page.has("script")
    # Badge, host (twice: once for narrow screens), pool, profile, layout; block size, pattern and target of the result.
    assert page.words.count(HOSTILE) == 6 + 3
    titles = [named.get("title") for tag, named in page.tags if named.get("class") == "name minor"]
    labels = [named.get("aria-label") for tag, named in page.tags if tag == "input"]
    assert (titles, labels) == ([HOSTILE], [f"Select run 5 on {HOSTILE}"])


def test_rows_of_a_run_share_its_cells() -> None:
    page = render(make_row(make_summary(), make_summary(series_id=8), count=10))

    assert page.links.count("/runs/5/") == 2
    assert {"/series/7/", "/series/8/"} < set(page.links)
    assert "8 more" in page.words
    assert {named["rowspan"] for _, named in page.tags if "rowspan" in named} == {"3"}
    assert len([tag for tag, _ in page.tags if tag == "tr"]) == 3


def test_states_of_a_run_are_words() -> None:
    words = render(make_row(make_summary(error=5), badges=())).words

    assert [words.count(word) for word in ("failed", "partial", "excluded")] == [2, 1, 1]


def test_missing_percentile_has_the_reason_of_the_run_page() -> None:
    page = render(make_row(make_summary(missing={"latency_p99_ns": "few-samples"})))

    assert "unknown: fewer than 10 samples above this percentile" in page.words
    assert "fio printed no value" not in page.words


def test_run_without_measurements_says_so() -> None:
    page = render(make_row(), can_select=False)

    assert "no measurements" in page.words
    assert not page.has("input")
