"""Give rejected submissions another chance."""

from uuid import UUID

from benchapp.models import State, Submission


def retry_submission(submission_id: UUID) -> bool:
    """Put a rejected submission back to received; False when it is not rejected or its body is gone."""
    return _retry(id=submission_id) == 1


def retry_rejected(reason_code: str) -> int:
    """Put all submissions that were rejected for this reason back to received; return how many."""
    return _retry(reason_code=reason_code)


def _retry(**which: object) -> int:
    return Submission.objects.filter(state=State.REJECTED, body__isnull=False, **which).update(
        state=State.RECEIVED, attempts=0, settled_at=None, reason_code="", reason="", parser_version=None
    )
