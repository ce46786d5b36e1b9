"""Shared studies: read by a secret link; the text at once, then each chart by its own request; previews of the link."""

from collections.abc import Callable
from html import unescape
from threading import BoundedSemaphore
from typing import Any, Final

from django.conf import settings
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.html import strip_tags
from django.views.decorators.http import require_safe

from benchapp.accounts.write.accounts import network_of
from benchapp.accounts.write.throttle import WindowQuota
from benchapp.catalog.metrics import format_count
from benchapp.charts.images.frame import (
    CONTENT_TYPES,
    HEIGHT_DEFAULT,
    WIDTH_DEFAULT,
    ImageOptions,
    Theme,
    TooManyDrawings,
)
from benchapp.framework.pages.access import not_found
from benchapp.framework.pages.markdown import render_markdown
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.security import read_client_address
from benchapp.framework.read.binary_columns import STUDY_S, make_key
from benchapp.framework.times import format_moment
from benchapp.models import Study
from benchapp.reports.pages.panels import (
    RENDERED_KINDS,
    ShownStudyPanel,
    draw_panel,
    list_kinds,
    make_panel,
    make_sharp,
    name_panel,
    show_frozen_panels,
)
from benchapp.reports.read import read_shared_study, read_snapshot_image

_DESCRIPTION_MAXIMUM: Final = 200


def make_preview(study: Study, *, base_url: str) -> dict[str, Any]:
    """Return the preview of a shared study; of one with a snapshot, of its first chart as it was."""
    arguments = [study.share_token]
    url = base_url + reverse("shared_study", args=arguments)
    frozen = next(iter(study.frozen_charts), None)
    has_image = bool(study.panels) and (study.taken_snapshot is None or frozen is not None)
    return {
        "title": study.title,
        "description": _describe(study),
        "url": url,
        "image_url": base_url + reverse("shared_image", args=arguments) if has_image else "",
        "width": frozen.width if frozen else WIDTH_DEFAULT,
        "height": frozen.height if frozen else HEIGHT_DEFAULT,
    }


def _describe(study: Study) -> str:
    """Return the beginning of the text of a study, without its markup; the number of charts without a text."""
    html = render_markdown(study.text, has_own_links=False)
    text = " ".join(unescape(strip_tags(html)).split())
    if not text:
        return f"{format_count(len(study.panels), 'chart')} of storage benchmarks"
    if len(text) <= _DESCRIPTION_MAXIMUM:
        return text
    return f"{text[: _DESCRIPTION_MAXIMUM - 1].rsplit(' ', 1)[0]}…"


# Per web process; a key takes a few hundred bytes.
_QUOTA: Final = WindowQuota(window_s=60, keys_maximum=10_000)


def count_shared(request: HttpRequest) -> int:
    """Count one chart for the client. Return 0 within the limit, else the seconds to wait."""
    counted = _QUOTA.count(network_of(read_client_address(request)))
    return counted.seconds_left if counted.count > settings.SHARED_CHARTS_PER_MINUTE else 0


_BUSY_WAIT_S: Final = 2
# Half of the connections: a crowd that follows a link to slow charts does not block other requests.
RENDERING_MAXIMUM: Final = 8
_RENDERING: Final = BoundedSemaphore(RENDERING_MAXIMUM)
# Incidents are no part of a shared study.
_IMAGE_OPTIONS: Final = ImageOptions(format="png", height=HEIGHT_DEFAULT, has_incidents=False)
_NO_STUDY: Final = "Report not found: the shared link may have been revoked. Ask its owner for a new one."


@require_safe
def shared_study(request: HttpRequest, token: str) -> HttpResponse:
    """Show title and text of a study by its shared link, without links to other pages of this server."""
    study = read_shared_study(token)
    if study is None:
        return _reject(request)
    return _add_private_headers(HttpResponse(_render_study(study, make_base_url(request))))


@require_safe
def shared_chart(request: HttpRequest, token: str, place: int) -> HttpResponse:
    """Show one chart of a shared study, with data at most five minutes old."""
    wait_s = count_shared(request)
    if wait_s:
        return _defer("Your IP address exceeded the limit of charts per minute.", wait_s=wait_s, status=429)
    study = read_shared_study(token)
    if study is None or not 1 <= place <= len(study.panels):
        return _reject(request)
    return _answer_cached(study, str(place), render=lambda: _render_chart(request, study, place))


