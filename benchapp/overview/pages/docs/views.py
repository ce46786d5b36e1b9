"""Documentation pages, their search, and the files that they link to; public, as they have no data."""

import hashlib
import re
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from benchapp.overview.pages.docs.library import (
    FILE_TYPES,
    list_files,
    list_groups,
    list_pages,
    read_page,
    read_reference_page,
)
from benchapp.overview.pages.docs.pages import DocumentationPage
from benchapp.overview.pages.docs.search import TooManyWords, search_pages

# Different in each answer: the token of the sign-out form is masked anew.
_CSRF_FIELD: Final = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')
# Of a query in the address; longer ones than WORDS_MAXIMUM words have an error text.
QUERY_MAXIMUM: Final = 300


@require_safe
def documentation_page(request: HttpRequest, page_name: str = "") -> HttpResponseBase:
    """Show a page of docs/, or the list of badges or error codes; without a name the list of all pages."""
    page = read_page(page_name)
    if page is None:
        raise Http404(f"there is no documentation page {page_name!r}")
    return _answer_page(request, page)


@require_safe
def api_reference(request: HttpRequest, tag: str = "") -> HttpResponseBase:
    """Show the operations of a tag, the types of bodies, or without a tag the list of all operations."""
    page = read_reference_page(tag)
    if page is None:
        raise Http404(f"the API has no operations with the tag {tag!r}")
    return _answer_page(request, page)


@require_safe
def search_documentation(request: HttpRequest) -> HttpResponseBase:
    """Show the sections that have all words of `q`."""
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())
    context: dict[str, Any] = {"query": query, "groups": list_groups(), "query_maximum": QUERY_MAXIMUM}
    if len(query) > QUERY_MAXIMUM:
        context["error"] = (
            f"The search takes at most {QUERY_MAXIMUM} characters; this query has {len(query)}."
        )
    else:
        try:
            context["found"] = search_pages(query, list_pages())
        except TooManyWords as error:
            context["error"] = str(error)
    return _answer_once(
        request,
        render(request, "overview/docs/search.html", context, status=400 if "error" in context else 200),
    )


@require_safe
def documentation_file(request: HttpRequest, file_name: str) -> HttpResponseBase:
    """Send a file that pages link to: a screenshot, a template of CI."""
    file = list_files().get(file_name)
    if file is None:
        raise Http404(f"there is no file {file_name!r} in the documentation")
    return _answer_once(request, HttpResponse(file.read_bytes(), content_type=FILE_TYPES[file.suffix]))


def _answer_page(request: HttpRequest, page: DocumentationPage) -> HttpResponseBase:
    return _answer_once(
        request, render(request, "overview/docs/page.html", {"page": page, "groups": list_groups()})
    )


def _answer_once(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Return the response with an ETag, or 304 if the browser has it.

    The tag depends on all that the page shows, the navigation of this visitor included, and on the secret of its forms.
    """
    if response.status_code != 200:
        return response
    secret = request.COOKIES.get(settings.CSRF_COOKIE_NAME, "").encode()
    digest = hashlib.sha256(_CSRF_FIELD.sub(b"", response.content) + secret).hexdigest()[:24]
    # Weak, as the answer may be compressed.
    etag = f'W/"{digest}"'
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if etag in known:
        response = HttpResponse(status=304)
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, no-cache"
    return response
