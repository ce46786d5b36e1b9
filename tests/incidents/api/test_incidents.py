"""Incidents, changes and detection reports over the API."""

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from django.test import Client

from benchapp.judge import judge_due
from benchapp.models import DetectionStatus, Incident, IncidentEvent, IncidentState, Role, Run
from benchapp.series.write import exclude_run
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_user,
)

pytestmark = pytest.mark.django_db


def make_values(*, levels, n=30, spread=0.01, seed=1):
    """Return n values around each level, always the same."""
    chance = np.random.default_rng(seed)
    return [float(level * (1 + chance.normal(0, spread))) for level in levels for _ in range(n)]


def patch(client: Client, incident_id: int, **body):
    return client.patch(f"/api/v1/incidents/{incident_id}", body, content_type="application/json")


def accept(client: Client, incident_id: int, **body):
    return client.post(f"/api/v1/incidents/{incident_id}/baseline", body, content_type="application/json")


def test_changes_are_listed_newest_first_without_those_withdrawn(reader: Client) -> None:
    series = make_series([1000.0] * 3, host=make_host("db-7"))
    old, new = (make_change(series, at=NOON + timedelta(hours=hour)) for hour in (1, 2))
    make_change(series, at=NOON, state="withdrawn")

    answer = reader.get("/api/v1/changes").json()

    assert [row["id"] for row in answer["changes"]] == [new.pk, old.pk]
    assert answer["changes"][0]["relative"] == pytest.approx(-0.15)
    assert answer["changes"][0]["scope"] == "host:db-7"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("q=host:db-7", 1),
        ("q=host:nobody", 0),
        ("metric=iops", 1),
        ("metric=latency_p99_ns", 0),
        ("state=confirmed", 1),
        ("state=withdrawn", 0),
        ("from=2026-11-21T12:00:00Z&to=2026-11-22", 1),
        ("from=2026-11-22", 0),
        ("to=2026-11-21T12:00:00Z", 0),
    ],
)
def test_changes_are_filtered(query: str, count: int, reader: Client) -> None:
    make_change(make_series([1000.0], host=make_host("db-7")))

    assert len(reader.get(f"/api/v1/changes?{query}").json()["changes"]) == count


def test_changes_of_one_incident_are_listed(reader: Client) -> None:
    first, other = (make_change(make_series([1000.0])) for _ in range(2))
    incident = make_incident(changes=[first])
    make_incident(changes=[other])

    answer = reader.get(f"/api/v1/changes?incident={incident.pk}").json()

    assert [row["id"] for row in answer["changes"]] == [first.pk]
    assert reader.get("/api/v1/changes?incident=x").status_code == 400


def test_incident_has_changes_and_events(reader: Client) -> None:
    change = make_change(make_series([1000.0, 850.0]))
    incident = make_incident(changes=[change])

    body = reader.get(f"/api/v1/incidents/{incident.pk}").json()

    assert (body["state"], body["verdict"], body["series_count"]) == ("new", None, 1)
    assert [row["id"] for row in body["changes"]] == [change.pk]
    assert [event["kind"] for event in body["events"]] == ["opened"]
    assert body["page"] == f"/incidents/{incident.pk}/"


def test_incidents_are_listed_by_tab(reader: Client) -> None:
    make_incident(title="a")
    make_incident(title="b", state=IncidentState.RESOLVED)

    open_ones = reader.get("/api/v1/incidents?tab=open").json()["incidents"]
    all_of_them = reader.get("/api/v1/incidents").json()["incidents"]

    assert [row["title"] for row in open_ones] == ["a"]
    assert len(all_of_them) == 2


def test_patch_applies_all_fields(admin: Client) -> None:
    incident = make_incident()
    make_user(Role.EDITOR, username="grace")

    body = patch(
        admin,
        incident.pk,
        state="resolved",
        verdict="fixed",
        assignee="grace",
        link="https://tickets.example/7",
        comment="a new cable",
    ).json()

    assert (body["state"], body["verdict"], body["assignee"]) == ("resolved", "fixed", "grace")
    assert [event["kind"] for event in body["events"]] == [
        "opened",
        "assigned",
        "linked",
        "commented",
        "resolved",
    ]


def test_patch_records_the_person(person) -> None:
    incident = make_incident()

    body = patch(person(Role.EDITOR), incident.pk, state="acknowledged").json()

    assert body["state"] == "acknowledged"
    assert body["events"][-1]["by"].startswith("person-")


