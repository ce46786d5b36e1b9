"""The page of an A/B experiment."""

import shlex

import pytest
from django.test import Client

from agent.commands.cli import build_parser
from benchapp.catalog.grammar import parse_filter
from benchapp.layouts.pages.experiment import write_commands
from benchapp.layouts.read.experiment import Experiment
from tests.factories import NOON, add_series, make_host
from tests.layouts.read.experiment_runs import make_experiment
from tests.layouts.read.test_experiment import VALUES
from tests.pages import Page

pytestmark = pytest.mark.django_db
ASKED = {"a": "label.arm:a", "b": "label.arm:b", "from": "2026-01-01"}


def test_result_is_in_title_chart_and_table_with_the_caveats(viewer: Client) -> None:
    # Alternation without ABBA: all pairs begin with A.
    make_experiment(
        [value for pair in zip(VALUES[0::2], VALUES[1::2], strict=True) for value in sorted(pair)],
        order="ab" * 6,
    )

    response = viewer.get("/experiment/", ASKED)

    page = Page(response).words
    assert "Experiment: B is better, +9.8 % after 6 pairs, IOPS" in page
    assert "Most pairs begin with the same arm: a drift does not cancel." in page
    (point,) = response.context["chart"]
    assert (point["kind"], point["metric"]) == ("better", "IOPS")
    assert point["low"] < 1.098 < point["high"]
    assert f"{point['low']:.3f}–{point['high']:.3f}" in page
    assert "5 pairs (10 runs) find a difference of 5 %" in page
    assert "/api/v1/experiment?a=label.arm:a&amp;b=label.arm:b&amp;from=2026-01-01T00:00:00Z" in (
        response.content.decode()
    )


def test_experiment_is_planned_before_its_first_run(viewer: Client) -> None:
    add_series([1000, 1050, 950, 1020, 980, 1000, 1030, 970], host=make_host("db-1"))

    page = Page(viewer.get("/experiment/", ASKED | {"difference": "10"})).words

    assert "Experiment: no pairs of runs" in page
    assert "find a difference of 10 % with a probability of at least 80 %; 0 pairs measured." in page
    assert "bench-agent experiment --pairs" in page and "--profile PROFILE --switch-command" in page


def test_missing_parts_of_a_form_are_named_and_an_empty_one_explains(viewer: Client) -> None:
    response = viewer.get("/experiment/", {"a": "label.arm:a", "metric": "speed", "difference": "90"})
    missing = viewer.get("/experiment/", {"a": "label.arm:a"})

    assert (response.status_code, missing.status_code) == (400, 400)
    words = Page(response).words
    assert "Metric: choose one of iops," in words
    assert "Difference to find: " in words
    assert "Arm B: an arm is a filter, as label.arm:b." in Page(missing).words
    assert "Give each arm a filter" in Page(viewer.get("/experiment/")).words
    assert "No measurements match arm A." in Page(viewer.get("/experiment/", ASKED)).words


@pytest.mark.parametrize(
    ("a", "b", "command"),
    [
        (
            "label.arm:a",
            "label.arm:b",
            "bench-agent experiment --pairs 5 --profile quick --label study=7",
        ),
        (
            "label.scheduler:none",
            "label.scheduler:mq-deadline",
            (
                "bench-agent experiment --pairs 5 --profile quick --label study=7 --arm-label scheduler"
                " --arms none,mq-deadline"
            ),
        ),
        (
            "kernel:6.1",
            "kernel:6.12",
            "bench-agent experiment --pairs 5 --profile quick --label study=7",
        ),
    ],
)
def test_plan_is_a_command_of_the_agent(a: str, b: str, command: str) -> None:
    common = parse_filter("profile:quick label.study:7 label.experiment:4331d87c")
    asked = Experiment(parse_filter(a), parse_filter(b), from_at=NOON, common=common)

    written = write_commands(asked, 5)

    assert written == f"""{command} --switch-command './set-up "$BENCH_AGENT_ARM"'"""
    arguments = build_parser().parse_args(shlex.split(written)[1:])
    assert (arguments.pairs, arguments.switch_command) == (5, './set-up "$BENCH_AGENT_ARM"')


def test_commands_have_the_labels_of_the_arms_quoted_and_the_profile() -> None:
    asked = Experiment(
        parse_filter('label.arm:"x; rm -rf y"'),
        parse_filter("label.arm:new kernel:6.1"),
        from_at=NOON,
        common=parse_filter("profile:quick label.study:7"),
    )

    assert write_commands(asked, 5).splitlines() == [
        "for arm in $(yes 'a b b a' | head -n 3); do",
        "    case $arm in",
        "        a) ./set-up-a && bench-agent run --profile quick --label study=7 --label 'arm=x; rm -rf y' ;;",
        "        b) ./set-up-b && bench-agent run --profile quick --label study=7 --label arm=new ;;",
        "    esac || break",
        "done",
    ]


def test_commands_have_no_control_characters_of_a_link() -> None:
    asked = Experiment(
        parse_filter('label.arm:"a\x03\nid"'),
        parse_filter("label.arm:b"),
        from_at=NOON,
        common=parse_filter('profile:"quick\x03\nid" label.study:"7\x1b[201~"'),
    )

    written = write_commands(asked, 5)

    assert [line for line in written.splitlines() if not line.isprintable() or "id" in line] == []
    assert "bench-agent run --profile PROFILE --label arm=b" in written
