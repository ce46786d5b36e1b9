"""Pages that the browser asks for again: only what changed is sent, and static/js/site/live.js shows it."""

import hashlib
import re
from functools import wraps
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags

from benchapp.framework.pages.access import View

# Masked anew in each answer.
_CSRF_FIELD: Final = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')


def answer_once(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Return the response with an ETag, or 304 if the browser has it.

    The tag depends on all that the page shows, the navigation of this visitor included, and on the secret of its forms.
    """
    if not isinstance(response, HttpResponse) or response.status_code != 200:
        return response
    secret = request.COOKIES.get(settings.CSRF_COOKIE_NAME, "").encode()
    digest = hashlib.sha256(_CSRF_FIELD.sub(b"", response.content) + secret).hexdigest()[:24]
    # Weak, as the answer may be compressed.
    etag = f'W/"{digest}"'
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        response = HttpResponse(status=304)
    response.headers["ETag"] = etag
    return response


def updates_itself(view: View) -> View:
    """Let the browser ask for this page every few seconds while it is visible."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        request.updates_itself = True  # type: ignore[attr-defined]  # for templates/base.html
        if "If-None-Match" in request.headers and hasattr(request, "_messages"):
            # A message is for the page that a person opens next.
            del request._messages
        return answer_once(request, view(request, *args, **kwargs))

    return answer
