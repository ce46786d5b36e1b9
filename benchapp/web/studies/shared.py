"""Studies as strangers read them, by a secret address: the words at once, then each picture by its own request."""

from dataclasses import dataclass
from typing import Final

from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from benchapp.queries.studies import StudyDetail, read_shared_study
from benchapp.web.site.errors import not_found
from benchapp.web.site.markdown import render_markdown
from benchapp.web.studies.page_cache import KeptPages
from benchapp.web.studies.panels import DRAWN_KINDS, list_kinds, make_panel, name_panel
from benchapp.web.studies.rate_limit import count_picture

# A link that was posted somewhere draws each picture once in this time, however many follow it.
KEPT_S: Final = 300
_KEPT: Final = KeptPages(kept_s=KEPT_S, pages_maximum=500, bytes_maximum=64 * 2**20)
_NO_STUDY: Final = "This link leads to no study: it may have been withdrawn. Ask whoever gave it to you."


@dataclass(frozen=True, slots=True)
class PicturePlace:
    """Where a picture of a shared study will be: what is known of it before it is drawn."""

    place: int
    kind: str
    title: str
    words: SafeString


@require_safe
def shared_study(request: HttpRequest, token: str) -> HttpResponse:
    """Show title and words of one study to whoever has its link; no way leads from it to other pages of this server."""
    study = read_shared_study(token)
    if study is None:
        return _refuse(request, token)
    page = _KEPT.read_or_make(token, "study", state=study.version, make=lambda: _show_study(study))
    return _seal(HttpResponse(page))


@require_safe
def shared_picture(request: HttpRequest, token: str, place: int) -> HttpResponse:
    """Show one picture of a shared study, drawn from numbers that are at most five minutes old."""
    wait_s = count_picture(request)
    if wait_s:
        return _put_off(wait_s)
    study = read_shared_study(token)
    if study is None or not 1 <= place <= len(study.panels):
        return _refuse(request, token)
    _hand_back_connection()
    page = _KEPT.read_or_make(
        token, str(place), state=study.version, make=lambda: _show_picture(request, study, place)
    )
    return _seal(HttpResponse(page))


def _show_study(study: StudyDetail) -> bytes:
    places = [
        PicturePlace(place, panel.kind, name_panel(panel), render_markdown(panel.words, has_own_links=False))
        for place, panel in enumerate(study.panels, start=1)
    ]
    context = {
        "study": study,
        "words": render_markdown(study.words, has_own_links=False),
        "places": places,
        "kinds": sorted({panel.kind for panel in study.panels} & DRAWN_KINDS),
    }
    # Without the request: what is kept for all must know nothing of one visitor.
    return render_to_string("studies/shared_study.html", context).encode()


def _show_picture(request: HttpRequest, study: StudyDetail, place: int) -> bytes:
    panel = make_panel(request, study.panels[place - 1], place, has_links=False)
    context = {"study": study, "panel": panel, "kinds": list_kinds([panel])}
    return render_to_string("studies/shared_chart.html", context).encode()


def _hand_back_connection() -> None:
    """Give the connection back to the pool: whoever waits for what another draws must not hold one."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def _refuse(request: HttpRequest, token: str) -> HttpResponse:
    _KEPT.forget(token)
    return _seal(not_found(request, Http404(_NO_STUDY)))


def _put_off(wait_s: int) -> HttpResponse:
    page = render_to_string("studies/shared_deferred.html", {"wait_s": wait_s})
    return _seal(HttpResponse(page, status=429, headers={"Retry-After": str(wait_s)}))


def _seal(answer: HttpResponse) -> HttpResponse:
    """The address is the key: no search engine shall list it, no link shall carry it on, no cache shall keep it."""
    answer["X-Robots-Tag"] = "noindex, nofollow"
    answer["Referrer-Policy"] = "no-referrer"
    patch_cache_control(answer, private=True, no_store=True)
    return answer
