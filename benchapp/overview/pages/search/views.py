"""The search page, and its results alone for the search dialog of every page."""

from dataclasses import asdict
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.page_context import find_visitor
from benchapp.overview.pages.search.completions import list_completions
from benchapp.overview.pages.search.results import find_results, list_corrections

TEXT_MAXIMUM: Final = 200


@never_cache
@require_safe
@may_read
def search(request: HttpRequest) -> HttpResponse:
    """Show what a text finds: hosts, series, runs, incidents, studies, pages, documentation."""
    return _render(request, "overview/search/search.html")


@never_cache
@require_safe
@may_read
def search_results(request: HttpRequest) -> HttpResponse:
    """Return the results of the search page without the page around them."""
    return _render(request, "overview/search/_search_results.html")


@never_cache
@require_safe
@may_read
def complete_word(request: HttpRequest) -> JsonResponse:
    """Return what a word at the caret of a filter may become, for the completion of the filter bar."""
    text = request.GET.get("text", "").replace("\x00", "")[:TEXT_MAXIMUM]
    return JsonResponse({"completions": [asdict(each) for each in list_completions(text)]})


def _render(request: HttpRequest, template: str) -> HttpResponse:
    text = " ".join(request.GET.get("text", "").replace("\x00", "").split())
    if len(text) > TEXT_MAXIMUM:
        error = f"The search takes at most {TEXT_MAXIMUM} characters; this text has {len(text)}."
        return render(request, template, {"text": text, "error": error}, status=400)
    context = {
        "text": text,
        "text_maximum": TEXT_MAXIMUM,
        "groups": find_results(text, find_visitor(request)),
    }
    return render(request, template, context | {"corrections": list_corrections(text) if text else []})
