"""Schedule, end, cancel and restore planned events, and their effect on detection."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import NotInThisState, UnknownEntry
from benchapp.incidents.write import planned_events
from benchapp.incidents.write.planned_events import (
    EVENTS,
    end_planned_event,
    preview_impact,
    resume_planned_event,
)
from benchapp.judge import detect_and_notify
from benchapp.models import (
    Incident,
    IncidentState,
    Notice,
    PlannedEvent,
    PlannedEventAction,
    PlannedEventLogEntry,
    Series,
    Verdict,
)
from benchapp.models.coverage import match_planned_events
from benchapp.models.filtering import match_series
from tests.detection.write.judging import judge_all, make_cells, make_level
from tests.factories import (
    NOON,
    make_change,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_run,
    make_series,
    make_user,
    make_workload,
)
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
SPAN = {"from_at": NOON, "to_at": NOON + 4 * HOUR}


def schedule(filter: str = "host:db-7", kind: str = "maintenance", **fields: Any) -> PlannedEvent:
    given: dict[str, Any] = {**SPAN, "reason": "new disks", **fields}
    actor = {name: given.pop(name, default) for name, default in (("by", None), ("via", ""))}
    return EVENTS.create(PlannedEvent(kind=kind, filter=filter, **given), **actor)


def list_acts() -> list[tuple[str, str, str]]:
    entries = PlannedEventLogEntry.objects.order_by("id")
    return [(entry.action, entry.by.username if entry.by else "", entry.via) for entry in entries]


def make_judged(values: list[float]) -> Series:
    """Create a series of host-1 and run detection."""
    (series,) = make_cells(make_host("host-1"), [values])
    judge_all()
    return series


def forget_due() -> None:
    Series.objects.update(judging_is_due=False)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that sets the clock of planned events."""

    def set_clock(moment: datetime) -> None:
        monkeypatch.setattr("django.utils.timezone.now", lambda: moment)

    set_clock(NOON - HOUR)
    return set_clock


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"filter": "flavour:sweet"}, "filter", "flavour"),
        ({"to_at": NOON}, "to_at", "not after the start"),
        ({"to_at": NOON + timedelta(days=367)}, "to_at", "longer than 366 days"),
        ({"from_at": NOON + timedelta(days=800), "to_at": NOON + timedelta(days=801)}, "to_at", "two years"),
        ({"from_at": datetime.fromisoformat("1979-12-31T23:00Z")}, "from_at", "1979"),
        ({"reason": " \n "}, "reason", "required"),
        ({"reason": "x" * 501}, "reason", "at most 500 characters; this has 501"),
    ],
)
def test_invalid_value_is_rejected_with_its_field(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(BadValue, match=words) as refused:
        schedule(**fields)

    assert refused.value.field == field
    assert not PlannedEvent.objects.exists()


def test_note_can_be_of_one_time_and_has_no_limits() -> None:
    note = schedule(kind="note", to_at=None)

    assert note.ends_at == note.from_at == NOON
    for fields in ({"metric": "iops"}, {"is_regression": True}, {"to_at": NOON - HOUR}):
        with pytest.raises(BadValue) as refused:
            schedule(kind="note", **fields)
        assert refused.value.field in fields
    with pytest.raises(BadValue, match="an end is required"):
        schedule(to_at=None)


def test_reason_is_stored_in_one_line_without_null_characters() -> None:
    assert schedule(reason="new\n disks\x00").reason == "new disks\ufffd"


def test_active_and_upcoming_events_are_limited(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_events, "OPEN_MAXIMUM", 2)
    first, _ = schedule(), schedule()

    with pytest.raises(BadValue, match="limit of 2 active and upcoming"):
        schedule()
    EVENTS.cancel(first.pk, by=None)
    schedule()
    with pytest.raises(BadValue, match="limit of 2"):
        EVENTS.restore(first.pk, by=None)
    # What is over costs nobody anything.
    schedule(from_at=NOON - 9 * HOUR, to_at=NOON - 8 * HOUR)


def test_activity_log_has_user_action_and_token(at: Any) -> None:
    anna = make_user(username="anna")

    event = schedule(by=anna)
    at(NOON + HOUR)
    end_planned_event(event.pk, by=anna, via="bench_abc")
    resume_planned_event(event.pk, by=None)
    EVENTS.cancel(event.pk, by=anna)
    EVENTS.restore(event.pk, by=anna)

    assert list_acts() == [
        ("scheduled", "anna", ""),
        ("ended", "anna", "bench_abc"),
        ("resumed", "", ""),
        ("canceled", "anna", ""),
        ("restored", "anna", ""),
    ]
    event.refresh_from_db()
    assert (event.ended_at, event.ended_by, event.canceled_at, event.canceled_by) == (None,) * 4


def test_early_end_stores_the_user_and_the_planned_end(at: Any) -> None:
    anna = make_user()
    event = schedule()
    at(NOON + HOUR)

    ended = end_planned_event(event.pk, by=anna)

    assert (ended.ended_by, ended.ends_at, ended.to_at) == (anna, NOON + HOUR, NOON + 4 * HOUR)


def test_only_active_events_can_be_ended(at: Any) -> None:
    event = schedule()

    with pytest.raises(NotInThisState, match="has not started"):
        end_planned_event(event.pk, by=None)
    with pytest.raises(NotInThisState, match="not ended early"):
        resume_planned_event(event.pk, by=None)
    at(NOON + 4 * HOUR)
    with pytest.raises(NotInThisState, match="already ended"):
        end_planned_event(event.pk, by=None)
    at(NOON + HOUR)
    EVENTS.cancel(event.pk, by=None)
    with pytest.raises(NotInThisState, match="already ended"):
        end_planned_event(event.pk, by=None)
    with pytest.raises(UnknownEntry, match="planned event 9999 does not exist"):
        EVENTS.cancel(9999, by=None)


def test_repeated_action_changes_nothing_and_is_not_logged(at: Any) -> None:
    event = schedule()

    EVENTS.cancel(event.pk, by=None)
    EVENTS.cancel(event.pk, by=make_user())
    EVENTS.restore(event.pk, by=None)
    EVENTS.restore(event.pk, by=None)

    assert [act for act, _, _ in list_acts()] == [
        PlannedEventAction.SCHEDULED,
        PlannedEventAction.CANCELED,
        PlannedEventAction.RESTORED,
    ]


def test_each_action_on_maintenance_marks_only_affected_series_for_detection(at: Any) -> None:
    inside = make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)
    for number, host in ((8, "db-8"), (9, "db-7")):
        make_series([1.0], host=make_host(f"{host}-{number}"), start_at=NOON)
    before = make_series([1.0], host=make_host("db-7-old"), start_at=NOON - timedelta(days=1))
    forget_due()

    def find_due() -> list[int]:
        due = list(Series.objects.filter(judging_is_due=True).values_list("pk", flat=True))
        forget_due()
        return due

    event = schedule("host:db-7,db-7-old")
    assert find_due() == [inside.pk]
    assert before.pk != inside.pk
    at(NOON + HOUR)
    for action in (end_planned_event, resume_planned_event, EVENTS.cancel, EVENTS.restore):
        action(event.pk, by=None)
        assert find_due() == [inside.pk], action.__name__