@require_safe
def shared_image(request: HttpRequest, token: str, place: int = 0) -> HttpResponse:
    """Draw a chart of a shared study as a PNG, with data at most five minutes old.

    place: from 1, as it is saved, in the theme of the query; 0: the first one for previews of the link.
    """
    wait_s = count_shared(request)
    if wait_s:
        return _defer("Your IP address exceeded the limit of charts per minute.", wait_s=wait_s, status=429)
    study = read_shared_study(token)
    index = max(place - 1, 0)
    if study is None or index >= len(study.panels):
        return _reject(request)
    theme: Theme = "dark" if place and request.GET.get("theme") == "dark" else "light"
    if study.taken_snapshot is not None:
        frozen = study.frozen_charts[index]
        return _answer_frozen(request, token, frozen.place if frozen else 0, theme)
    page = make_base_url(request) + reverse("shared_study", args=[token])
    options = make_sharp(theme, f"{format_moment(timezone.now())} · {page}") if place else _IMAGE_OPTIONS
    return _answer_cached(
        study,
        f"image-{place}-{theme}",
        render=lambda: draw_panel(study.charts[index], options),
        content_type=CONTENT_TYPES["png"],
    )


@require_safe
def shared_snapshot_image(request: HttpRequest, token: str, place: int, theme: str) -> HttpResponse:
    """Return a chart of the snapshot of a shared study as PNG."""
    wait_s = count_shared(request)
    if wait_s:
        return _defer("Your IP address exceeded the limit of charts per minute.", wait_s=wait_s, status=429)
    return _answer_frozen(request, token, place, theme)


def _answer_cached(
    study: Study, name: str, *, render: Callable[[], bytes], content_type: str | None = None
) -> HttpResponse:
    key = make_key("shared", study.share_token, study.version, study.snapshot_at, name)
    page = cache.get(key)
    if page is None:
        if not _RENDERING.acquire(blocking=False):
            return _defer_busy()
        try:
            page = render()
        except TooManyDrawings:
            return _defer_busy()
        finally:
            _RENDERING.release()
        cache.set(key, page, STUDY_S)
    return _add_private_headers(HttpResponse(page, content_type=content_type))


def _answer_frozen(request: HttpRequest, token: str, place: int, theme: str) -> HttpResponse:
    content = read_snapshot_image(read_shared_study(token), place, theme)
    if content is None:
        return _reject(request)
    return _add_private_headers(HttpResponse(content, content_type=CONTENT_TYPES["png"]))


def _show_frozen(study: Study) -> list[ShownStudyPanel]:
    return show_frozen_panels(
        study,
        link_image=lambda place, theme: reverse(
            "shared_snapshot_image", args=[study.share_token, place, theme]
        ),
        has_links=False,
    )


def _render_study(study: Study, base_url: str) -> str:
    frozen = _show_frozen(study) if study.taken_snapshot else []
    pending: list[dict[str, Any]] = [
        {
            "place": place,
            "kind": panel.kind,
            "title": name_panel(panel),
            "text": render_markdown(panel.text, has_own_links=False),
        }
        for place, panel in enumerate(study.charts, start=1)
        if not study.taken_snapshot
    ]
    context = {
        "study": study,
        "preview": make_preview(study, base_url=base_url),
        "text": render_markdown(study.text, has_own_links=False),
        "panels": frozen or pending,
        "kinds": sorted({panel["kind"] for panel in pending} & RENDERED_KINDS),
    }
    return render_to_string("reports/shared_study.html", context)


def _render_chart(request: HttpRequest, study: Study, place: int) -> bytes:
    if study.taken_snapshot:
        panel = _show_frozen(study)[place - 1]
    else:
        panel = make_panel(request, study.charts[place - 1], place, has_links=False)
    context = {
        "study": study,
        "panel": panel,
        "kinds": list_kinds([panel]),
        "shared_image_url": reverse("shared_chart_image", args=[study.share_token, place]),
    }
    # Without the request: a chart cached for all must not depend on one visitor.
    return render_to_string("reports/shared_chart.html", context).encode()


def _reject(request: HttpRequest) -> HttpResponse:
    return _add_private_headers(not_found(request, Http404(_NO_STUDY)))


def _defer_busy() -> HttpResponse:
    return _defer("Many charts are being rendered.", wait_s=_BUSY_WAIT_S, status=503)


def _defer(reason: str, *, wait_s: int, status: int) -> HttpResponse:
    page = render_to_string("reports/shared_deferred.html", {"reason": reason, "wait_s": wait_s})
    return _add_private_headers(HttpResponse(page, status=status, headers={"Retry-After": str(wait_s)}))


def _add_private_headers(answer: HttpResponse) -> HttpResponse:
    """The URL is a secret: keep it out of search engines, referrers and caches."""
    answer["X-Robots-Tag"] = "noindex, nofollow"
    answer["Referrer-Policy"] = "no-referrer"
    patch_cache_control(answer, private=True, no_store=True)
    return answer
