"""Resources of lists whose entries are created, canceled and restored: columns, pages, activity and actions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Generic, get_type_hints

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema, extend_schema_view
from msgspec import Meta, defstruct
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.framework.api.answers import AnswerPage, ApiAnswer, Kind, Time, build
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    PageParameters,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
)
from benchapp.framework.api.permissions import MayReadOrEdit, read_actor
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found, state_differs
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_up
from benchapp.framework.read.pagination import Page
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import Entry, EntryList, NotInThisState, UnknownEntry
from benchapp.models import name_person
from benchapp.models.list_entry import ListEntry, find_column_type


def list_given(given: type[serializers.ModelSerializer[Any]]) -> dict[str, Any]:
    """Return the types of the given columns: those of the model, with the help texts of their serializer."""
    fields, model = given().fields, _find_model(given)
    return {field.name: _find_type(field, fields[field.name].help_text) for field in model.list_fields()}


def with_entry_columns(
    given: type[serializers.ModelSerializer[Any]], *, after: Mapping[str, Sequence[str]]
) -> Callable[[type[Kind]], type[Kind]]:
    """Decorate the answer of a row: it gets the columns of an entry, in the order of the JSON.

    given: the serializer of what a creator gives. after: the fields of the answer itself, by the given column that they
    follow; a given column of the answer keeps its type.
    """

    def decorate(kind: type[Kind]) -> type[Kind]:
        own = get_type_hints(kind, include_extras=True)
        columns: dict[str, Any] = {"id": int}
        for column, type_ in list_given(given).items():
            columns[column] = own.get(column, type_)
            columns |= {name: own[name] for name in after.get(column, ())}
        columns |= {"created_by": str | None, "created_at": Time}
        for name in _find_model(given).changed:
            columns |= {_name_author(name): str | None, name: Time | None}
        columns |= {"url": str, "page": str}
        return defstruct(  # type: ignore[return-value]  # the same class, with more fields
            kind.__name__,
            list(columns.items()),
            bases=kind.__bases__,
            module=kind.__module__,
            kw_only=True,
            frozen=True,
        )

    return decorate


def _find_model(given: type[serializers.ModelSerializer[Any]]) -> Any:
    return given.Meta.model


def _find_type(field: Any, description: Any) -> Any:
    kind: Any = find_column_type(field)
    kind = Time if kind is datetime else kind
    kind = kind | None if field.null else kind
    return Annotated[kind, Meta(description=description)] if description else kind


def _name_author(column: str) -> str:
    """Return the column of a person by the column of a time: "canceled_by" for "canceled_at"."""
    return f"{column.removesuffix('_at')}_by"


@cache
def _list_references(model: type[ListEntry]) -> Mapping[str, str]:
    """Return the given columns with ids of other rows, and the attributes of these ids."""
    return {field.name: field.attname for field in model.list_fields() if field.is_relation}


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryResource(Generic[Entry]):
    """How the API shows a list. path: of the API; place: of the pages.

    input: what a creator gives; changes: members of PATCH, with what each value does in `actions`. row: of a page and
    part of `answer`; listed: with the chosen columns. list_page and read: query the rows. describe_more: what only the
    answer of one entry has. preview: answers a body that is not to be saved; previewed: its type. permission: of who
    may read, create and act.
    """

    entries: EntryList[Entry]
    path: str
    place: str
    parameters: type[PageParameters]
    input: type[serializers.ModelSerializer[Any]]
    changes: type[serializers.Serializer[Any]]
    actions: Mapping[tuple[str, bool], Callable[..., Entry]]
    row: type[ApiAnswer]
    listed: type[ApiAnswer]
    page: type[AnswerPage]
    answer: type[ApiAnswer]
    activity: type[ApiAnswer]
    list_page: Callable[..., Page[Entry]]
    read: Callable[[int], Entry | None]
    describe_more: Callable[[Entry], Mapping[str, Any]]
    preview: Callable[[dict[str, Any]], ApiAnswer | None] = lambda given: None
    previewed: type[ApiAnswer] | None = None
    permission: type[BasePermission] = MayReadOrEdit

    @property
    def name(self) -> str:
        """Return the name of the list."""
        return self.path.replace("-", "_")

    def map_errors(self) -> AbstractContextManager[None]:
        """Raise the problems of exceptions."""
        problems: ErrorProblems = {
            UnknownEntry: partial(not_found, self.entries.noun),
            NotInThisState: state_differs,
            BadValue: bad_value,
        }
        return map_errors(problems)

    def describe(self, entry_id: int) -> ApiAnswer:
        """Return one entry with its activity. Raises Problem."""
        entry = self.read(entry_id)
        if entry is None:
            raise not_found(self.entries.noun, f"{self.entries.noun} {entry_id} does not exist")
        activity = [build(self.activity, each, by=each.by_name or None) for each in entry.list_activity()]
        row = self.describe_row(entry, self.row)
        return build(self.answer, row, **self.describe_more(entry), activity=activity)

    def describe_row(self, entry: Entry, kind: type[Kind]) -> Kind:
        """Return the columns of an entry."""
        model = self.entries.model
        people = map(_name_author, ("created_at", *model.changed))
        return build(
            kind,
            entry,
            **{name: getattr(entry, attribute) for name, attribute in _list_references(model).items()},
            **{name: name_person(getattr(entry, name)) or None for name in people},
            url=f"/api/v1/{self.path}/{entry.pk}",
            page=f"/{self.place}/{entry.pk}/",
        )


class EntriesView(ApiView):
    """All entries of a list."""

    resource: ClassVar[EntryResource[Any]]

    def get(self, request: Request) -> HttpResponseBase:
        """List entries."""
        resource = self.resource
        wanted = read_parameters(request, resource.parameters)
        page, oldest_first = take_page_request(wanted), take_oldest_first(wanted)
        return answer_list(
            request,
            resource.page,
            resource.listed,
            page=page,
            read=lambda after, limit: resource.list_page(
                after=after, limit=limit, oldest_first=oldest_first, **wanted
            ),
            describe=lambda rows: [resource.describe_row(each, resource.listed) for each in rows],
            name=resource.name,
        )

    def post(self, request: Request) -> HttpResponseBase:
        """Create an entry."""
        refuse_parameters(request)
        resource = self.resource
        given = read_body(request, resource.input)
        with resource.map_errors():
            if (preview := resource.preview(given)) is not None:
                return answer_json(request, preview)
            created = resource.entries.create(resource.entries.model(**given), **read_actor(request))
        wake_up()
        address = f"/api/v1/{resource.path}/{created.pk}"
        return Response(resource.describe(created.pk), status=201, headers={"Location": address})


class EntryView(ApiView):
    """One entry of a list."""

    resource: ClassVar[EntryResource[Any]]

    def get(self, request: Request, **address: int) -> HttpResponseBase:
        """Read an entry."""
        refuse_parameters(request)
        return answer_json(request, self.resource.describe(*address.values()))

    def patch(self, request: Request, **address: int) -> HttpResponseBase:
        """Act on an entry."""
        refuse_parameters(request)
        wanted = read_body(request, self.resource.changes)
        if len(wanted) != 1:
            raise bad_value(f"send exactly one of {' and '.join(self.resource.changes().fields)}")
        self._act(self.resource.actions[next(iter(wanted.items()))], request, address)
        return answer_json(request, self.resource.describe(*address.values()))

    def delete(self, request: Request, **address: int) -> HttpResponseBase:
        """Cancel an entry."""
        refuse_parameters(request)
        self._act(self.resource.entries.cancel, request, address)
        return Response(status=204)

    def _act(self, act: Callable[..., ListEntry], request: Request, address: Mapping[str, int]) -> None:
        with self.resource.map_errors():
            act(*address.values(), **read_actor(request))
        wake_up()


def make_views(
    resource: EntryResource[Any], *, list_text: str, create: str, read: str, change: str
) -> tuple[type[ApiView], type[ApiView]]:
    """Return the views of all entries and of one; the texts describe their operations in the OpenAPI document."""
    one = resource.entries.noun.replace(" ", "_")
    cancel = "Cancel it; the row and its activity log remain, and PATCH can restore it."
    all_entries = extend_schema_view(
        get=extend_schema(
            operation_id=f"list_{resource.name}",
            description=list_text,
            parameters=[resource.parameters],
            responses=in_formats(resource.page, "the rows only"),
        ),
        post=extend_schema(
            operation_id=f"create_{one}",
            description=create,
            request=resource.input,
            responses={201: resource.answer} | ({200: resource.previewed} if resource.previewed else {}),
        ),
    )
    one_entry = extend_schema_view(
        get=extend_schema(operation_id=f"read_{one}", description=read, responses=resource.answer),
        patch=extend_schema(
            operation_id=f"change_{one}",
            description=change,
            request=resource.changes,
            responses=resource.answer,
        ),
        delete=extend_schema(operation_id=f"cancel_{one}", description=cancel, responses={204: None}),
    )
    members = {"resource": resource, "permission_classes": [resource.permission]}
    return (
        all_entries(type("AllEntries", (EntriesView,), members)),
        one_entry(type("OneEntry", (EntryView,), members)),
    )
