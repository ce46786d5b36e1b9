"""Markdown of docs/ as HTML."""

import pytest

from benchapp.overview.pages.docs.pages import (
    ENTRY_LEVEL,
    make_anchor,
    render_page,
    render_sentence,
    resolve_link,
    split_sections,
)


def test_html_and_dangerous_links_are_text() -> None:
    page = render_page(
        '# A <b>\n\n<script>alert(1)</script> [x](javascript:alert(1)) `<i>`\n\n```sh\n"<u>\n```\n'
    )

    assert page["title"] == "A <b>"
    assert "&lt;script&gt;" in page["html"]
    assert 'href="javascript' not in page["html"]
    assert [tag for tag in ("<script", "<i>", "<u>") if tag in page["html"]] == []


@pytest.mark.parametrize(
    ("title", "anchor"),
    [
        ("Smallest detectable change", "smallest-detectable-change"),
        ("On one machine: make up", "on-one-machine-make-up"),
        ("manage.py import", "managepy-import"),
        ("latency_p99_ns, p99", "latency_p99_ns-p99"),
    ],
)
def test_anchors_are_those_of_code_hosts(title: str, anchor: str) -> None:
    assert make_anchor(title) == anchor


def test_repeated_headings_have_numbered_anchors() -> None:
    page = render_page("# A\n\n## API\n\n## API\n\n### `x` y\n")

    assert [each.anchor for each in split_sections(page["title"], page["html"])] == [
        "",
        "api",
        "api-1",
        "x-y",
    ]


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("filters.md", "/docs/filters"),
        ("filters.md#in-the-api", "/docs/filters#in-the-api"),
        ("#limits", "#limits"),
        ("README.md", "/docs/"),
        ("img/scaling.png", "/docs/files/img/scaling.png"),
        ("ci/gitlab.yml", "/docs/files/ci/gitlab.yml"),
        ("https://example.org/a.md", "https://example.org/a.md"),
        ("//example.org/a.md", "//example.org/a.md"),
    ],
)
def test_links_lead_to_pages_of_the_product(href: str, url: str) -> None:
    assert resolve_link(href) == url


def test_link_by_the_name_of_a_file_shows_the_title_of_its_page() -> None:
    page = render_page("# A\n\n[api.md](api.md#x), [api.md](b.md)", titles={"api.md": "The API", "b.md": "B"})

    assert '<a href="/docs/api#x">The API</a>, <a href="/docs/b">api.md</a>' in page["html"]


def test_code_has_a_copy_button_and_output_has_none() -> None:
    page = render_page("# A\n\n```sh\nls\n```\n\n```text\nfile\n```\n")

    assert page["html"].count('data-copy="code-1"') == 1
    assert '<code id="code-2">file</code>' in page["html"]
    assert 'data-copy="code-2"' not in page["html"]


def test_tables_scroll_have_a_name_and_no_inline_style() -> None:
    page = render_page("# A\n\n## B\n\n| | |\n|---|--:|\n| 1 | 2 |\n\n| x | y |\n|---|--:|\n| 1 | 2 |\n")

    assert 'aria-label="Table 1: B"' in page["html"]
    assert 'aria-label="Table 2: B"' in page["html"]
    assert "style=" not in page["html"]
    assert page["html"].count("<thead>") == 1
    assert page["html"].count('<td class="number">2</td>') == 2


def test_page_without_a_title_is_an_error() -> None:
    with pytest.raises(ValueError, match="heading of level 1"):
        render_page("text\n")


def test_sentence_has_code_and_links() -> None:
    assert render_sentence("`q` <b> [x](api.md)") == '<code>q</code> &lt;b&gt; <a href="/docs/api">x</a>'


def test_entries_of_lists_of_codes_are_sections() -> None:
    html = '<p>Lead</p><dl><div id="a"><dt><code>a</code></dt><dd>Meaning.</dd></div></dl>'

    first, entry = split_sections("Codes", html)

    assert (first.title, first.text) == ("Codes", "Lead")
    assert (entry.level, entry.anchor, entry.title, entry.text) == (ENTRY_LEVEL, "a", "a", "Meaning.")
