"""What people know beforehand: said, ended early, taken back, each undone; and what each of it does."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from benchapp.grammar import parse_filter
from benchapp.models import (
    Expectation,
    ExpectationAct,
    ExpectationEvent,
    ExpectationKind,
    Incident,
    IncidentState,
    Notice,
    Series,
    Verdict,
)
from benchapp.models.filtering import match_series
from benchapp.pipeline.judge import detect_and_notify
from benchapp.pipeline.maintenance import expectations
from benchapp.pipeline.maintenance.expectations import (
    BadExpectation,
    NotSchedulable,
    UnknownExpectation,
    end_expectation,
    expect,
    match_expectations,
    put_back,
    resume_expectation,
    take_back,
)
from benchapp.pipeline.maintenance.impact import preview_impact
from tests.factories import (
    NOON,
    make_change,
    make_expectation,
    make_host,
    make_incident,
    make_measurement,
    make_run,
    make_series,
    make_user,
    make_workload,
)
from tests.notices import make_subscription
from tests.pipeline.detection.judging import judge_all, make_cells, make_level

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
SPAN = {"from_at": NOON, "to_at": NOON + 4 * HOUR}


def say(filter: str = "host:db-7", kind: str = "maintenance", **fields: Any) -> Expectation:
    given: dict[str, Any] = {**SPAN, "reason": "new disks", "by": None, **fields}
    return expect(ExpectationKind(kind), filter, **given)


def list_acts() -> list[tuple[str, str, str]]:
    events = ExpectationEvent.objects.order_by("id")
    return [(event.act, event.by.username if event.by else "", event.via) for event in events]


def make_judged(values: list[float]) -> Series:
    """Make a series of host-1 and judge it."""
    (series,) = make_cells(make_host("host-1"), [values])
    judge_all()
    return series


def forget_due() -> None:
    Series.objects.update(judging_is_due=False)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that sets the clock of expectations."""

    def set_clock(moment: datetime) -> None:
        monkeypatch.setattr("django.utils.timezone.now", lambda: moment)

    set_clock(NOON - HOUR)
    return set_clock


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"filter": "flavour:sweet"}, "filter", "flavour"),
        ({"to_at": NOON}, "to_at", "ends before it begins"),
        ({"to_at": NOON + timedelta(days=367)}, "to_at", "more than 366 days"),
        ({"from_at": NOON + timedelta(days=800), "to_at": NOON + timedelta(days=801)}, "to_at", "two years"),
        ({"from_at": datetime.fromisoformat("1979-12-31T23:00Z")}, "from_at", "1979"),
        ({"reason": " \n "}, "reason", "say why"),
        ({"reason": "x" * 501}, "reason", "at most 500 characters; it has 501"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(BadExpectation, match=words) as refused:
        say(**fields)

    assert refused.value.field == field
    assert not Expectation.objects.exists()


def test_reason_is_kept_in_one_line_without_what_no_column_takes() -> None:
    assert say(reason="new\n disks\x00").reason == "new disks\ufffd"


def test_no_more_than_the_bound_hold_or_are_to_come(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "OPEN_MAXIMUM", 2)
    first, _ = say(), say()

    with pytest.raises(BadExpectation, match="2 hold or are to come"):
        say()
    take_back(first.pk, by=None)
    say()
    with pytest.raises(BadExpectation, match="which is the most"):
        put_back(first.pk, by=None)
    # What is over costs nobody anything.
    say(from_at=NOON - 9 * HOUR, to_at=NOON - 8 * HOUR)


def test_trail_tells_who_did_what_and_with_which_token(at: Any) -> None:
    anna = make_user(username="anna")

    held = say(by=anna)
    at(NOON + HOUR)
    end_expectation(held.pk, by=anna, via="bench_abc")
    resume_expectation(held.pk, by=None)
    take_back(held.pk, by=anna)
    put_back(held.pk, by=anna)

    assert list_acts() == [
        ("said", "anna", ""),
        ("ended", "anna", "bench_abc"),
        ("resumed", "", ""),
        ("taken_back", "anna", ""),
        ("put_back", "anna", ""),
    ]
    held.refresh_from_db()
    assert (held.ended_at, held.ended_by, held.taken_back_at, held.taken_back_by) == (None,) * 4


def test_early_end_keeps_who_and_the_planned_end(at: Any) -> None:
    anna = make_user()
    held = say()
    at(NOON + HOUR)

    ended = end_expectation(held.pk, by=anna)

    assert (ended.ended_by, ended.over_at, ended.to_at) == (anna, NOON + HOUR, NOON + 4 * HOUR)


def test_only_what_runs_can_be_ended(at: Any) -> None:
    held = say()

    with pytest.raises(NotSchedulable, match="has not begun"):
        end_expectation(held.pk, by=None)
    with pytest.raises(NotSchedulable, match="nobody ended it"):
        resume_expectation(held.pk, by=None)
    at(NOON + 4 * HOUR)
    with pytest.raises(NotSchedulable, match="over already"):
        end_expectation(held.pk, by=None)
    at(NOON + HOUR)
    take_back(held.pk, by=None)
    with pytest.raises(NotSchedulable, match="over already"):
        end_expectation(held.pk, by=None)
    with pytest.raises(UnknownExpectation, match="no expectation 9999"):
        take_back(9999, by=None)


def test_the_same_again_changes_nothing_and_is_not_in_the_trail(at: Any) -> None:
    held = say()

    take_back(held.pk, by=None)
    take_back(held.pk, by=make_user())
    put_back(held.pk, by=None)
    put_back(held.pk, by=None)

    assert [act for act, _, _ in list_acts()] == [
        ExpectationAct.SAID,
        ExpectationAct.TAKEN_BACK,
        ExpectationAct.PUT_BACK,
    ]


def test_each_act_on_a_maintenance_has_what_it_reaches_judged_anew_and_nothing_else(at: Any) -> None:
    inside = make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)
    for number, host in ((8, "db-8"), (9, "db-7")):
        make_series([1.0], host=make_host(f"{host}-{number}"), start_at=NOON)
    before = make_series([1.0], host=make_host("db-7-old"), start_at=NOON - timedelta(days=1))
    forget_due()

    def find_due() -> list[int]:
        due = list(Series.objects.filter(judging_is_due=True).values_list("pk", flat=True))
        forget_due()
        return due

    held = say("host:db-7,db-7-old")
    assert find_due() == [inside.pk]
    assert before.pk != inside.pk
    at(NOON + HOUR)
    for act in (end_expectation, resume_expectation, take_back, put_back):
        act(held.pk, by=None)
        assert find_due() == [inside.pk], act.__name__


