"""POST /api/v1/submissions/batch: documents one per line, stored in one transaction, with an answer for each."""

import re
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import parse_qsl
from uuid import UUID

from msgspec import Meta

from benchapp.framework.api.answers import ApiAnswer, build
from benchapp.framework.api.problems import Problem, ProblemAnswer, describe_problem
from benchapp.intake.api.documents import Post, read_document, refuse_query_parameters
from benchapp.intake.api.hints import refuse_wrapped, suggest_lines
from benchapp.intake.posts.submissions import (
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submissions,
)
from benchapp.models import State

BATCH_MAXIMUM: Final = 200
_BLANK_LINES: Final = re.compile(rb"\n\s*\n")


class BatchItemAnswer(ApiAnswer, kw_only=True, frozen=True):
    """The answer about one line: what a single POST would answer."""

    index: Annotated[int, Meta(description="number of the document, from 0; blank lines do not count")]
    status: Annotated[int, Meta(description="202 received, 200 received before, else a problem")]
    id: UUID | None
    state: State | None
    url: str | None
    problem: ProblemAnswer | None


class BatchAnswer(ApiAnswer, kw_only=True, frozen=True):
    """One answer for each document, in their order."""

    received: Annotated[int, Meta(description="number of lines that were stored now")]
    replayed: Annotated[int, Meta(description="number of lines that were stored before")]
    refused: Annotated[int, Meta(description="number of lines with a problem; they are not stored")]
    items: Sequence[BatchItemAnswer]


class RefusedBatchAnswer(ProblemAnswer, kw_only=True, frozen=True):
    """RFC 9457, with the answer for each document."""

    items: Sequence[BatchItemAnswer]


def split_batch(post: Post, body: bytes) -> list[bytes]:
    """Return the lines of a batch, as many as documents; raises Problem 400 or 413."""
    refuse_query_parameters(parse_qsl(post.query, keep_blank_values=True))
    if "idempotency-key" in post.headers:
        raise Problem(
            400,
            "idempotency-key-invalid",
            "Bad Idempotency-Key",
            "a batch has no Idempotency-Key: the id of each document is its key",
        )
    if not body.strip():
        raise Problem(400, "body-empty", "Empty body", "the body is empty: send one document per line")
    refuse_wrapped(post.path, body)
    # Counted before it is split: a body of millions of lines would be a list of these.
    lines = _BLANK_LINES.sub(b"\n", b"\n%b\n" % body)[1:-1]
    count = lines.count(b"\n") + 1
    if count > BATCH_MAXIMUM:
        raise Problem(
            413,
            "batch-too-long",
            "Batch too long",
            f"{count} lines exceed the maximum of {BATCH_MAXIMUM}; nothing was stored{suggest_lines(body)}",
        )
    return lines.split(b"\n")


def store_batch(lines: Sequence[bytes], host_id: int) -> BatchAnswer:
    """Store the valid documents in one transaction; a line that is refused does not prevent the others."""
    read = [_read_line(line, host_id) for line in lines]
    results = iter(accept_submissions([each for each in read if isinstance(each, IncomingSubmission)]))
    items = [
        _describe_refusal(index, each)
        if isinstance(each, Problem)
        else _describe_result(index, next(results))
        for index, each in enumerate(read)
    ]
    statuses = [item.status for item in items]
    received, replayed = statuses.count(202), statuses.count(200)
    return BatchAnswer(
        received=received, replayed=replayed, refused=len(items) - received - replayed, items=items
    )


def describe_refused_batch(stored: BatchAnswer, body: bytes) -> RefusedBatchAnswer:
    """Return the answer to a batch without an accepted line: some senders look at the status alone."""
    reason = next(item.problem.detail for item in stored.items if item.problem is not None)
    problem = Problem(
        422,
        "batch-refused",
        "Batch refused",
        f"none of {len(stored.items)} lines was taken; nothing was stored{suggest_lines(body)}; the first: {reason}",
    )
    return build(RefusedBatchAnswer, describe_problem(problem), items=stored.items)


def refuse_conflict(result: AcceptResult) -> None:
    """Raise Problem 409 if another body has the id."""
    if result.outcome == AcceptOutcome.CONFLICT:
        raise Problem(
            409,
            "id-taken",
            "Id taken",
            f"submission {result.id} exists with a different body: create a new id for each result",
        )


def _read_line(line: bytes, host_id: int) -> IncomingSubmission | Problem:
    try:
        kind, document_id = read_document(line, None)
    except Problem as problem:
        return problem
    return IncomingSubmission(host_id, kind, line, document_id)


def _describe_result(index: int, result: AcceptResult) -> BatchItemAnswer:
    try:
        refuse_conflict(result)
    except Problem as problem:
        return _describe_refusal(index, problem)
    return BatchItemAnswer(
        index=index,
        status=202 if result.outcome == AcceptOutcome.NEW else 200,
        id=result.id,
        state=result.state,
        url=f"/api/v1/submissions/{result.id}",
        problem=None,
    )


def _describe_refusal(index: int, problem: Problem) -> BatchItemAnswer:
    return BatchItemAnswer(
        index=index,
        status=problem.status,
        id=None,
        state=None,
        url=None,
        problem=describe_problem(problem),
    )
