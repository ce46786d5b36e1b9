"""Forms of rows whose columns people give, and pages of lists whose entries are canceled and restored."""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from benchapp.framework.pages.access import read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import keep_query
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.queue import wake_up
from benchapp.framework.read.pagination import BadCursor, Page
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import Entry, NotInThisState, UnknownEntry

_WORD: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
WORD_INPUT: Final = forms.TextInput(attrs=_WORD)
FILTER_INPUT: Final = forms.TextInput(attrs={**_WORD, "data-completion": ""})
TEXT_INPUT: Final = forms.TextInput(attrs={"autocomplete": "off"})
FILTER_HELP: Final = "Filter bar syntax: host:db-1, pool:web volume_type:gp3. Empty: all series."


class ResourceForm(forms.ModelForm):  # type: ignore[type-arg]  # Django has no type argument at run time
    """What a person gives; `instance` is the row, not saved. What it means is checked when it is saved.

    renamed: fields of the form by the columns that they stand for.
    """

    renamed: ClassVar[Mapping[str, str]] = {}

    def _get_validation_exclusions(self) -> set[str]:
        """Leave out all fields of the model: the check before saving says the same in words."""
        return {field.name for field in self.instance._meta.fields}

    def refuse(self, problem: BadValue) -> None:
        """Add an error as a sentence to its field; a name, as in "iops: …", stays as it is."""
        text = str(problem)
        if not re.match(r"\w+: ", text):
            text = f"{text[:1].upper()}{text[1:]}"
        name = self.renamed.get(problem.field, problem.field)
        self.add_error(name if name in self.fields else None, f"{text}.")


def confirm_change(request: HttpRequest, text: str) -> None:
    """Have a worker evaluate the change, and confirm it on the next page."""
    wake_up()
    messages.success(request, text, extra_tags="good")


def change_entry(
    request: HttpRequest, act: Callable[..., Entry], entry_id: int, *, success_text: str, page: str
) -> HttpResponse:
    """Act on an entry, and return to its page with the result."""
    try:
        act(entry_id, by=read_person(request))
    except UnknownEntry as error:
        raise Http404(f"{error}.") from error
    except (NotInThisState, BadValue) as problem:
        messages.error(request, f"Not changed: {problem}.", extra_tags="bad")
    else:
        confirm_change(request, success_text)
    return redirect(page, entry_id)


def describe_entry(request: HttpRequest, entry: Entry, *, title: str, path: str) -> Mapping[str, Any]:
    """Return what the template `lists/entry.html` shows. path: of the list in the API."""
    return {
        "title": title,
        "row": entry,
        "activity": entry.list_activity(),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/{path}/{entry.pk}"),
    }


T = TypeVar("T")

_POSITION_DIGITS_MAXIMUM: Final = 8
_PAGE_DIGITS_MAXIMUM: Final = 6


def turn_page(
    request: HttpRequest, errors: list[str], *, read: Callable[[str | None], Page[T]]
) -> tuple[Page[T], dict[str, Any]]:
    """Return the page at the cursor of the address, and the links to the newest and the older rows.

    An invalid cursor gives the first page, and an error.
    """
    after = request.GET.get("after")
    try:
        page = read(after)
    except BadCursor:
        errors.append("Invalid page link; this is the first page.")
        after = None
        page = read(None)
    return page, {
        "newest_url": keep_query(request.GET, after=None) if after else None,
        "older_url": keep_query(request.GET, after=page.next_cursor) if page.next_cursor else None,
    }


def read_position(request: HttpRequest) -> int:
    """Return the position of the first row of a page, from 0; 0 for an invalid one."""
    given = request.GET.get("position", "")
    is_valid = given.isascii() and given.isdigit() and len(given) < _POSITION_DIGITS_MAXIMUM
    return int(given) if is_valid else 0


def read_page_number(query: QueryDict, errors: list[str]) -> int:
    """Return the page of the address, from 1; an invalid one gives the first page, and an error."""
    given = query.get("page") or "1"
    if given.isascii() and given.isdigit() and len(given) <= _PAGE_DIGITS_MAXIMUM and int(given):
        return int(given)
    errors.append(f"{given[:40]!r} is not a valid page number.")
    return 1