def test_patch_to_the_current_state_changes_nothing(admin: Client) -> None:
    incident = make_incident()

    assert patch(admin, incident.pk, state="new").status_code == 200
    assert IncidentEvent.objects.count() == 1


def test_resolved_incident_is_reopened_to_be_acknowledged(admin: Client) -> None:
    incident = make_incident(state=IncidentState.RESOLVED, verdict="noise")

    body = patch(admin, incident.pk, state="acknowledged").json()

    assert (body["state"], body["verdict"]) == ("acknowledged", None)


def test_severity_is_set_and_automatic_again(admin: Client) -> None:
    incident = make_incident(severity="low")

    rated = patch(admin, incident.pk, severity="high").json()
    automatic = patch(admin, incident.pk, severity="automatic").json()
    rejected = patch(admin, incident.pk, severity="extreme")

    assert (rated["severity"], rated["has_manual_severity"]) == ("high", True)
    assert automatic["has_manual_severity"] is False
    assert [event["kind"] for event in automatic["events"]] == ["opened", "rated", "rated"]
    assert rejected.status_code == 400


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"state": "resolved"}, 400, "value-invalid"),
        ({"verdict": "fixed"}, 400, "value-invalid"),
        ({"state": "gone"}, 400, "value-invalid"),
        ({"assignee": "nobody-known"}, 400, "value-invalid"),
        ({"link": "javascript:alert(1)"}, 400, "value-invalid"),
        ({"link_label": "OPS-7"}, 400, "value-invalid"),
        ({"link": "https://a.example/", "link_label": "x" * 61}, 400, "value-invalid"),
        ({"snoozed_until": "2020-01-01T00:00:00Z"}, 400, "value-invalid"),
        ({"severity": "extreme"}, 400, "value-invalid"),
        ({"priority": "low"}, 400, "member-unknown"),
    ],
)
def test_invalid_patch_changes_nothing(body, status, code, admin: Client) -> None:
    incident = make_incident()

    response = patch(admin, incident.pk, comment="before it", **body)

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert IncidentEvent.objects.count() == 1


def test_step_in_the_wrong_state_is_a_conflict(admin: Client) -> None:
    incident = make_incident(state=IncidentState.RESOLVED)

    response = patch(admin, incident.pk, snoozed_until="2999-01-01T00:00:00Z")

    assert (response.status_code, response.json()["code"]) == (409, "state-differs")


def test_ticket_has_a_label_which_a_new_link_removes(admin: Client) -> None:
    incident = make_incident()

    first = patch(admin, incident.pk, link="https://tickets.example/7", link_label="OPS-7").json()
    renamed = patch(admin, incident.pk, link_label="OPS-8").json()
    moved = patch(admin, incident.pk, link="https://tickets.example/9").json()
    removed = patch(admin, incident.pk, link=None).json()

    assert [(each["link"], each["link_label"]) for each in (first, renamed, moved, removed)] == [
        ("https://tickets.example/7", "OPS-7"),
        ("https://tickets.example/7", "OPS-8"),
        ("https://tickets.example/9", None),
        (None, None),
    ]
    assert [event["text"] for event in removed["events"] if event["kind"] == "linked"] == [
        "OPS-7: https://tickets.example/7",
        "OPS-8: https://tickets.example/7",
        "https://tickets.example/9",
        "removed",
    ]


def test_dry_run_of_a_baseline_answers_the_impact_and_saves_nothing(admin: Client) -> None:
    series = make_series([1000.0, 850.0])
    make_detection_result(series)
    incident = make_incident(changes=[make_change(series)])
    other = make_incident(changes=[make_change(series, at=NOON - timedelta(days=2))], title="an earlier one")

    body = accept(admin, incident.pk, dry_run=True)

    incident.refresh_from_db()
    assert (body.status_code, incident.state) == (200, IncidentState.NEW)
    (level,) = body.json()["levels"]
    assert (level["series"], level["metric"], level["unit"]) == (series.pk, "iops", "operations/s")
    assert (level["before"], level["level"], level["from_at"]) == (1000.0, 850.0, "2026-11-21T13:00:00Z")
    assert body.json()["incidents"] == [
        {"id": other.pk, "title": "an earlier one", "earlier": 1, "later": 0, "drifts": 0}
    ]
    assert body.json()["subscriptions"] == []


