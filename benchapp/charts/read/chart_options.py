"""Options of a chart, each declared once, as a field of its request: address, API, form and links are made from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of a request is a parameter of an address.

    kind: "axis": names, each with a field in the form; "names": separated by commas; "texts": the parameter occurs
    several times; "number", "numbers": from 1 to the maximum; "flag": "1". is_display: without effect on the values.
    length: of a text; count: of numbers and texts; noun: what errors call a number. label: of its field among the
    options of the form, "" without one; usual: shown there if it is not given.
    """

    parameter: str
    kind: Literal["axis", "text", "names", "texts", "choice", "number", "numbers", "flag"]
    help: str = "display only"
    is_display: bool = False
    choices: tuple[str, ...] = ()
    length: int = 120
    maximum: int = 0
    count: int = 0
    noun: str = "number"
    label: str = ""
    usual: str = ""

    @property
    def offers(self) -> list[tuple[str, str]]:
        """Return values and texts of a field to choose from, the usual one first."""
        named = [(value, value.capitalize()) for value in self.choices]
        return [("", self.usual), *(each for each in named if each[1] != self.usual)]

    def read(self, texts: Sequence[str]) -> Any:
        """Return the value of the texts of an address. Raises ValueError."""
        text = texts[-1] if texts else ""
        match self.kind:
            case "axis":
                return _join(texts)
            case "names":
                return tuple(name for each in texts for name in each.split(",") if name)
            case "texts":
                return tuple(each for each in texts if each.strip())
            case "flag":
                return text == "1"
            case "numbers":
                return self._read_numbers(text)
            case "number" if text and not self._is_number(text):
                raise ValueError(f"{text[:40]!r} is not a {self.noun} from 1 to {self.maximum}")
            case "number":
                return int(text) if text else None
            case "choice" if text and text not in self.choices:
                raise ValueError(f"{text[:40]!r} is not valid; available: {', '.join(self.choices)}")
        return text or None

    def write(self, value: Any) -> list[str]:
        """Return the texts of a value in an address; none if it is not given."""
        if self.kind == "texts":
            return list(value)
        if self.kind in ("names", "numbers"):
            value = ",".join(map(str, value))
        return ["1" if value is True else str(value)] if value else []

    def _is_number(self, text: str) -> bool:
        is_short = len(text) <= len(str(self.maximum))
        return is_short and text.isascii() and text.isdigit() and 0 < int(text) <= self.maximum

    def _read_numbers(self, text: str) -> tuple[int, ...]:
        """Return numbers in ascending order."""
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if len(parts) > self.count:
            raise ValueError(f"{len(parts)} {self.noun}s given, at most {self.count} allowed")
        for part in parts:
            if not self._is_number(part):
                raise ValueError(f"{part[:20]!r} is not a {self.noun} from 1 to {self.maximum}; write 6,12")
        return tuple(sorted({int(part) for part in parts}))


_NONE: Mapping[str, Any] = {"flag": False, "names": (), "texts": (), "numbers": ()}


def option(parameter: str, kind: Any, **more: Any) -> Any:
    """Return a field of a request that is an option; not given by default."""
    return field(default=_NONE.get(kind), metadata={"option": Option(parameter, kind, **more)})


def list_options(request: type) -> dict[str, Option]:
    """Return the options of a kind of request, by the names of their fields."""
    return {each.name: each.metadata["option"] for each in fields(request) if "option" in each.metadata}


def _join(texts: Sequence[str]) -> str | None:
    """Return the axis of the fields of a form: the first one, empty if automatic, and those combined with it."""
    first, *others = texts or [""]
    if first == "none":
        return first
    return ",".join([first, *(name.removeprefix(",") for name in others if name)]) or None