def test_expected_change_has_nothing_judged_anew() -> None:
    make_series([1.0], host=make_host("db-7"))
    forget_due()

    say(kind="change")

    assert not Series.objects.filter(judging_is_due=True).exists()


def test_runs_behind_an_early_end_count_again(at: Any) -> None:
    at(NOON + timedelta(days=3))
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 6))
    held = say("", from_at=NOON + 20 * HOUR, to_at=NOON + timedelta(days=9))
    judge_all()
    assert not Incident.objects.exclude(state=IncidentState.RESOLVED).filter(change_count__gt=0).exists()

    # It was over when the third of the six bad runs came: the other three stand, and are a change.
    Expectation.objects.filter(pk=held.pk).update(ended_at=NOON + 23 * HOUR)
    Series.objects.update(judging_is_due=True)
    judge_all()

    change = series.changes.exclude(state="withdrawn").get()
    assert change.started_at == NOON + 23 * HOUR


@pytest.mark.parametrize(("filter", "is_expected"), [("host:host-1", True), ("host:host-2", False)])
def test_expected_change_resolves_what_begins_within_it_and_tells_nobody(
    at: Any, filter: str, is_expected: bool
) -> None:
    make_subscription()
    at(NOON + timedelta(days=2))
    say(filter, "change", from_at=NOON + 20 * HOUR, to_at=NOON + 30 * HOUR, reason="smaller volumes")

    make_cells(make_host("host-1"), [make_level(1000.0, 20) + make_level(850.0, 8)])
    detect_and_notify()

    incident = Incident.objects.get()
    assert (incident.state, incident.verdict) == (
        (IncidentState.RESOLVED, Verdict.EXPECTED) if is_expected else (IncidentState.NEW, Verdict.NONE)
    )
    assert Notice.objects.exists() is not is_expected


