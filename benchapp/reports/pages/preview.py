"""What chat, wikis and social networks show of a shared link: Open Graph in the page."""

from html import unescape
from typing import Any, Final

from django.urls import reverse
from django.utils.html import strip_tags

from benchapp.catalog.metrics import format_count
from benchapp.charts.images.frame import HEIGHT_DEFAULT, WIDTH_DEFAULT
from benchapp.framework.pages.markdown import render_markdown
from benchapp.models import Study

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
