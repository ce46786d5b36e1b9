"""What chat, wikis and social networks show of a shared link: Open Graph in the page, and oEmbed."""

from dataclasses import dataclass
from html import unescape
from typing import Final
from urllib.parse import urlencode, urlsplit

from django.urls import Resolver404, resolve, reverse
from django.utils.html import format_html, strip_tags

from benchapp.charts.images.options import HEIGHT_DEFAULT, WIDTH_DEFAULT
from benchapp.metrics import format_count
from benchapp.queries.studies import StudyDetail
from benchapp.web.site.markdown import render_markdown
from benchapp.web.studies.snapshots import find_first_image

_SHARED_STUDY: Final = "shared_study"
_DESCRIPTION_MAXIMUM: Final = 200
_URL_MAXIMUM: Final = 500
_PROVIDER: Final = "benchapp"


@dataclass(frozen=True, slots=True)
class StudyPreview:
    """A study as a preview shows it. url, image_url, oembed_url: absolute; image_url: "" without charts.

    width, height: of the image, in pixels.
    """

    title: str
    description: str
    url: str
    image_url: str
    oembed_url: str
    width: int
    height: int


def make_preview(study: StudyDetail, *, base_url: str) -> StudyPreview:
    """Return the preview of a shared study; of one with a snapshot, of its first chart as it was."""
    arguments = [study.share_token]
    url = base_url + reverse(_SHARED_STUDY, args=arguments)
    frozen = find_first_image(study)
    has_image = bool(study.panels) and (study.snapshot is None or frozen is not None)
    return StudyPreview(
        title=study.title,
        description=_describe(study),
        url=url,
        image_url=base_url + reverse("shared_image", args=arguments) if has_image else "",
        oembed_url=f"{base_url}{reverse('oembed')}?{urlencode({'url': url, 'format': 'json'})}",
        width=frozen.width if frozen else WIDTH_DEFAULT,
        height=frozen.height if frozen else HEIGHT_DEFAULT,
    )


def find_share_token(url: str, *, base_url: str) -> str | None:
    """Return the token in the URL of a shared study on this server; None for any other URL."""
    try:
        given, own = urlsplit(url[:_URL_MAXIMUM]), urlsplit(base_url)
    except ValueError:
        return None
    if (given.scheme, given.netloc.lower()) != (own.scheme, own.netloc.lower()):
        return None
    try:
        found = resolve(given.path)
    except Resolver404:
        return None
    return str(found.kwargs["token"]) if found.url_name == _SHARED_STUDY else None


def describe_embed(
    preview: StudyPreview,
    *,
    base_url: str,
    cache_age_s: int,
    width: int | None = None,
    height: int | None = None,
) -> dict[str, str | int]:
    """Return the members of oEmbed: a link with the image of the first chart; without charts, with the title.

    width, height: at most so many pixels; None: no limit.
    """
    common: dict[str, str | int] = {
        "version": "1.0",
        "title": preview.title,
        "provider_name": _PROVIDER,
        "provider_url": f"{base_url}/",
        "cache_age": cache_age_s,
    }
    if not preview.image_url:
        return {**common, "type": "link"}
    factor = min(1.0, (width or preview.width) / preview.width, (height or preview.height) / preview.height)
    shown_width, shown_height = max(1, int(preview.width * factor)), max(1, int(preview.height * factor))
    html = format_html(
        '<a href="{}"><img src="{}" width="{}" height="{}" alt="{}"></a>',
        preview.url,
        preview.image_url,
        shown_width,
        shown_height,
        preview.title,
    )
    return {**common, "type": "rich", "html": str(html), "width": shown_width, "height": shown_height}


def _describe(study: StudyDetail) -> str:
    """Return the beginning of the text of a study, without its markup; the number of charts without a text."""
    html = render_markdown(study.text, has_own_links=False)
    text = " ".join(unescape(strip_tags(html)).split())
    if not text:
        return f"{format_count(len(study.panels), 'chart')} of storage benchmarks"
    if len(text) <= _DESCRIPTION_MAXIMUM:
        return text
    return f"{text[: _DESCRIPTION_MAXIMUM - 1].rsplit(' ', 1)[0]}…"
