"""What answers are made of: structs with their descriptions, shared parts, JSON."""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeVar, get_type_hints
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct
from rest_framework.renderers import BaseRenderer

from benchapp.catalog import Time as Time
from benchapp.catalog.metrics import CATALOG
from benchapp.models import State


class ApiAnswer(Struct, kw_only=True, frozen=True):
    """An object in an answer; a field without a value (UNSET) is left out."""


class AnswerPage(ApiAnswer, kw_only=True, frozen=True):
    """One page of a list. next: path and query of the next page, null on the last; next_cursor: its cursor."""

    next: str | None
    next_cursor: str | None


class ChosenColumns(ApiAnswer, kw_only=True, frozen=True):
    """Base of the rows of a list with the parameter `fields`: each has only the columns that it names."""


class LastRejectedAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: UUID
    received_at: Time
    title: Annotated[str, Meta(description="code of the reason")]
    detail: str
    page: Annotated[str, Meta(description="page of the submission")]


class RejectedResultsAnswer(ApiAnswer, kw_only=True, frozen=True):
    """Envelopes of a host, received in the last seven days, that are rejected now."""

    count: int
    since: Annotated[Time, Meta(description="receipt of the first of them")]
    last: LastRejectedAnswer


class ReceiptAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What a POST of results returns."""

    id: UUID
    state: State
    url: str
    page: Annotated[str, Meta(description="page of the submission, with its runs")]
    rejected: Annotated[
        RejectedResultsAnswer | UnsetType,
        Meta(description="earlier results of this host; absent if none is rejected"),
    ] = UNSET


Kind = TypeVar("Kind", bound=Struct)


def list_columns(kind: type[Struct]) -> tuple[str, ...]:
    """Return the names of all fields, in the order of the JSON."""
    return kind.__struct_fields__


def with_columns(
    *groups: type | Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> Callable[[type[Kind]], type[Kind]]:
    """Decorate an answer: put the fields of dataclasses and other answers before its own, all required.

    A group may be a mapping from names to types. optional: more fields with their types, which may be UNSET. A field
    that occurs twice has its last type.
    """
    before = {
        name: kind
        for group in groups
        for name, kind in (
            group if isinstance(group, Mapping) else get_type_hints(group, include_extras=True)
        ).items()
    }

    def decorate(kind: type[Kind]) -> type[Kind]:
        own = get_type_hints(kind, include_extras=True)
        may_be_unset = [(name, each | UnsetType, UNSET) for name, each in (optional or {}).items()]
        required = [(name, each) for name, each in (before | own).items() if name not in own]
        return defstruct(  # type: ignore[return-value]  # the same class, with more fields
            kind.__name__,
            [*required, *may_be_unset, *own.items()],
            bases=kind.__bases__,
            namespace={"__doc__": kind.__doc__},
            module=kind.__module__,
            kw_only=True,
            frozen=True,
        )

    return decorate


def define_answer(name: str, base: type[ApiAnswer] = ApiAnswer, /, **fields: Any) -> type[Any]:
    """Return an answer that only names what it has: a page, or a list of all. fields: name → type."""
    return defstruct(name, list(fields.items()), bases=(base,), kw_only=True, frozen=True)


def build(kind: type[Kind], *sources: object, **values: Any) -> Kind:
    """Return an answer: its fields are the values, and attributes of the sources, of the first one that has it.

    Raises TypeError if a field is in neither.
    """
    for source, read in zip(sources, _plan(kind, tuple(map(type, sources)), frozenset(values)), strict=True):
        values.update(read(source))
    return kind(**values)


@cache
def _plan(
    kind: type[Struct], sources: tuple[type, ...], given: frozenset[str]
) -> list[Callable[[Any], dict[str, Any]]]:
    """Return for each source a function that reads its attributes."""
    wanted = [name for name in kind.__struct_fields__ if name not in given]
    readers = []
    for source in sources:
        # Of dataclasses without slots, and of annotated columns of models, the class has no attribute.
        fields = getattr(source, "__dataclass_fields__", {}) | getattr(source, "__annotations__", {})
        names = [name for name in wanted if hasattr(source, name) or name in fields]
        wanted = [name for name in wanted if name not in names]
        readers.append(_make_reader(names))
    return readers


def _make_reader(names: list[str]) -> Callable[[Any], dict[str, Any]]:
    if len(names) < 2:
        return lambda source: {name: getattr(source, name) for name in names}
    read = attrgetter(*names)
    return lambda source: dict(zip(names, read(source), strict=True))


# URLs are literal: `reverse` takes 10 µs, and a page of 1 000 rows has 2 000 URLs. A test resolves them.
PREFIX: Final = "/api/v1"
ERROR_MEANING: Final = (
    "fio's errno of the job, or else of the run; -1: the run failed without one; not 0: do not compare"
)


MetricName = Annotated[str, Meta(extra_json_schema={"enum": list(CATALOG)})]


class MetricAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    unit: str
    better: Literal["higher", "lower"]
    label: str


def describe_metric(name: str) -> MetricAnswer:
    """Return one metric of the catalog."""
    return build(MetricAnswer, CATALOG[name])


def submission_url(submission_id: Any) -> str:
    """Return the URL of a submission."""
    return f"{PREFIX}/submissions/{submission_id}"


def run_links(run_id: int) -> dict[str, str]:
    """Return the fields url and page of a run."""
    return {"url": f"{PREFIX}/runs/{run_id}", "page": f"/runs/{run_id}/"}


class JsonRenderer(BaseRenderer):
    """JSON by msgspec: aware times as RFC 3339 with Z, ids as text, answers and dataclasses as objects."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes of a response; none for 204."""
        return b"" if data is None else dump_json(data)


def dump_json(value: Any) -> bytes:
    """Return the JSON of answers, dataclasses and plain values; NaN and infinities become null."""
    return _ENCODER.encode(value)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number", order=None)
