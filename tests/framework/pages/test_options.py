"""Options of a select."""

from types import SimpleNamespace

from django.template import Context, Template

from tests.pages import Page

HOSTILE = "<script src='\"&'>"


def test_options_are_escaped_and_the_chosen_one_is_selected() -> None:
    text = Template("{{ choices|options }}").render(
        Context({"choices": [("", "Any", False), (HOSTILE, HOSTILE, True)]})
    )

    page = Page(SimpleNamespace(content=text.encode()))

    assert not page.has("script")
    assert [(tag, named) for tag, named in page.tags] == [
        ("option", {"value": ""}),
        ("option", {"value": HOSTILE, "selected": None}),
    ]
    assert page.words.count(HOSTILE) == 1
