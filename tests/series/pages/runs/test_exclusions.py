"""Editors take a run out of medians on its page, with a reason, and put it back."""

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Role, Run
from benchapp.series.write import exclude_run
from tests.factories import make_series, make_user
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def run() -> Run:
    make_series([10.0])
    return Run.objects.get()


def read_page(client: Client, run: Run) -> str:
    return client.get(reverse("run", args=[run.pk])).content.decode()


def exclude(client: Client, run: Run, reason: str, *, follow: bool = True) -> str:
    response = client.post(reverse("exclude_run", args=[run.pk]), {"reason": reason}, follow=follow)
    return response.content.decode()


def test_page_says_who_excluded_the_run_and_why(viewer: Client, run: Run) -> None:
    exclude_run(run.pk, make_user(Role.EDITOR, username="anna"), reason="<b>loose</b> cable")

    page = read_page(viewer, run)

    assert "<strong>Excluded</strong> by anna on" in page
    assert "&lt;b&gt;loose&lt;/b&gt; cable" in page
    assert "does not count in medians" in page


def test_run_that_a_program_excluded_names_nobody(viewer: Client, run: Run) -> None:
    exclude_run(run.pk, None, reason="noise")

    assert "<strong>Excluded</strong> on" in read_page(viewer, run)


def test_editor_excludes_and_undoes_it(editor: Client, run: Run) -> None:
    page = exclude(editor, run, "a backup ran")

    assert "a backup ran" in page
    assert "Include run" in page
    back = editor.post(reverse("include_run", args=[run.pk]), follow=True).content.decode()
    assert "is included in medians again" in back
    assert 'value="a backup ran"' in back
    assert Run.objects.get().excluded_at is None


def test_reason_must_be_given(editor: Client, run: Run) -> None:
    page = exclude(editor, run, "  ")

    assert "Not excluded: a reason is required" in page
    assert Run.objects.get().excluded_at is None


def test_viewer_has_no_buttons(viewer: Client, run: Run) -> None:
    assert reverse("exclude_run", args=[run.pk]) not in read_page(viewer, run)
    exclude_run(run.pk, None, reason="noise")
    assert reverse("include_run", args=[run.pk]) not in read_page(viewer, run)


def test_list_of_runs_marks_it(viewer: Client, run: Run) -> None:
    exclude_run(run.pk, None, reason="noise")

    assert ">excluded</span>" in viewer.get(reverse("runs")).content.decode()


def test_run_that_is_none_is_not_excluded(editor: Client) -> None:
    assert editor.post(reverse("exclude_run", args=[77]), {"reason": "noise"}).status_code == 404
