"""POST /api/v1/submissions/batch: documents one per line, stored in one transaction, with an answer for each."""

from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import parse_qsl
from uuid import UUID

from msgspec import Meta

from benchapp.api.framework.answers import ApiAnswer
from benchapp.api.framework.problems import Problem, ProblemAnswer, describe_problem
from benchapp.api.ingest.documents import Post, read_document, refuse_query_parameters
from benchapp.models import State
from benchapp.pipeline.intake.submissions import (
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submissions,
)

BATCH: Final = "/api/v1/submissions/batch"
BATCH_MAXIMUM: Final = 200


class BatchItemAnswer(ApiAnswer, kw_only=True, frozen=True):
    """The answer about one line: what a single POST would answer."""

    index: Annotated[int, Meta(description="number of the line, from 0")]
    status: Annotated[int, Meta(description="202 received, 200 received before, else a problem")]
    id: UUID | None
    state: State | None
    url: str | None
    problem: ProblemAnswer | None


class BatchAnswer(ApiAnswer, kw_only=True, frozen=True):
    """One answer for each line, in their order."""

    received: Annotated[int, Meta(description="number of lines that were stored now")]
    replayed: Annotated[int, Meta(description="number of lines that were stored before")]
    refused: Annotated[int, Meta(description="number of lines with a problem; they are not stored")]
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
    # Counted before it is split: a body of line feeds alone would be a list of millions.
    count = body.count(b"\n") + (not body.endswith(b"\n"))
    if count > BATCH_MAXIMUM:
        raise Problem(
            413,
            "batch-too-long",
            "Batch too long",
            f"{count} lines exceed the maximum of {BATCH_MAXIMUM}; nothing was stored",
        )
    lines = body.split(b"\n")
    if not lines[-1].strip():
        lines.pop()
    return lines


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
    if not line.strip():
        return Problem(400, "body-empty", "Empty line", "the line is empty: send one document per line")
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
