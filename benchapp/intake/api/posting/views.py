"""The views of POST /api/v1/submissions, its batch, and /api/v1/fio."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from threading import Lock
from typing import Any, Final

import structlog
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from benchapp.framework.api.answers import dump_json
from benchapp.framework.api.problems import DATABASE_AWAY, Problem, answer_problem, call_with_retry
from benchapp.framework.queue import wake_up
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post
from benchapp.intake.api.posting.validation import describe_validation
from benchapp.intake.api.posts import answer_post

log = structlog.get_logger(__name__)

# Concurrent posts share one wake-up: the worker claims in batches.
_WAKE_UP_DELAY_S: Final = 0.02
_publisher = ThreadPoolExecutor(1, thread_name_prefix="wake-up")
_wake_up_asked = Lock()


def take_posts(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Return a view that accepts results by POST, and leaves other methods to the given view."""

    @csrf_exempt
    @wraps(view)
    def answer(request: HttpRequest, **named: Any) -> HttpResponseBase:
        return _take_post(request) if request.method == "POST" else view(request, **named)

    return answer


def refuse_method(request: HttpRequest) -> HttpResponse:
    """Return 405 with the only method that this URL allows."""
    allow = {"Allow": "OPTIONS, POST"}
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers=allow)
    return answer_problem(
        Problem(405, "method-not-allowed", "Method not allowed", "POST results here", headers=allow)
    )


def _take_post(request: HttpRequest) -> HttpResponse:
    # The guard has read the body, and announces gzip by this name alone.
    wire = Wire(request.read(), request.headers.get("Content-Encoding") == "gzip")
    post = Post(request.path, request.META["QUERY_STRING"], request.headers, wire)
    try:
        # Submission is idempotent.
        answer = call_with_retry(partial(answer_post, post, validate=describe_validation))
    except Problem as problem:
        return answer_problem(problem)
    except DATABASE_AWAY:
        raise
    except Exception:
        # Process edge: log the bug and let the sender keep its file.
        log.exception("intake.failed")
        return answer_problem(
            Problem(
                500, "fault", "Internal error", "internal server error; nothing was stored: try again later"
            )
        )
    if answer.is_new and _wake_up_asked.acquire(blocking=False):
        _publisher.submit(_wake_up_soon)
    return HttpResponse(
        dump_json(answer.body),
        status=answer.status,
        content_type=answer.content_type,
        headers={"Cache-Control": "no-store", **answer.headers},
    )


def _wake_up_soon() -> None:
    time.sleep(_WAKE_UP_DELAY_S)
    _wake_up_asked.release()
    wake_up()
