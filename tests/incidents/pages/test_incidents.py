"""The inbox of incidents and the page of one incident."""

import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.incidents.actions import triage
from benchapp.incidents.pages.texts import format_confidence
from benchapp.judge import judge_due
from benchapp.models import DetectionStatus, Incident, IncidentEvent, IncidentState, Role, Severity
from tests.detection.write import judging
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_target,
    make_user,
    make_workload,
)
from tests.pages import Page

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


def make_one(host: str = "db-7", **fields) -> Incident:
    series = make_series(
        [1000.0] * 8 + [850.0] * 4, host=make_host(host), target=make_target(volume_type="gp3")
    )
    change = make_change(series, at=NOON + timedelta(hours=8))
    return make_incident(changes=[change], **fields)


def read(client: Client, query: str = "") -> Page:
    return Page(client.get(reverse("incidents") + query))


def read_one(client: Client, incident: Incident) -> Page:
    return Page(client.get(reverse("incident", args=[incident.pk])))


def act(client: Client, incident: Incident, name: str, **form):
    return client.post(reverse("triage_incident", args=[incident.pk, name]), form, follow=True)


def test_empty_inbox_shows_detection_status(viewer: Client) -> None:
    series = make_series([1.0], start_at=timezone.now())
    make_detection_result(series)
    make_detection_result(series, DetectionStatus.LEARNING, metric="latency_mean_ns")
    make_detection_result(series, DetectionStatus.NOISY, metric="latency_p99_ns")

    page = read(viewer)

    assert "No open regressions. 3 metrics monitored, 1 learning, 1 too noisy." in page.words
    assert "/incidents/health/?status=noisy#detection-status" in page.links


def test_installation_without_series_leads_to_hosts(viewer: Client) -> None:
    page = read(viewer)

    assert "No series is monitored yet. Regressions of a series are reported after 6 to 20 runs" in page.words
    assert not any("#detection-status" in link for link in page.links)


def test_most_severe_is_first_then_the_newest(viewer: Client) -> None:
    make_incident(title="old and low", severity=Severity.LOW)
    make_incident(title="new and low", severity=Severity.LOW, started_at=NOON + timedelta(days=1))
    make_incident(title="old and high", severity=Severity.HIGH)

    words = read(viewer).words

    assert "3 open regressions, 1 of high severity" in words
    assert words.index("old and high") < words.index("new and low") < words.index("old and low")


def test_row_has_size_place_and_suspect(viewer: Client) -> None:
    suspect = {"name": "kernel", "before": "5.15", "after": "6.1", "share": 1, "text": "the kernel"}
    make_one(suspects=[suspect])

    words = read(viewer).words

    assert "▼ −15 %" in words
    assert "db-7 · kernel 5.15 → 6.1" in words


def test_row_and_page_without_environment_change_say_so(viewer: Client) -> None:
    incident = make_one()

    assert "db-7 · no recorded environment change" in read(viewer).words
    assert "No environment change was recorded between the last good" in read_one(viewer, incident).words


def test_tabs_list_incidents_of_their_state(viewer: Client) -> None:
    make_incident(title="the new one")
    make_incident(title="the known one", state=IncidentState.ACKNOWLEDGED)
    make_incident(title="the old one", state=IncidentState.RESOLVED)
    make_incident(title="the good one", is_regression=False)
    make_incident(title="the late one", snoozed_until=timezone.now() + timedelta(days=1))

    def titles(query: str) -> set[str]:
        words = read(viewer, query).words
        return {name for name in ("new", "known", "old", "good", "late") if f"the {name} one" in words}

    assert titles("") == {"new", "known"}
    assert titles("?tab=new") == {"new"}
    assert titles("?tab=acknowledged") == {"known"}
    assert titles("?tab=snoozed") == {"late"}
    assert titles("?tab=resolved") == {"old"}
    assert titles("?tab=improvements") == {"good"}
    assert titles("?tab=all") == {"new", "known", "old", "good", "late"}


def test_filter_matches_series_of_the_changes(viewer: Client) -> None:
    make_one("db-7", title="the one here")
    make_one("cache-1", title="the one afar")

    words = read(viewer, "?q=host:db-*").words

    assert "the one here" in words
    assert "the one afar" not in words


