from datetime import timedelta

import pytest

from benchapp.intake.read import count_uploads, list_uploads, read_upload
from benchapp.models import State
from benchapp.storage.read.hosts import count_totals
from tests.factories import NOON, make_host, make_run, make_series, make_submission, make_submission_id

pytestmark = pytest.mark.django_db


def test_uploads_are_listed_newest_first_with_one_query(django_assert_num_queries):
    old = make_submission()
    new = make_submission(received_at=NOON + timedelta(hours=1), state=State.REJECTED, body=None)

    with django_assert_num_queries(1):
        page = list_uploads()

    assert [upload.id for upload in page.items] == [new.id, old.id]
    assert (page.items[0].reason_code, page.items[0].has_body) == ("output-empty", False)


@pytest.mark.parametrize("state", State.values)
def test_uploads_of_one_state(state):
    wanted = {each: make_submission(state=each).id for each in State.values}

    assert [upload.id for upload in list_uploads(state).items] == [wanted[state]]


def test_uploads_of_one_host_and_of_one_reason():
    wanted = make_submission(make_host("a"), state=State.REJECTED, reason_code="worker-died")
    make_submission(make_host("b"), state=State.REJECTED)

    assert [upload.id for upload in list_uploads(host="a").items] == [wanted.id]
    assert [upload.id for upload in list_uploads(reason_code="worker-died").items] == [wanted.id]


def test_pages_lose_no_upload_of_equal_time():
    host = make_host()
    numbers = [5, 1, 4, 2, 3]
    for number in numbers:
        make_submission(host, id=make_submission_id(number))

    first = list_uploads(limit=3)
    second = list_uploads(limit=3, after=first.next_cursor)

    assert [upload.id.int for upload in (*first.items, *second.items)] == [1, 2, 3, 4, 5]
    assert second.next_cursor is None


def test_upload_names_its_runs_in_their_order():
    submission = make_submission()
    second = make_run(submission.host, submission=submission, document=1)
    first = make_run(submission.host, submission=submission, document=0)

    assert read_upload(submission.id).run_ids == [first.id, second.id]
    assert read_upload(make_submission_id(9)) is None


def test_counts_are_by_state_hour_and_reason(django_assert_num_queries):
    now = NOON + timedelta(minutes=30)
    make_submission(state=State.RECEIVED, received_at=NOON)
    make_submission(received_at=NOON - timedelta(hours=23))
    make_submission(received_at=NOON - timedelta(hours=24))
    for code in ("worker-died", "output-empty", "output-empty"):
        make_submission(state=State.REJECTED, reason_code=code, received_at=NOON)

    with django_assert_num_queries(3):
        counts = count_uploads(now=now)

    assert (counts.received, counts.stored, counts.rejected) == (1, 2, 3)
    assert list(counts.by_reason) == [
        ("output-empty", 2),
        ("worker-died", 1),
    ]
    assert len(counts.per_hour) == 24
    assert (counts.per_hour[0]["hour_at"], counts.per_hour[0]["stored"]) == (NOON - timedelta(hours=23), 1)
    assert (counts.per_hour[-1]["received"], counts.per_hour[-1]["rejected"]) == (1, 3)


def test_totals_count_everything(django_assert_num_queries):
    make_submission(state=State.RECEIVED, received_at=NOON)
    make_host(retired_at=NOON)
    make_series([1.0, 2.0])

    with django_assert_num_queries(12):
        totals = count_totals(now=NOON + timedelta(seconds=90))

    assert totals.submissions == {"received": 1, "stored": 2, "rejected": 0}
    assert (totals.oldest_received_age_s, totals.runs, totals.series, totals.hosts) == (90.0, 2, 1, 2)


def test_totals_of_an_empty_database_are_zero():
    totals = count_totals()

    assert totals.submissions == {"received": 0, "stored": 0, "rejected": 0}
    assert totals.oldest_received_age_s == 0.0