def test_change_behind_an_early_end_is_not_expected(at: Any) -> None:
    at(NOON + timedelta(days=2))
    held = say("", "change", from_at=NOON, to_at=NOON + timedelta(days=9))
    Expectation.objects.filter(pk=held.pk).update(ended_at=NOON + 19 * HOUR)

    make_judged(make_level(1000.0, 20) + make_level(850.0, 8))
    judge_all()

    assert Incident.objects.get().verdict == Verdict.NONE


def test_reach_counts_series_hosts_runs_and_names_open_incidents() -> None:
    host = make_host("db-1")
    series = make_series([1.0, 2.0, 3.0], host=host, start_at=NOON)
    make_series([1.0], host=make_host("web-1"), start_at=NOON)
    make_host("db-2")
    make_host("db-3", retired_at=NOON)
    open_one = make_incident(changes=[make_change(series, at=NOON + HOUR)], title="db-1 fell")
    make_incident(changes=[make_change(series, at=NOON + HOUR, metric="latency_ns")], state="resolved")

    reach = preview_impact("host:db-*", from_at=NOON, to_at=NOON + 2 * HOUR)

    assert (reach.series, reach.hosts, reach.host_names) == (1, 2, ("db-1", "db-2"))
    assert (reach.runs, reach.has_more_runs) == (2, False)
    assert reach.incidents == ((open_one.pk, "db-1 fell"),)


def test_reach_of_words_counts_runs_by_their_series(monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host("db-1")
    make_series([1.0, 2.0, 3.0], host=host, start_at=NOON)
    monkeypatch.setattr("benchapp.pipeline.maintenance.impact.RUNS_COUNTED", 2)

    assert preview_impact("db-1", from_at=NOON, to_at=NOON + 9 * HOUR).has_more_runs
    assert preview_impact("nobody", from_at=NOON, to_at=NOON + 9 * HOUR).runs == 0


def test_reach_of_a_filter_that_is_understood_no_longer_is_nothing() -> None:
    held = make_expectation(filter="flavour:sweet")

    reach = preview_impact(held.filter, from_at=held.from_at, to_at=held.to_at)

    assert (reach.series, reach.hosts, reach.runs, reach.incidents) == (0, 0, 0, ())


def test_reach_costs_a_bounded_number_of_queries(django_assert_max_num_queries: Any) -> None:
    run = make_run(make_host("db-1"))
    make_measurement(run, make_series(host=run.host), iops=1.0)

    with django_assert_max_num_queries(7):
        preview_impact("host:db-* bs:4k volume_type:gp3", from_at=NOON, to_at=NOON + HOUR)


FILTERS = (
    "",
    "host:db-1",
    "host:DB-*",
    "host:db-1,db-2 bs:4k",
    "-host:db-1",
    "-host:*",
    "host:* -host:db-2",
    "pool:web",
    "pool:w*,x",
    "host:db-1 pool:web",
    "-pool:web",
    "host:? iodepth:8",
    "pool:?",
    "iodepth:>=8",
    "db",
    "host:db-1 web",
)


@pytest.mark.parametrize("text", FILTERS)
def test_series_are_matched_as_the_filter_bar_does(text: str) -> None:
    for name, pool in (("db-1", ""), ("db-2", ""), ("web-1", "web"), ("web-2", "west")):
        make_series([1.0], host=make_host(name, pool=pool), pool=pool)
    make_series([1.0], host=make_host("db-3"), workload=make_workload(iodepth=4, block_size_bytes=65536))
    held = make_expectation(filter=text)

    matched = match_expectations(Expectation.objects.all(), Series.objects.all())

    told = set(Series.objects.filter(match_series(parse_filter(text))).values_list("pk", flat=True))
    assert matched == {series_id: [held] for series_id in told}


def test_filters_of_hosts_cost_no_query_each(django_assert_num_queries: Any) -> None:
    make_series([1.0], host=make_host("db-1"))
    for number in range(20):
        make_expectation(filter=f"host:db-{number}")

    with django_assert_num_queries(2):
        assert len(match_expectations(Expectation.objects.all(), Series.objects.all())) == 1