def test_inbox_takes_the_same_queries_for_any_number_of_incidents(
    viewer: Client, django_assert_num_queries
) -> None:
    for number in range(4):
        make_one(f"db-{number}")

    # session, person, incidents, their changes, counts of the tabs, count in the navigation
    with django_assert_num_queries(5):
        read(viewer)


def test_viewer_sees_no_buttons(viewer: Client, editor: Client) -> None:
    incident = make_one()

    assert "Resolve …" not in read(viewer).words
    assert "Resolve …" in read(editor).words
    assert "Comment" not in read_one(viewer, incident).words
    assert "Comment" in read_one(editor, incident).words


def test_title_describes_the_incident(viewer: Client) -> None:
    suspect = {"name": "kernel", "before": "5.15", "after": "6.1", "share": 1, "text": "the kernel"}
    words = read_one(viewer, make_one(suspects=[suspect])).words

    title = r"4k random read IOPS of db-7 down 15 % since 21 Nov (2026 )?20:00 UTC; coincides with kernel 5.15 → 6.1"
    assert re.search(title, words)
    assert "> 99.99 %" in words
    assert "1 change in 1 series" in words


def test_hostile_texts_are_escaped(viewer: Client) -> None:
    incident = make_one(
        title=HOSTILE,
        link="javascript:alert(1)",
        suspects=[{"name": HOSTILE, "before": HOSTILE, "after": HOSTILE, "share": 1, "text": HOSTILE}],
        common_factors=[{"dimension": "a", "value": "b", "share": 1, "text": HOSTILE}],
    )
    triage.comment(incident.pk, by=None, text=f"{HOSTILE} see https://example.com/a?b=1&c=2 javascript:x")

    page = viewer.get(reverse("incident", args=[incident.pk])).content.decode()

    assert HOSTILE not in page
    assert 'href="javascript' not in page
    assert '<a href="https://example.com/a?b=1&amp;c=2" rel="nofollow">' in page


def test_page_has_the_history_that_it_draws(viewer: Client) -> None:
    page = read_one(viewer, make_one())

    document = json.loads(page.scripts["history-document"])
    assert [point["iops"] for point in document["points"]] == [1000.0] * 8 + [850.0] * 4


def test_chart_has_the_most_affected_series_of_each_host(viewer: Client) -> None:
    changes = []
    for number in (1, 2):
        host = make_host(f"db-{number}")
        for depth, after in ((8, 900.0 - number), (16, 800.0 + number)):
            series = make_series([1000.0] * 3, host=host, workload=make_workload(iodepth=depth))
            changes.append(make_change(series, after=after))
    incident = make_incident(changes=changes, scope="", metric="iops")

    page = read_one(viewer, incident)

    assert "IOPS of db-1 and db-2, the most affected series of each: 2 of 4 series (all)" in page.words
    document = json.loads(page.scripts["history-document"])
    # The one of db-1 with the largest change, and of db-2 that with the same workload.
    assert {point["series"] for point in document["points"]} == {changes[1].series_id, changes[3].series_id}
    assert sum(tag == "polyline" for tag, _ in page.tags) == 4


def test_page_takes_few_queries_however_many_changes(viewer: Client, django_assert_num_queries) -> None:
    series = [make_series([1000.0] * 3) for _ in range(5)]
    incident = make_incident(changes=[make_change(each) for each in series])

    # session, person, incident, its series, order of the changes, changes, events, history (11), newest values,
    # matrix (3), mutes, bar, requests
    with django_assert_num_queries(24):
        read_one(viewer, incident)


def make_cells(incident_of: int = 2) -> Incident:
    """Make six series of a host: `incident_of` that changed, others unchanged, one too noisy, two not evaluated."""
    host = make_host("db-7")
    cells = [
        make_series(
            [1000.0] * 4,
            host=host,
            target=make_target(volume_count=count),
            workload=make_workload(rw="randread", block_size_bytes=4096),
        )
        for count in (1, 2, 4, 8, 16, 32)
    ]
    for cell, status in zip(cells, ("steady", "steady", "steady", "noisy"), strict=False):
        make_detection_result(cell, DetectionStatus(status))
    changes = [make_change(cell) for cell in cells[:incident_of]]
    for change in changes:
        change.evidence = {"points_from": "2026-11-20T12:00:00+00:00"}
        change.save(update_fields=["evidence"])
    return make_incident(changes=changes)


