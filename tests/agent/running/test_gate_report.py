"""The table, the Markdown and the annotations of a gate."""

import pytest

from agent.running.gate_command import format_annotations, format_markdown, format_table, summarize
from tests.agent.running.gates import make_gate, make_row

NOISY = {"outcome": "undecided", "reason": "too-noisy"}


def test_table_has_regressed_rows_first_and_all_numbers() -> None:
    gate = make_gate(
        make_row(change=-0.01, best=0.01, worst=-0.03, value_text="990", n=3),
        make_row(outcome="regressed", workload_title="read 1m"),
        outcome="regressed",
    )

    lines = format_table(gate)

    assert [line.split("  ")[0] for line in lines[1:]] == ["db-1 · read 1m · gp3", "db-1 · randread 4k · gp3"]
    assert [" ".join(line.split()) for line in lines] == [
        "series metric value baseline ratio limit verdict",
        "db-1 · read 1m · gp3 IOPS 800 1 000 ± 1.23 % (30 runs) 0.800 (0.750 to 0.850) 5 % regressed",
        "db-1 · randread 4k · gp3 IOPS 990 (mean of 3 runs) 1 000 ± 1.23 % (30 runs) 0.990 (0.970 to 1.010) 5 % passed",
    ]
    assert len({line.index("IOPS") for line in lines[1:]} | {lines[0].index("metric")}) == 1
    assert summarize(gate) == "regressed: 1 regressed, 1 passed"


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"runs_needed": 7}, "undecided: too noisy, needs 7 more runs"),
        ({"runs_needed": 1}, "undecided: too noisy, needs 1 more run"),
        ({"runs_needed": None}, "undecided: too noisy, 100 more runs do not suffice"),
        ({"reason": "no-baseline", "change": None, "baseline_n": 1}, "undecided: no baseline"),
        (
            {"reason": "other-kind", "latency_kind": "lat", "baseline_latency_kind": "clat", "change": None},
            "undecided: not compared: total against completion latency",
        ),
        ({"reason": "no-value", "value": None, "n": 0, "change": None}, "undecided: no valid value"),
    ],
)
def test_undecided_row_has_a_reason(fields: dict[str, object], verdict: str) -> None:
    gate = make_gate(make_row(**(NOISY | fields)), outcome="undecided")

    assert format_table(gate)[1].endswith(f"  {verdict}")


def test_run_without_rows_is_undecided() -> None:
    gate = make_gate(outcome="undecided")

    assert summarize(gate) == "undecided: no series has a value of these metrics"
    assert len(format_table(gate)) == 1


@pytest.mark.parametrize(
    ("title", "cell"),
    [
        ("a|b", r"`db-1 · a\|b · gp3`"),
        ("@team <img src=x> [x](y) *b*", "`db-1 · @team <img src=x> [x](y) *b* · gp3`"),
        ("tick ` tick", "``db-1 · tick ` tick · gp3``"),
        ("two\nlines\r\n", "`db-1 · two lines · gp3`"),
    ],
)
def test_names_are_no_markdown(title: str, cell: str) -> None:
    lines = format_markdown(make_gate(make_row(workload_title=title)), "https://b.example/").splitlines()

    assert len(lines) == 7
    assert lines[6].startswith(f"| [{cell}](https://b.example/series/3/) | `IOPS` | ")


def test_comment_that_is_too_long_counts_the_rows_that_it_leaves_out() -> None:
    rows = [make_row(workload_title="w" * 200) for _ in range(300)]
    regressed = make_row(outcome="regressed", workload_title="the last")

    text = format_markdown(make_gate(*rows, regressed, outcome="regressed"), "https://b.example/")

    shown = sum(line.startswith("| [") for line in text.splitlines())
    assert len(text) < 60_100
    assert "the last" in text.splitlines()[6]
    assert text.endswith(f"\n\n{301 - shown} more rows: [run 5](https://b.example/runs/5/)\n")


def test_annotations_are_escaped() -> None:
    row = make_row(outcome="regressed", workload_title="50%\n::error::x")

    (line,) = format_annotations(make_gate(row, outcome="regressed"))

    assert line == (
        "::error title=Benchmark regressed::db-1 · 50%25%0A::error::x · gp3, IOPS: 800, "
        "baseline 1 000 ± 1.23 %25 (30 runs), ratio 0.800 (0.750 to 0.850), limit 5 %25: regressed"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"reason": "no-baseline", "change": None, "baseline_median": None, "baseline_n": 0},
            "800, limit 5 %25: undecided: no baseline",
        ),
        ({"reason": "no-value", "value": None, "n": 0, "change": None}, "undecided: no valid value"),
    ],
)
def test_annotation_names_only_known_numbers(fields: dict[str, object], text: str) -> None:
    row = make_row(outcome="undecided", **fields)

    (line,) = format_annotations(make_gate(row, outcome="undecided"))

    assert line == f"::warning title=Benchmark undecided::db-1 · randread 4k · gp3, IOPS: {text}"


def test_more_than_ten_annotations_of_a_kind_are_counted() -> None:
    rows = [make_row(outcome="regressed") for _ in range(12)] + [make_row(**NOISY) for _ in range(10)]

    lines = format_annotations(make_gate(*rows, make_row(), outcome="regressed"))

    kinds = [line.split(" ")[0] for line in lines]
    assert (kinds.count("::error"), kinds.count("::warning")) == (10, 10)
    assert lines[9].endswith("::3 more series; the step summary lists all")