@pytest.mark.parametrize("kind", ["change", "note"])
def test_events_other_than_maintenance_mark_no_series_for_detection(kind: str) -> None:
    make_series([1.0], host=make_host("db-7"), start_at=NOON)
    forget_due()

    schedule(kind=kind)

    assert not Series.objects.filter(judging_is_due=True).exists()


def test_runs_after_an_early_end_count_again(at: Any) -> None:
    at(NOON + timedelta(days=3))
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 6))
    event = schedule("", from_at=NOON + 20 * HOUR, to_at=NOON + timedelta(days=9))
    judge_all()
    assert not Incident.objects.filter(is_open=True).exists()

    # It was over when the third of the six bad runs came: the other three stand, and are a change.
    PlannedEvent.objects.filter(pk=event.pk).update(ended_at=NOON + 23 * HOUR)
    Series.objects.update(judging_is_due=True)
    judge_all()

    change = series.changes.exclude(state="withdrawn").get()
    assert change.started_at == NOON + 23 * HOUR


@pytest.mark.parametrize(
    ("kind", "filter", "is_expected"),
    [("change", "host:host-1", True), ("change", "host:host-2", False), ("note", "", False)],
)
def test_expected_change_resolves_incidents_in_its_period_without_notifications(
    at: Any, kind: str, filter: str, is_expected: bool
) -> None:
    make_subscription()
    at(NOON + timedelta(days=2))
    schedule(filter, kind, from_at=NOON + 20 * HOUR, to_at=NOON + 30 * HOUR, reason="smaller volumes")

    make_cells(make_host("host-1"), [make_level(1000.0, 20) + make_level(850.0, 8)])
    detect_and_notify()

    incident = Incident.objects.get()
    assert (incident.state, incident.verdict) == (
        (IncidentState.RESOLVED, Verdict.EXPECTED) if is_expected else (IncidentState.NEW, Verdict.NONE)
    )
    assert Notice.objects.exists() is not is_expected