def test_matrix_shows_changed_and_unchanged_series(viewer: Client) -> None:
    words = read_one(viewer, make_cells()).words

    assert "2 of 4 series changed in IOPS; 2 not evaluated" in words
    assert "2 volumes: ▼ −15 % regression" in words
    assert "4 volumes: unchanged" in words
    assert "8 volumes: unchangedtoo noisy" in words
    assert "16 volumes: not evaluated" in words


def test_cell_of_the_matrix_links_to_the_history_around_the_change(viewer: Client) -> None:
    incident = make_cells()
    change = incident.changes.first()

    page = read_one(viewer, incident)

    assert f"/series/{change.series_id}/?metric=iops&from=2026-11-20T11:00:00Z" in page.links
    assert (
        viewer.get(page.links[page.links.index(next(u for u in page.links if "from=" in u))]).status_code
        == 200
    )


def test_matrix_falls_back_to_a_metric_with_changes(viewer: Client) -> None:
    incident = make_cells()

    page = Page(viewer.get(reverse("incident", args=[incident.pk]) + "?metric=%3Cscript%3E"))

    assert "2 of 4 series changed in IOPS" in page.words


def make_wide(count: int = 25) -> Incident:
    """Make an incident of one change in each of `count` series of a host; sizes and starts differ."""
    host = make_host("db-7")
    work = make_workload(rw="randread", block_size_bytes=4096)
    series = [
        make_series([1000.0], host=host, target=make_target(volume_count=number), workload=work)
        for number in range(1, count + 1)
    ]
    changes = [
        make_change(each, after=900.0 - 10 * number, at=NOON - timedelta(hours=number))
        for number, each in enumerate(series)
    ]
    return make_incident(changes=changes)


def list_sizes(client: Client, incident: Incident, query: str = "") -> list[str]:
    page = client.get(reverse("incident", args=[incident.pk]) + query).content.decode()
    table = page.partition('class="level-changes"')[2].partition("</table>")[0]
    return re.findall(r"▼ (−\d+) %", table)


def test_evidence_and_cause_come_first_and_all_changes_can_be_shown(viewer: Client) -> None:
    incident = make_wide(25)

    page = read_one(viewer, incident)
    everything = viewer.get(reverse("incident", args=[incident.pk]) + "?changes=all")

    assert page.words.index("the most affected of") < page.words.index("Probable cause")
    assert page.words.index("Probable cause") < page.words.index("Affected series")
    assert "10 of 25 changes. Show all 25 changes" in page.words
    assert list_sizes(viewer, incident) == [f"−{10 + number}" for number in range(24, 14, -1)]
    assert len(list_sizes(viewer, incident, "?changes=all")) == 25
    assert "25 changes. Show 10 only" in Page(everything).words


def test_affected_series_are_sorted_by_any_column(viewer: Client) -> None:
    incident = make_wide(3)

    for column in ("series", "metric", "before", "after", "change", "since", "state", "confidence"):
        assert len(list_sizes(viewer, incident, f"?sort={column}")) == 3
        assert len(list_sizes(viewer, incident, f"?sort=-{column}")) == 3
    assert list_sizes(viewer, incident, "?sort=change") == ["−10", "−11", "−12"]
    assert list_sizes(viewer, incident, "?sort=after") == ["−12", "−11", "−10"]
    assert list_sizes(viewer, incident, "?sort=-since") == ["−10", "−11", "−12"]
    head = viewer.get(reverse("incident", args=[incident.pk]) + "?sort=-since").content.decode()
    assert (
        '<th scope="col" aria-sort="descending"><a class="sort" href="?sort=since#cells">Since (UTC)' in head
    )


def test_title_does_not_depend_on_the_order_of_the_table(viewer: Client) -> None:
    incident = make_wide(25)

    words = Page(viewer.get(reverse("incident", args=[incident.pk]) + "?sort=change")).words

    assert "4k random read IOPS of db-7 down 22 % since" in words


