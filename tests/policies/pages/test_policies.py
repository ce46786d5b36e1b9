"""Pages of detection policies and dry runs."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import DetectionPolicy
from benchapp.policies.write import advance_dry_runs
from tests.detection.write.judging import judge_all, make_cells, make_level
from tests.factories import make_detection_policy, make_dry_run, make_host
from tests.pages import Page

pytestmark = pytest.mark.django_db
GIVEN = {"metric": "iops", "threshold": "2", "filter": "host:db-1", "label": "", "reason": "small steps"}


def test_empty_list_says_what_policies_are_for(editor: Client, viewer: Client) -> None:
    assert "every series has the default thresholds" in Page(editor.get("/policies/")).words
    assert "Requires the editor role." in Page(viewer.get("/policies/")).words
    assert "Add policy or dry run" not in Page(viewer.get("/policies/")).words


def test_saved_policy_is_listed_with_threshold_and_default(editor: Client) -> None:
    response = editor.post("/policies/add", GIVEN)

    policy = DetectionPolicy.objects.get()
    assert (policy.smallest_change, policy.filter, policy.reason) == (0.02, "host:db-1", "small steps")
    assert response["Location"] == f"/policies/{policy.pk}/"
    words = Page(editor.get("/policies/")).words
    assert "small steps" in words
    page = Page(editor.get(f"/policies/{policy.pk}/")).words
    assert "IOPS from 2 % on: host:db-1" in page
    assert "2 %, default 5 %" in page


def test_page_of_a_policy_has_the_number_of_measured_series_that_match(viewer: Client) -> None:
    make_cells(make_host("db-1"), [make_level(1000.0, 3), make_level(1000.0, 3)])
    some, none = make_detection_policy(filter="host:db-1"), make_detection_policy(label="tier=prod")

    assert "2 measured series match" in Page(viewer.get(f"/policies/{some.pk}/")).words
    assert "no measured series matches" in Page(viewer.get(f"/policies/{none.pk}/")).words


def test_policy_is_canceled_and_restored_on_its_page(editor: Client) -> None:
    policy = make_detection_policy()

    editor.post(f"/policies/{policy.pk}/cancel")
    assert f"/policies/{policy.pk}/" not in editor.get("/policies/").content.decode()
    assert "noisy" in Page(editor.get("/policies/?tab=canceled")).words
    editor.post(f"/policies/{policy.pk}/restore")

    page = Page(editor.get(f"/policies/{policy.pk}/")).words
    assert page.index("created") < page.index("canceled") < page.index("restored")
    policy.refresh_from_db()
    assert policy.canceled_at is None


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"threshold": "0.5"}, "greater than or equal to 1"),
        ({"threshold": "nan"}, "number"),
        ({"filter": "kernel:6.1"}, "is a fact of runs"),
        ({"filter": "label.branch:main"}, "is a fact of runs"),
        ({"filter": "profile:quick"}, "is a fact of runs"),
        ({"label": "prod"}, "Write KEY=VALUE."),
        ({"reason": ""}, "required"),
    ],
)
def test_invalid_policy_shows_the_error_at_its_field(
    changed: dict[str, str], text: str, editor: Client
) -> None:
    response = editor.post("/policies/add", GIVEN | changed)

    assert response.status_code == 400
    assert text in Page(response).words
    assert not DetectionPolicy.objects.exists()


def test_dry_run_needs_no_reason_and_shows_progress_then_the_incidents(editor: Client) -> None:
    values = [[*make_level(1000.0, 60), *make_level(965.0, 20)]]
    start_at = timezone.now() - timedelta(days=80)
    (series,) = make_cells(make_host("db-1"), values, start_at=start_at, step=timedelta(days=1))
    judge_all()

    response = editor.post("/policies/add", {**GIVEN, "reason": "", "dry_run": "yes"})
    page = editor.get(response["Location"])
    assert "Dry run of IOPS from 2 % on: 0 of 1 series evaluated" in Page(page).words
    advance_dry_runs(budget_s=60)
    done = editor.get(response["Location"])

    words = Page(done).words
    assert "1 incident instead of 0 with IOPS from 2 % on" in words
    assert "db-1: IOPS −3.5 % in 1 series" in words
    assert f"/series/{series.pk}/detection/?metric=iops" in done.content.decode()
    assert "1 incident instead of 0" in Page(editor.get("/policies/")).words
    assert not DetectionPolicy.objects.exists()


def test_dry_run_links_to_the_form_with_its_threshold(editor: Client) -> None:
    dry_run = make_dry_run(filter="pool:web", smallest_change=0.025, state="done")

    link = "/policies/add?metric=iops&amp;threshold=2.5&amp;filter=pool%3Aweb&amp;label="
    assert link in editor.get(f"/policies/dry-runs/{dry_run.pk}/").content.decode()
    form = editor.get("/policies/add?metric=iops&threshold=2.5&filter=pool:web").content.decode()
    assert 'value="2.5"' in form
    assert 'value="pool:web"' in form


def test_dry_run_with_more_series_says_that_it_is_cut(viewer: Client) -> None:
    dry_run = make_dry_run(series_ids=[1], series_count=1200)

    words = Page(viewer.get(f"/policies/dry-runs/{dry_run.pk}/")).words

    assert "Only the first 1 of 1\u202f200 matching series are evaluated: narrow the filter." in words


def test_failed_dry_run_says_so(viewer: Client) -> None:
    failed = make_dry_run(state="failed")

    assert "The evaluation failed" in Page(viewer.get(f"/policies/dry-runs/{failed.pk}/")).words


def test_running_dry_run_is_canceled_on_its_page(editor: Client, viewer: Client) -> None:
    address = f"/policies/dry-runs/{make_dry_run().pk}/"
    assert f'action="{address}cancel"' not in viewer.get(address).content.decode()
    assert f'action="{address}cancel"' in editor.get(address).content.decode()

    editor.post(f"{address}cancel")
    again = editor.post(f"{address}cancel", follow=True)

    page = Page(again)
    assert "Dry run of IOPS from 2 % on canceled" in page.words
    assert "it is canceled" in page.words
    assert "The evaluation failed" not in page.words
    assert editor.post("/policies/dry-runs/999/cancel").status_code == 404
