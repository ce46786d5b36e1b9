"""Pages that the browser asks for again."""

import pytest
from django.test import Client

from benchapp.models import Host, RunRequestState, State, Submission
from tests.factories import (
    make_attempt,
    make_correction,
    make_dry_run,
    make_host,
    make_request_policy,
    make_run,
    make_run_request,
    make_submission,
)

pytestmark = pytest.mark.django_db
SCRIPT = "js/site/live.js"


def list_addresses() -> dict[str, str]:
    host = make_host("db-1")
    make_request_policy(host)
    make_run_request(host)
    run = make_run(host)
    upload = make_submission(host, state=State.RECEIVED)
    return {
        "overview": "/",
        "uploads": "/uploads/",
        "upload": f"/uploads/{upload.pk}/",
        "host": "/hosts/db-1/",
        "run": f"/runs/{run.pk}/",
        "requested runs": "/requests/",
        "dry run": f"/policies/dry-runs/{make_dry_run().pk}/",
        "correction": f"/corrections/{make_correction().pk}/",
    }


def test_unchanged_page_is_sent_once(editor: Client) -> None:
    for name, address in list_addresses().items():
        editor.get(address)
        first = editor.get(address)
        again = editor.get(address, headers={"If-None-Match": first["ETag"]})

        assert SCRIPT in first.content.decode(), name
        assert (again.status_code, again.content) == (304, b""), name
        assert "no-store" in first["Cache-Control"], name


def test_changed_page_is_sent_again(viewer: Client) -> None:
    addresses = list_addresses()
    etags = {name: viewer.get(addresses[name])["ETag"] for name in ("overview", "upload", "host")}

    make_attempt(Host.objects.get())
    Submission.objects.filter(state=State.RECEIVED).update(state=State.REJECTED, reason_code="no-jobs")

    answers = {
        name: viewer.get(addresses[name], headers={"If-None-Match": etag}) for name, etag in etags.items()
    }
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(etags, 200)
    assert "rejected" in answers["upload"].content.decode()


def test_message_is_shown_on_the_page_that_is_opened_not_on_an_update(editor: Client) -> None:
    request = make_run_request(make_host("db-1"), state=RunRequestState.PENDING)
    editor.get("/")
    editor.post(f"/hosts/db-1/requests/{request.pk}/cancel")

    update = editor.get("/", headers={"If-None-Match": '""'})
    opened = editor.get("/")

    assert "Request canceled." not in update.content.decode()
    assert "Request canceled." in opened.content.decode()


def test_other_pages_do_not_update_themselves(viewer: Client) -> None:
    answer = viewer.get("/runs/")

    assert SCRIPT not in answer.content.decode()
    assert "ETag" not in answer