def test_page_and_inbox_have_median_and_range_and_the_page_the_largest_change(viewer: Client) -> None:
    incident = make_wide(25)

    page = Page(viewer.get(reverse("incident", args=[incident.pk]))).words

    assert "each −10 to −34 %) in 25 series. Largest: IOPS −34 %" in page
    assert "▼ −22 %each −10 to −34 %" in read(viewer).words


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?sort=color", "is not a valid sort order. Valid: series, metric, before"),
        ("?changes=some", "is not a valid value of changes. Valid: all"),
    ],
)
def test_invalid_order_or_length_of_the_table_is_rejected(query: str, reason: str, viewer: Client) -> None:
    response = viewer.get(reverse("incident", args=[make_one().pk]) + query)

    assert response.status_code == 400
    assert reason in Page(response).words


def test_editor_acknowledges_and_undoes(editor: Client) -> None:
    incident = make_one()

    page = act(editor, incident, "acknowledge", next="/incidents/?tab=new").content.decode()

    incident.refresh_from_db()
    assert incident.state == IncidentState.ACKNOWLEDGED
    assert f"Incident {incident.pk} is acknowledged." in page
    assert f"Last action: acknowledged, incident {incident.pk}" in page
    event = IncidentEvent.objects.get(kind="acknowledged")
    act(editor, incident, "undo", event=event.pk)
    incident.refresh_from_db()
    assert incident.state == IncidentState.NEW


def test_editor_resolves_with_a_verdict_and_reopens(editor: Client) -> None:
    incident = make_one()

    act(editor, incident, "resolve", verdict="environment")
    assert "resolved: environment" in read_one(editor, incident).words
    act(editor, incident, "reopen")

    incident.refresh_from_db()
    assert (incident.state, incident.verdict) == (IncidentState.NEW, "")


def test_action_in_the_wrong_state_shows_the_reason(editor: Client) -> None:
    incident = make_one(state=IncidentState.RESOLVED)

    page = act(editor, incident, "acknowledge").content.decode()

    assert f"Incident {incident.pk}: it is resolved already." in page


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("resolve", {"verdict": "gone"}, "is not a valid verdict"),
        ("assign", {"assignee": "999"}, "must be an editor or admin"),
        ("assign", {"assignee": "x"}, "is not a valid number"),
        ("comment", {"comment": " "}, "the comment is empty"),
        ("link", {"link": "javascript:alert(1)"}, "must be an http or https URL"),
        ("link", {"link": f"https://tickets.example/{'x' * 500}"}, "exceed the maximum of 500 for a link"),
        (
            "link",
            {"link": "https://a.example/", "link_label": "x" * 61},
            "exceed the maximum of 60 for a label",
        ),
        ("link", {"link": "", "link_label": "OPS-7"}, "a label requires a link"),
        ("snooze", {"days": "9999"}, "maximum of 366"),
        ("merge", {"into": ""}, "is not a valid number"),
        ("split", {}, "select some of its changes"),
        ("accept", {}, "select at least one series"),
    ],
)
def test_invalid_form_changes_nothing_and_shows_the_reason(name, form, words, editor: Client) -> None:
    incident = make_one()

    page = act(editor, incident, name, **form).content.decode()

    assert words in page
    assert IncidentEvent.objects.filter(incident=incident).count() == 1


def test_unknown_action_is_not_found(editor: Client) -> None:
    assert act(editor, make_one(), "explode").status_code == 404


def test_event_of_another_incident_is_not_undone_here(editor: Client) -> None:
    mine, other = make_one(), make_one("db-8")
    event = triage.acknowledge(other.pk, by=None)

    assert act(editor, mine, "undo", event=event.pk).status_code == 404


def test_editor_assigns_links_snoozes_and_comments(editor: Client) -> None:
    incident, person = make_one(), make_user(Role.EDITOR, username="grace")

    act(editor, incident, "assign", assignee=person.pk)
    act(editor, incident, "link", link="https://tickets.example/7")
    act(editor, incident, "snooze", days="7")
    act(editor, incident, "comment", comment="a look at the array\nfirst")

    page = read_one(editor, incident)
    assert "assigned to grace" in page.words
    assert "https://tickets.example/7" in page.links
    assert "snoozed until" in page.words
    assert "a look at the array" in page.words