def test_baseline_is_accepted_for_selected_series(admin: Client) -> None:
    first, second = (make_series([1000.0, 850.0]) for _ in range(2))
    for series in (first, second):
        make_detection_result(series)
    incident = make_incident(changes=[make_change(series) for series in (first, second)])

    answer = accept(admin, incident.pk, series=[second.pk], comment="new disks")

    assert (answer.status_code, answer["Location"]) == (201, f"/api/v1/incidents/{incident.pk}")
    assert (answer.json()["state"], answer.json()["verdict"]) == ("resolved", "expected")
    assert answer.json()["events"][-1]["text"] == "1 level of 1 series: new disks"
    baselines = [series.detection_results.get().baseline_from_at for series in (first, second)]
    assert baselines == [None, NOON + timedelta(hours=1)]


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_baseline_that_cannot_be_accepted_is_a_problem(
    is_dry_run: bool, admin: Client, reader: Client
) -> None:
    resolved = make_incident(changes=[make_change(make_series([1.0]))], state=IncidentState.RESOLVED)
    empty = make_incident()

    assert accept(admin, resolved.pk, dry_run=is_dry_run).json()["code"] == "state-differs"
    assert accept(admin, empty.pk, dry_run=is_dry_run).json()["code"] == "value-invalid"
    assert accept(admin, empty.pk, dry_run=is_dry_run, series=[]).status_code == 400
    assert accept(admin, 999, dry_run=is_dry_run).status_code == 404
    assert accept(reader, resolved.pk, dry_run=is_dry_run).status_code == 403


def test_report_has_inputs_policy_band_and_change(reader: Client) -> None:
    series = make_series(make_values(levels=(1000, 850)), step=timedelta(days=1))
    run = Run.objects.order_by("started_at")[30]

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert (body["metric"], body["method"], body["is_dry_run"]) == ("iops", "changepoints-v2", False)
    assert body["policy"]["smallest_change"] == 0.05
    assert len(body["inputs"]) == 60
    assert [change["run"] for change in body["changes"]] == [run.pk]
    assert body["changes"][0]["relative"] == pytest.approx(-0.15, abs=0.02)
    assert body["band"]["low"] < body["level"] < body["band"]["high"]
    assert body["status"] == "steady"


def test_report_has_the_significance_test_of_a_stored_change(reader: Client) -> None:
    series = make_series(make_values(levels=(1000, 850)), step=timedelta(days=1))
    judge_due()
    incident = Incident.objects.get()

    (test,) = reader.get(f"/api/v1/series/{series.pk}/detection").json()["acceptance"]

    assert (test["incident"], test["is_significant"], test["may_open"]) == (incident.pk, True, True)
    assert (test["simultaneous"], test["series"], test["hosts"], test["allowed_chance"]) == (1, 1, 1, 0.01)
    assert test["joint_chance"] < test["allowed_chance"]


def test_report_names_the_reasons(reader: Client) -> None:
    series = make_series([1000.0] * 4)

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert body["why_not"] == ["2 more valid runs needed: detection starts at 6."]
    assert (body["changes"], body["band"], body["status"]) == ([], None, "learning")


def test_change_below_the_threshold_is_reported_as_too_small(reader: Client) -> None:
    series = make_series(make_values(levels=(1000, 970), spread=0.002), step=timedelta(days=1))

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert body["changes"] == []
    assert [round(change["relative"], 2) for change in body["too_small"]] == [-0.03]


def test_detection_report_has_both_states_instead_of_their_changes(reader: Client) -> None:
    stays = [value for _ in range(4) for value in (*[1000.0, 1004.0] * 6, *[800.0, 803.0] * 4)]
    series = make_series(stays)

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert body["spread_increase"] is None
    assert (body["two_states"]["low"], body["two_states"]["high"]) == (
        pytest.approx(801.5),
        pytest.approx(1002),
    )
    assert (body["two_states"]["high_share"], body["two_states"]["visits"]) == (0.6, 3)
    assert body["two_states"]["from_at"] == body["inputs"][0]["started_at"]


