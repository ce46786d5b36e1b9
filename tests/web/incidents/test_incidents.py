"""The inbox of incidents and the page of one."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Incident, IncidentEvent, IncidentState, Role, Severity, Standing
from benchapp.pipeline.incidents import triage
from benchapp.web.incidents.texts import say_confidence
from tests.factories import (
    NOON,
    make_change,
    make_host,
    make_incident,
    make_judgement,
    make_series,
    make_target,
    make_user,
    make_workload,
)
from tests.web.pages import Page

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


def test_empty_inbox_says_what_is_watched(viewer: Client) -> None:
    series = make_series([1.0], start_at=timezone.now())
    make_judgement(series)
    make_judgement(series, Standing.LEARNING, metric="latency_mean_ns")
    make_judgement(series, Standing.NOISY, metric="latency_p99_ns")

    page = read(viewer)

    assert "Nothing moved. 3 cells judged, 1 learning, 1 too noisy." in page.words
    assert "/incidents/watched/?standing=noisy" in page.links


def test_gravest_stands_first_then_the_newest(viewer: Client) -> None:
    make_incident(title="old and low", severity=Severity.LOW)
    make_incident(title="new and low", severity=Severity.LOW, started_at=NOON + timedelta(days=1))
    make_incident(title="old and high", severity=Severity.HIGH)

    words = read(viewer).words

    assert "3 open regressions, 1 of high severity" in words
    assert words.index("old and high") < words.index("new and low") < words.index("old and low")


def test_row_says_size_interval_place_and_suspect(viewer: Client) -> None:
    suspect = {"name": "kernel", "before": "5.15", "after": "6.1", "share": 1, "words": "the kernel"}
    make_one(suspects=[suspect])

    words = read(viewer).words

    assert "▼ −15.0 %−17.0 to −13.0 %" in words
    assert "db-7 · kernel 5.15 → 6.1" in words


def test_place_where_nothing_changed_is_said_too(viewer: Client) -> None:
    make_one()

    assert "db-7 · nothing we record changed" in read(viewer).words


def test_tabs_hold_their_part(viewer: Client) -> None:
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


def test_tab_that_is_none_is_refused_in_words(viewer: Client) -> None:
    response = viewer.get(reverse("incidents") + "?tab=gone")

    assert response.status_code == 400
    assert "There is no such part of the inbox" in response.content.decode()


def test_filter_asks_for_series_of_the_changes(viewer: Client) -> None:
    make_one("db-7", title="the one here")
    make_one("cache-1", title="the one afar")

    words = read(viewer, "?q=host:db-*").words

    assert "the one here" in words
    assert "the one afar" not in words


def test_bar_counts_what_is_new(viewer: Client) -> None:
    make_incident()
    make_incident(state=IncidentState.ACKNOWLEDGED)
    make_incident(is_regression=False)

    page = Page(viewer.get(reverse("uploads")))

    assert "Incidents 1 new" in page.words


def test_inbox_asks_as_much_for_many_as_for_one(viewer: Client, django_assert_num_queries) -> None:
    for number in range(4):
        make_one(f"db-{number}")

    # session, person, incidents, their changes, counts of the parts, count in the bar
    with django_assert_num_queries(6):
        read(viewer)


def test_viewer_sees_no_buttons(viewer: Client, editor: Client) -> None:
    incident = make_one()

    assert "Resolve …" not in read(viewer).words
    assert "Resolve …" in read(editor).words
    assert "Comment" not in read_one(viewer, incident).words
    assert "Comment" in read_one(editor, incident).words


def test_page_says_it_in_a_sentence(viewer: Client) -> None:
    suspect = {"name": "kernel", "before": "5.15", "after": "6.1", "share": 1, "words": "the kernel"}
    words = read_one(viewer, make_one(suspects=[suspect])).words

    said = r"4k random read IOPS of db-7 down 15 % since 21 Nov (2026 )?20:00 UTC; kernel 5.15 → 6.1 came with it"
    assert re.search(said, words)
    assert "practically certain, over 99.99 %" in words
    assert "1 change in 1 series" in words


def test_page_says_that_nothing_changed(viewer: Client) -> None:
    assert "Nothing we record changed between the last good run" in read_one(viewer, make_one()).words


def test_page_of_hostile_words_holds_no_script(viewer: Client) -> None:
    incident = make_one(
        title=HOSTILE,
        link="javascript:alert(1)",
        suspects=[{"name": HOSTILE, "before": HOSTILE, "after": HOSTILE, "share": 1, "words": HOSTILE}],
        explained_by=[{"dimension": "a", "value": "b", "share": 1, "words": HOSTILE}],
    )
    triage.comment(incident.pk, by=None, words=f"{HOSTILE} see https://example.com/a?b=1&c=2 javascript:x")

    page = viewer.get(reverse("incident", args=[incident.pk])).content.decode()

    assert HOSTILE not in page
    assert 'href="javascript' not in page
    assert '<a href="https://example.com/a?b=1&amp;c=2" rel="nofollow">' in page


def test_page_takes_few_queries_however_many_changes(viewer: Client, django_assert_num_queries) -> None:
    series = [make_series([1000.0] * 3) for _ in range(5)]
    incident = make_incident(changes=[make_change(each) for each in series])

    # session, person, incident, its cells, changes, events, evidence, three of the matrix, count in the bar
    with django_assert_num_queries(11):
        read_one(viewer, incident)


def make_cells(incident_of: int = 2) -> Incident:
    """Make five cells of a host: so many that moved, one that did not, one too noisy, and two that are not judged."""
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
    for cell, standing in zip(cells, ("steady", "steady", "steady", "noisy"), strict=False):
        make_judgement(cell, Standing(standing))
    changes = [make_change(cell) for cell in cells[:incident_of]]
    for change in changes:
        change.evidence = {"points_from": "2026-11-20T12:00:00+00:00"}
        change.save(update_fields=["evidence"])
    return make_incident(changes=changes)


def test_matrix_says_what_moved_and_what_did_not_with_words_and_signs(viewer: Client) -> None:
    words = read_one(viewer, make_cells()).words

    assert "2 of 4 cells moved in IOPS; 2 more are not judged." in words
    assert "4k random read, volumes 2: ▼ −15.0 % regression" in words
    assert "4k random read, volumes 4: unmoved" in words
    assert "4k random read, volumes 8: unmovedtoo noisy" in words
    assert "4k random read, volumes 16: not judged" in words


def test_cell_of_the_matrix_leads_to_its_history_around_the_change(viewer: Client) -> None:
    incident = make_cells()
    change = incident.changes.first()

    page = read_one(viewer, incident)

    assert f"/series/{change.series_id}/?metric=iops&from=2026-11-20T11:00:00Z" in page.links
    assert (
        viewer.get(page.links[page.links.index(next(u for u in page.links if "from=" in u))]).status_code
        == 200
    )


def test_matrix_of_a_metric_that_did_not_move_is_that_of_one_that_did(viewer: Client) -> None:
    incident = make_cells()

    page = Page(viewer.get(reverse("incident", args=[incident.pk]) + "?metric=%3Cscript%3E"))

    assert "2 of 4 cells moved in IOPS" in page.words


def test_incident_that_is_none_is_not_found(viewer: Client) -> None:
    assert viewer.get(reverse("incident", args=[999])).status_code == 404


def test_editor_acknowledges_and_takes_it_back(editor: Client) -> None:
    incident = make_one()

    page = act(editor, incident, "acknowledge", next="/incidents/?tab=new").content.decode()

    incident.refresh_from_db()
    assert incident.state == IncidentState.ACKNOWLEDGED
    assert f"Incident {incident.pk} is acknowledged." in page
    assert f"You acknowledged it: incident {incident.pk}" in page
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


def test_step_that_comes_too_late_says_so(editor: Client) -> None:
    incident = make_one(state=IncidentState.RESOLVED)

    page = act(editor, incident, "acknowledge").content.decode()

    assert f"Incident {incident.pk}: it is resolved already." in page


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("resolve", {"verdict": "gone"}, "is no verdict"),
        ("assign", {"assignee": "999"}, "choose somebody of the role editor or admin"),
        ("assign", {"assignee": "x"}, "is no number"),
        ("comment", {"words": " "}, "there are no words in it"),
        ("link", {"link": "javascript:alert(1)"}, "a link is an http or https address"),
        ("snooze", {"days": "9999"}, "at most 366 are kept"),
        ("merge", {"into": ""}, "is no number"),
        ("split", {}, "choose some of its changes"),
        ("accept", {}, "there is no new level to accept"),
    ],
)
def test_form_with_a_fault_changes_nothing_and_says_why(name, form, words, editor: Client) -> None:
    incident = make_one()

    page = act(editor, incident, name, **form).content.decode()

    assert words in page
    assert IncidentEvent.objects.filter(incident=incident).count() == 1


def test_act_that_is_none_is_not_found(editor: Client) -> None:
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
    act(editor, incident, "comment", words="a look at the array\nfirst")

    page = read_one(editor, incident)
    assert "assigned to grace" in page.words
    assert "https://tickets.example/7" in page.links
    assert "snoozed until" in page.words
    assert "a look at the array" in page.words


def test_editor_merges_one_into_another_and_ends_there(editor: Client) -> None:
    one, other = make_one(), make_one("db-8")

    response = act(editor, one, "merge", into=other.pk)

    assert response.redirect_chain[-1][0] == reverse("incident", args=[other.pk])
    assert "Merged into" in read_one(editor, one).words


def test_editor_splits_chosen_changes_off(editor: Client) -> None:
    changes = [make_change(make_series([1000.0, 850.0])) for _ in range(3)]
    incident = make_incident(changes=changes)

    response = act(editor, incident, "split", change=[changes[0].pk])

    fresh = Incident.objects.latest("pk")
    assert response.redirect_chain[-1][0] == reverse("incident", args=[fresh.pk])
    assert [change.pk for change in fresh.changes.all()] == [changes[0].pk]


def test_preview_names_what_would_be_accepted_and_the_choice_is_kept(editor: Client) -> None:
    series = [make_series([1000.0, 850.0]) for _ in range(2)]
    for each in series:
        make_judgement(each)
    incident = make_incident(changes=[make_change(each) for each in series])

    assert "IOPS 850was 1\u202f000, from 2026-11-21 13:00" in read_one(editor, incident).words
    act(editor, incident, "accept", series=[series[0].pk], words="new disks")

    pinned = [each.judgements.get().baseline_from_at for each in series]
    assert pinned == [NOON + timedelta(hours=1), None]
    assert "accepted the level" in read_one(editor, incident).words


@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (0.94, "not sure, 94 %"),
        (0.975, "sure, 97.5 %"),
        (0.997, "very sure, 99.7 %"),
        (0.9995, "very sure, 99.95 %"),
        (0.99995, "practically certain, over 99.99 %"),
    ],
)
def test_how_sure_a_change_is(confidence: float, words: str) -> None:
    assert say_confidence(confidence) == words


def test_worst_change_is_that_of_the_title(viewer: Client) -> None:
    series = make_series([1000.0, 850.0], host=make_host("db-7"))
    fallen = make_change(series, after=850.0)
    slower = make_change(series, metric="latency_p99_ns", after=1300.0, is_regression=True)

    words = read_one(viewer, make_incident(changes=[slower, fallen])).words

    assert "IOPS of db-7 down 15 % since" in words


def test_watched_cells_are_told_in_words(viewer: Client) -> None:
    series = make_series([1.0], host=make_host("db-7"), start_at=timezone.now())
    make_judgement(series, Standing.NOISY, least_change=0.24, runs_needed=50)

    words = Page(viewer.get(reverse("watched") + "?standing=noisy")).words

    assert (
        "Too noisy: what moves by less than 24 % is not found; 5 % is worth saying."
        " It would take 50 runs after a change to see that." in words
    )
    assert "None: a series is judged" in Page(viewer.get(reverse("watched") + "?standing=stale")).words