def test_ticket_is_on_the_list_and_the_page_with_its_label_and_undone(editor: Client) -> None:
    incident = make_one()

    act(editor, incident, "link", link="https://tickets.example/browse/7", link_label="OPS-7")
    anchor = (
        '<a href="https://tickets.example/browse/7" rel="noopener noreferrer nofollow"'
        ' title="https://tickets.example/browse/7" class="ticket">OPS-7</a>'
    )
    on_list, on_page = (
        editor.get(address).content.decode()
        for address in (reverse("incidents"), reverse("incident", args=[incident.pk]))
    )
    act(editor, incident, "undo", event=incident.events.get(kind="linked").pk)
    incident.refresh_from_db()

    assert anchor in on_list
    assert anchor in on_page
    assert "set the linkOPS-7: https://tickets.example/browse/7" in Page(
        editor.get(reverse("incident", args=[incident.pk]))
    ).words.replace(" undone ", "")
    assert (incident.link, incident.link_label) == ("", "")


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("https://tickets.example/browse/OPS-7", "OPS-7"),
        ("https://tickets.example/issues/7/", "7"),
        ("https://bugs.example/show_bug.cgi?id=7", "show_bug.cgi?id=7"),
        ("https://tickets.example", "tickets.example"),
        (f"https://tickets.example/{'x' * 90}", "x" * 60),
    ],
)
def test_ticket_without_label_is_named_by_its_url(url: str, title: str, editor: Client) -> None:
    incident = make_one()

    act(editor, incident, "link", link=url)

    assert f'class="ticket">{title}</a>' in editor.get(reverse("incidents")).content.decode()


def test_label_of_a_ticket_is_escaped(editor: Client) -> None:
    incident = make_one()

    act(editor, incident, "link", link='https://a.example/?"><b>', link_label=HOSTILE)
    act(editor, incident, "link", link="https://a.example/", link_label=HOSTILE)

    page = editor.get(reverse("incidents")).content.decode()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;</a>" in page


def test_editor_sets_the_severity_which_later_changes_keep_until_it_is_automatic_again(
    editor: Client,
) -> None:
    (series,) = judging.make_cells(
        make_host(), [judging.make_level(1000.0, 30) + judging.make_level(930.0, 10)]
    )
    judge_due()
    incident = Incident.objects.get()
    automatic = incident.severity

    act(editor, incident, "rate", severity="high")
    judging.add_runs(series, judging.make_level(930.0, 6))
    judge_due()
    incident.refresh_from_db()
    rated = incident.severity
    page = read_one(editor, incident)
    act(editor, incident, "rate", severity="")
    incident.refresh_from_db()

    assert (automatic, rated, incident.severity, incident.has_manual_severity) == (
        "low",
        "high",
        "low",
        False,
    )
    assert "set the severity" in page.words
    assert "high" in page.words


def test_severity_that_does_not_exist_is_rejected_and_setting_one_can_be_undone(editor: Client) -> None:
    incident = make_one()

    rejected = act(editor, incident, "rate", severity="extreme")
    act(editor, incident, "rate", severity="low")
    event = incident.events.get(kind="rated")
    act(editor, incident, "undo", event=event.pk)
    incident.refresh_from_db()

    assert "'extreme' is not a valid severity. Valid: high, medium, low" in Page(rejected).words
    assert (incident.severity, incident.has_manual_severity) == ("medium", False)


def test_merge_redirects_to_the_other_incident(editor: Client) -> None:
    one, other = make_one(), make_one("db-8")

    response = act(editor, one, "merge", into=other.pk)

    assert response.redirect_chain[-1][0] == reverse("incident", args=[other.pk])
    assert "Merged into" in read_one(editor, one).words


def test_split_moves_selected_changes_to_a_new_incident(editor: Client) -> None:
    changes = [make_change(make_series([1000.0, 850.0])) for _ in range(3)]
    incident = make_incident(changes=changes)

    response = act(editor, incident, "split", selected=[changes[0].pk])

    fresh = Incident.objects.latest("pk")
    assert response.redirect_chain[-1][0] == reverse("incident", args=[fresh.pk])
    assert [change.pk for change in fresh.changes.all()] == [changes[0].pk]