def test_detection_report_has_the_increase_in_spread(reader: Client) -> None:
    noise = [(-1) ** index * (1 + index * 7 % 10) / 1000 for index in range(110)]
    values = [1000 * (1 + size * (5 if index >= 70 else 1)) for index, size in enumerate(noise)]
    series = make_series(values)

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert body["two_states"] is None
    assert body["spread_increase"]["after"] == pytest.approx(5 * body["spread_increase"]["before"], rel=0.2)
    assert body["spread_increase"]["from_at"] in [run["started_at"] for run in body["inputs"][68:73]]


def test_dry_run_applies_another_policy_and_writes_nothing(reader: Client) -> None:
    series = make_series(make_values(levels=(1000, 970), spread=0.002), step=timedelta(days=1))

    body = reader.get(f"/api/v1/series/{series.pk}/detection?dry_run=true&smallest_change=0.02").json()

    assert (body["is_dry_run"], len(body["changes"]), body["stored"]) == (True, 1, [])
    assert series.changes.count() == 0


def test_dry_run_of_an_earlier_day_has_no_change_yet(reader: Client) -> None:
    series = make_series(make_values(levels=(1000, 850)), step=timedelta(days=1))

    body = reader.get(f"/api/v1/series/{series.pk}/detection?dry_run=true&until=2026-12-21T00:00:00Z").json()

    assert (len(body["inputs"]), body["changes"]) == (30, [])


def test_runs_before_the_baseline_are_not_compared(reader: Client) -> None:
    series = make_series(make_values(levels=(1000, 850)), step=timedelta(days=1))
    make_detection_result(series, DetectionStatus.STEADY, baseline_from_at=NOON + timedelta(days=30))

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert (len(body["inputs"]), body["changes"]) == (30, [])
    assert "Baseline accepted from 21 Dec 2026 12:00 UTC; earlier runs are not compared." in body["why_not"]


def test_current_level_is_compared_to_the_baseline(reader: Client) -> None:
    slope = 1 - 0.0005 * np.arange(200)
    series = make_series((make_values(levels=(1000,), n=200) * slope).tolist())
    make_detection_result(series, baseline_from_at=NOON)

    comparison = reader.get(f"/api/v1/series/{series.pk}/detection").json()["baseline"]

    assert (comparison["current_n"], comparison["tolerated_change"]) == (5, 0.05)
    assert comparison["relative"] == pytest.approx(-0.1, abs=0.01)
    assert comparison["relative_low"] < comparison["relative"] < comparison["relative_high"] < -0.05
    assert comparison["has_drifted"]
    assert "2026-11-21T15" < comparison["since_at"] < "2026-11-22T12"


def test_baseline_of_few_runs_is_not_compared_yet(reader: Client) -> None:
    series = make_series([1000.0] * 23)
    make_detection_result(series, baseline_from_at=NOON)

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert body["baseline"] is None
    assert "Drift detection starts at 24 runs of the baseline." in body["why_not"]


def test_policy_requires_a_dry_run(reader: Client) -> None:
    series = make_series([1.0])

    response = reader.get(f"/api/v1/series/{series.pk}/detection?smallest_change=0.02")

    assert (response.status_code, response.json()["pointer"]) == (400, "smallest_change")


def test_excluded_runs_are_counted_and_left_out(reader: Client) -> None:
    series = make_series([1000.0] * 8)
    exclude_run(Run.objects.order_by("started_at")[0].pk, None, reason="a backup ran")

    body = reader.get(f"/api/v1/series/{series.pk}/detection").json()

    assert (len(body["inputs"]), body["excluded"], body["failed"]) == (7, 1, 0)


def test_history_marks_the_changes_of_its_series(reader: Client) -> None:
    series = make_series([1000.0, 850.0])
    change = make_change(series)
    incident = make_incident(changes=[change])

    (line,) = reader.get(f"/api/v1/history?series={series.pk}").json()["lines"]

    (mark,) = line["changes"]
    assert (mark["id"], mark["metric"], mark["state"]) == (change.pk, "iops", "confirmed")
    assert mark["page"] == f"/incidents/{incident.pk}/"


@pytest.fixture
def editor(person: Callable[[Role], Client]) -> Client:
    """Give a client of an editor."""
    return person(Role.EDITOR)


def triage_bulk(client: Client, **body):
    return client.post("/api/v1/incidents/bulk", body, content_type="application/json")


def make_open(**fields) -> Incident:
    series = make_series([1000.0, 850.0], host=make_host())
    make_detection_result(series)
    return make_incident(changes=[make_change(series)], **fields)


