"""Parameters of an address that its page does not read: the page says so, as their value may narrow what it shows."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase

# Links of mails and other sites have them, to count visits: they are no request to the page.
_FOREIGN: Final = ("utm_", "fbclid", "gclid", "msclkid", "mc_", "_ga", "ref")
# The place in a list, which a page without rows does not read.
_PLACE: Final = "after"
# Beside q: of the form without script, and in links of before the filter bar.
_UNNAMED: Final = frozenset({"add", "value", "host", "pool", "rw", "direction", "text"})
_API: Final = "/api/"


class AskedQuery(QueryDict):
    """The parameters of an address, which knows which of them were asked for; also those that it does not have.

    Reading all of them, as links to the same page do, asks for none. A copy knows with its original.
    """

    asked: dict[str, None]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.asked = {}
        super().__init__(*arguments, **options)
        # Its own methods ask whether they have a name.
        self.asked.clear()

    def __getitem__(self, key: str) -> Any:
        self.asked[key] = None
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked[str(key)] = None
        return super().__contains__(key)

    def getlist(self, key: str, default: Any = None) -> Any:
        """Return the values of a parameter."""
        self.asked[key] = None
        return super().getlist(key, default)

    def items(self) -> Any:
        """Yield the name and the last value of each parameter."""
        return ((name, values[-1] if values else []) for name, values in self.lists())

    def dict(self) -> Any:
        """Return the last value of each parameter."""
        return {name: value for name, value in self.items()}  # noqa: C416

    def __deepcopy__(self, memo: Any) -> "AskedQuery":
        other = super().__deepcopy__(memo)
        other.asked = self.asked
        return other


def note_parameters(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Let each page with parameters know which of them it has read."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.GET and not request.path_info.startswith(_API):
            # A QueryDict of the same text; the stubs have a private class.
            request.GET = AskedQuery(request.GET.urlencode())  # type: ignore[assignment]
        return get_response(request)

    return answer


def describe_unknown(query: QueryDict) -> str:
    """Return which parameters the page has not read, and what it takes; "" if it has read all of them."""
    if not isinstance(query, AskedQuery):
        return ""
    unknown = [name for name in query if name not in query.asked and not name.startswith((*_FOREIGN, _PLACE))]
    if not unknown:
        return ""
    names = ", ".join(repr(name[:80]) for name in unknown[:5])
    known = list(_list_taken(query.asked))
    takes = f"this page takes {', '.join(known)}" if known else "this page takes no parameters"
    return f"Unknown parameter{'s' * (len(unknown) > 1)} {names}: {takes}."


def _list_taken(asked: Iterable[str]) -> Iterator[str]:
    """Yield the names that a reader may use: not those that forms give to `from` and `to`."""
    names = {*asked} - _UNNAMED if "q" in asked else {*asked}
    yield from sorted(names - {"from_at", "to_at"})