def test_only_selected_baselines_are_accepted(editor: Client) -> None:
    series = [make_series([1000.0, 850.0]) for _ in range(2)]
    for each in series:
        make_detection_result(each)
    incident = make_incident(changes=[make_change(each) for each in series])

    assert reverse("incident_baseline", args=[incident.pk]) in read_one(editor, incident).links
    act(editor, incident, "accept", series=[series[0].pk], comment="new disks")

    baselines = [each.detection_results.get().baseline_from_at for each in series]
    assert baselines == [NOON + timedelta(hours=1), None]
    assert "accepted a new baseline" in read_one(editor, incident).words


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (0.94, "94 %"),
        (0.975, "97.5 %"),
        (0.997, "99.7 %"),
        (0.9995, "99.95 %"),
        (0.99995, "> 99.99 %"),
    ],
)
def test_confidence_is_formatted_as_percent(confidence: float, text: str) -> None:
    assert format_confidence(confidence) == text


def test_title_has_the_largest_change(viewer: Client) -> None:
    series = make_series([1000.0, 850.0], host=make_host("db-7"))
    iops = make_change(series, after=850.0)
    latency = make_change(series, metric="latency_p99_ns", after=1300.0, is_regression=True)

    words = read_one(viewer, make_incident(changes=[latency, iops])).words

    assert "IOPS of db-7 down 15 % since" in words


def test_detection_status_describes_each_metric(viewer: Client) -> None:
    series = make_series([1.0], host=make_host("db-7"), start_at=timezone.now())
    make_detection_result(series, DetectionStatus.NOISY, smallest_detectable_change=0.24, runs_needed=50)

    words = Page(viewer.get(reverse("benchmark_health") + "?status=noisy")).words

    assert (
        "Too noisy: the smallest detectable change is 24 %, the threshold 5 %. Finding 5 % needs 50 runs."
        in words
    )
    assert "No metric is stale" in Page(viewer.get(reverse("benchmark_health") + "?status=stale")).words


def test_change_of_a_young_series_is_marked_on_the_incident_and_the_series(viewer: Client) -> None:
    series = make_series([1000.0, 850.0])
    change = make_change(series, evidence={"usual_spread": 0.037})
    incident = make_incident(changes=[change])

    pages = [viewer.get(f"/incidents/{incident.pk}/"), viewer.get(f"/series/{series.pk}/?metric=iops")]

    assert all("confirmed, young series" in page.content.decode() for page in pages)


def test_page_names_pooled_levels(viewer: Client) -> None:
    series = make_series([1000.0] * 3, host=make_host("db-7"))
    change = make_change(series, after=970.0, method=POOLED_METHOD)
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
    incident = make_incident(changes=[change], pooled_levels=[level])

    words = read_one(viewer, incident).words

    assert "Pooled level of db-7: IOPS lower in 36 of 40 series, median −3.0 %." in words
    assert "pooled, confirmed" in words


def test_suspect_within_a_run_is_not_shown_as_exact(viewer: Client) -> None:
    suspect = {"name": "kernel", "before": "5.15", "after": "6.1", "share": 1, "text": "the kernel"}
    near = make_one("db-8", suspects=[suspect | {"is_near": True}])
    exact = make_one(suspects=[suspect])

    inbox = read(viewer).words

    assert "kernel 5.15 → 6.1 within a run" in inbox
    assert [inbox.count("kernel 5.15 → 6.1"), inbox.count("within a run")] == [2, 1]
    assert "within a run" in read_one(viewer, near).words
    assert "within a run" not in read_one(viewer, exact).words


def test_texts_of_the_activity_link_their_incidents(editor: Client) -> None:
    earlier, incident = make_incident(), make_incident()
    act(editor, incident, "comment", comment=f"<b>as in incident {earlier.pk}, https://bench.example/7")

    html = editor.get(reverse("incident", args=[incident.pk])).content.decode()

    assert (
        f'&lt;b&gt;as in <a href="/incidents/{earlier.pk}/">incident {earlier.pk}</a>, <a href="https' in html
    )