def list_states(*incidents: Incident) -> list[str]:
    states = dict(Incident.objects.values_list("pk", "state"))
    return [states[incident.pk] for incident in incidents]


def test_several_incidents_are_acknowledged_and_restored_by_one_undo(editor: Client) -> None:
    one, two, known = make_open(), make_open(), make_open(state="acknowledged")

    answer = triage_bulk(editor, incidents=[two.pk, one.pk, known.pk, 99_999], action="acknowledge").json()
    acknowledged = list_states(one, two, known)
    undone = editor.delete(answer["undo"]).json()

    assert answer["changed"] == [one.pk, two.pk]
    assert [each["incident"] for each in answer["refused"]] == [known.pk, 99_999]
    assert "acknowledged already" in answer["refused"][0]["reason"]
    assert acknowledged == ["acknowledged"] * 3
    assert (undone["changed"], undone["refused"], undone["id"]) == ([one.pk, two.pk], [], None)
    assert list_states(one, two, known) == ["new", "new", "acknowledged"]
    assert editor.delete(answer["undo"]).status_code == 404


def test_incident_that_was_changed_since_is_named_by_the_undo(editor: Client) -> None:
    one, two = make_open(), make_open()
    answer = triage_bulk(editor, incidents=[one.pk, two.pk], action="acknowledge").json()
    patch(editor, two.pk, state="resolved", verdict="noise")

    undone = editor.delete(answer["undo"]).json()

    assert undone["changed"] == [one.pk]
    assert [each["incident"] for each in undone["refused"]] == [two.pk]
    assert list_states(one, two) == ["new", "resolved"]


def test_several_incidents_are_assigned_resolved_reopened_and_accepted(editor: Client) -> None:
    one, two = make_open(), make_open()
    ada = make_user(Role.EDITOR, username="ada")
    ids = [one.pk, two.pk]

    def act(action: str, **more: str) -> tuple[int, list[str]]:
        answer = triage_bulk(editor, incidents=ids, action=action, **more)
        return len(answer.json()["changed"]), list_states(one, two)

    assert act("assign", assignee="ada") == (2, ["new", "new"])
    assert set(Incident.objects.filter(pk__in=ids).values_list("assignee", flat=True)) == {ada.pk}
    assert act("resolve", verdict="noise", comment="a test") == (2, ["resolved", "resolved"])
    assert act("reopen") == (2, ["new", "new"])
    assert act("accept") == (2, ["resolved", "resolved"])
    assert set(Incident.objects.filter(pk__in=ids).values_list("verdict", flat=True)) == {"expected"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"incidents": [], "action": "acknowledge"}, "/incidents"),
        ({"incidents": list(range(1, 202)), "action": "acknowledge"}, "/incidents"),
        ({"incidents": [1], "action": "delete"}, "/action"),
        ({"incidents": [1], "action": "resolve"}, "/verdict"),
        ({"incidents": [1], "action": "assign"}, "/assignee"),
        ({"incidents": [1], "action": "assign", "assignee": "nobody"}, "/assignee"),
        ({"incidents": [1], "action": "acknowledge", "verdict": "noise"}, "/verdict"),
    ],
)
def test_invalid_bulk_action_changes_nothing(body: dict, pointer: str, editor: Client) -> None:
    response = triage_bulk(editor, **body)

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)
    assert not IncidentEvent.objects.exists()


def test_action_of_another_user_is_not_undone(editor: Client, admin: Client) -> None:
    incident = make_open()
    answer = triage_bulk(editor, incidents=[incident.pk], action="acknowledge").json()

    assert admin.delete(answer["undo"]).status_code == 404
    assert list_states(incident) == ["acknowledged"]


def test_incident_has_its_pooled_levels(reader: Client) -> None:
    series = make_series([1000.0] * 3, host=make_host("db-7"))
    level = {
        "scope": "host:db-7",
        "dimension": "",
        "value": "",
        "metric": "iops",
        "series": 40,
        "changed": 36,
        "relative": -0.03,
        "text": "IOPS lower in 36 of 40 series, median −3.0 %",
    }
    incident = make_incident(changes=[make_change(series)], pooled_levels=[level])

    answer = reader.get(f"/api/v1/incidents/{incident.pk}").json()

    assert answer["pooled_levels"] == [{**level, "dimension": None, "value": None}]