def test_change_after_an_early_end_is_not_expected(at: Any) -> None:
    at(NOON + timedelta(days=2))
    event = schedule("", "change", from_at=NOON, to_at=NOON + timedelta(days=9))
    PlannedEvent.objects.filter(pk=event.pk).update(ended_at=NOON + 19 * HOUR)

    make_judged(make_level(1000.0, 20) + make_level(850.0, 8))
    judge_all()

    assert Incident.objects.get().verdict == Verdict.NONE


def test_impact_counts_series_hosts_runs_and_lists_open_incidents() -> None:
    host = make_host("db-1")
    series = make_series([1.0, 2.0, 3.0], host=host, start_at=NOON)
    make_series([1.0], host=make_host("web-1"), start_at=NOON)
    make_host("db-2")
    make_host("db-3", retired_at=NOON)
    open_one = make_incident(changes=[make_change(series, at=NOON + HOUR)], title="db-1 fell")
    make_incident(changes=[make_change(series, at=NOON + HOUR, metric="latency_p99_ns")], state="resolved")

    impact = preview_impact(make_planned_event(filter="host:db-*", from_at=NOON, to_at=NOON + 2 * HOUR))

    assert (impact.series, impact.hosts, impact.host_names) == (1, 2, ("db-1", "db-2"))
    assert (impact.runs, impact.has_more_runs) == (2, False)
    assert impact.incidents == ((open_one.pk, "db-1 fell"),)


def test_impact_of_words_counts_runs_by_their_series(monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host("db-1")
    make_series([1.0, 2.0, 3.0], host=host, start_at=NOON)
    monkeypatch.setattr("benchapp.incidents.write.planned_events.RUNS_COUNTED", 2)

    assert preview_impact(
        make_planned_event(filter="db-1", from_at=NOON, to_at=NOON + 9 * HOUR)
    ).has_more_runs
    assert preview_impact(make_planned_event(filter="nobody", from_at=NOON, to_at=NOON + 9 * HOUR)).runs == 0


def test_impact_of_an_invalid_filter_is_empty() -> None:
    event = make_planned_event(filter="flavour:sweet")

    impact = preview_impact(event)

    assert (impact.series, impact.hosts, impact.runs, impact.incidents) == (0, 0, 0, ())


def test_impact_needs_a_bounded_number_of_queries(django_assert_max_num_queries: Any) -> None:
    run = make_run(make_host("db-1"))
    make_measurement(run, make_series(host=run.host), iops=1.0)

    event = make_planned_event(filter="host:db-* bs:4k volume_type:gp3", from_at=NOON, to_at=NOON + HOUR)

    with django_assert_max_num_queries(7):
        preview_impact(event)


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
    event = make_planned_event(filter=text)

    matched = match_planned_events(PlannedEvent.objects.all(), Series.objects.all())

    told = set(Series.objects.filter(match_series(parse_filter(text))).values_list("pk", flat=True))
    assert matched == {series_id: [event] for series_id in told}


def test_filters_of_hosts_cost_no_query_each(django_assert_num_queries: Any) -> None:
    make_series([1.0], host=make_host("db-1"))
    for number in range(20):
        make_planned_event(filter=f"host:db-{number}")

    with django_assert_num_queries(2):
        assert len(match_planned_events(PlannedEvent.objects.all(), Series.objects.all())) == 1
