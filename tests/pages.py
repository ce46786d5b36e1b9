"""Read a page as a reader would: words, numbers in a table, links."""

import re
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """The parts of a page that tests ask for."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.links: list[str] = []
        self.cells: list[dict[str, str | None]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._row: dict[str, str | None] = {}
        # Texts of scripts by id, as the data of charts.
        self.scripts: dict[str | None, str] = {}
        self._words: list[str] = []
        self.feed(response.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append((tag, named))
        if tag == "a":
            self.links.append(named.get("href") or "")
        elif tag == "tr":
            self._row = named
        elif tag == "td" and "data-metric" in named:
            self.cells.append({**self._row, **named})

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[self.tags[-1][1].get("id")] = data
        else:
            self._words.append(data)

    @property
    def words(self) -> str:
        """Return all text, with single spaces."""
        return re.sub(r"[ \n\u00a0]+", " ", "".join(self._words))

    def has(self, tag: str) -> bool:
        """Say whether there is an element of this name."""
        return any(name == tag for name, _ in self.tags)
