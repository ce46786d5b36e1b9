"""Insert rows of models for tests: one by a statement, many by COPY."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models import Model
from django.db.models.expressions import DatabaseDefault

_Row = TypeVar("_Row", bound=Model)
# Their values are written as they are; those of other fields (JSON, arrays) by the field.
_PLAIN = (
    models.BinaryField,
    models.BooleanField,
    models.CharField,
    models.DateField,
    models.FloatField,
    models.ForeignKey,
    models.IntegerField,
    models.TextField,
    models.UUIDField,
)


@dataclass(frozen=True)
class _Column:
    """A column of a model; fill: gives its value now; prepare: makes a value that PostgreSQL accepts."""

    field: Any
    name: str
    attribute: str
    fill: Callable[[Any, bool], Any] | None
    prepare: Callable[[Any, Any], Any] | None

    def read(self, row: Model) -> Any:
        value = self.fill(row, True) if self.fill else getattr(row, self.attribute)
        return self.prepare(value, connection) if self.prepare else value


@functools.cache
def _list_columns(model: type[Model]) -> tuple[_Column, ...]:
    def is_filled(field: Any) -> bool:
        return getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)

    return tuple(
        _Column(
            field,
            connection.ops.quote_name(field.column),
            field.attname,
            fill=field.pre_save if is_filled(field) else None,
            prepare=None if isinstance(field, _PLAIN) else field.get_db_prep_save,
        )
        for field in model._meta.concrete_fields
        if not field.generated
    )


def insert_row(row: _Row) -> _Row:
    """Insert a row with one statement; composing it by the ORM takes three times the CPU time."""
    given, asked, values = [], [], []
    for column in _list_columns(type(row)):
        value = column.read(row)
        if isinstance(value, DatabaseDefault) or (value is None and column.field.primary_key):
            asked.append(column)
        elif value is not None or column.field.has_db_default():
            given.append(column.name)
            values.append(value)
    table = connection.ops.quote_name(row._meta.db_table)
    statement = f"INSERT INTO {table} ({', '.join(given)}) VALUES ({', '.join(['%s'] * len(given))})"
    if asked:
        statement += f" RETURNING {', '.join(column.name for column in asked)}"
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        for column, value in zip(asked, cursor.fetchone() if asked else (), strict=True):
            setattr(row, column.attribute, value)
    row._state.adding, row._state.db = False, connection.alias
    return row


def copy_rows(rows: Iterable[_Row]) -> list[_Row]:
    """Insert rows of one model by COPY, and give them their ids; all have a value for each column.

    `bulk_create` writes a statement with a placeholder for each value, which takes several times the CPU time.
    """
    made = list(rows)
    if len(made) < 2:
        return [insert_row(row) for row in made]
    meta = made[0]._meta
    if made[0].pk is None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
                [connection.ops.quote_name(meta.db_table), meta.pk.column, len(made)],
            )
            for row, (number,) in zip(made, cursor.fetchall(), strict=True):
                row.pk = number
    columns = _list_columns(type(made[0]))
    for column in columns:
        if column.fill:
            for row in made:
                column.fill(row, True)
    _copy(type(made[0]), columns, [row.__dict__ for row in made])
    for row in made:
        row._state.adding, row._state.db = False, connection.alias
    return made


def copy_values(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows of a model by COPY: values by attribute (`run_id`), where one is missing the default of its field.

    Making an object of each takes as long as writing it.
    """
    columns, defaults = _list_columns(model), _list_defaults(model)
    values = [{**defaults, **row} for row in rows]
    if unknown := {name for row in values for name in row} - {column.attribute for column in columns}:
        raise TypeError(f"{model.__name__} has no {', '.join(sorted(unknown))}")
    _copy(model, columns, values)


@functools.cache
def _list_defaults(model: type[Model]) -> dict[str, Any]:
    return {
        column.attribute: default
        for column in _list_columns(model)
        if (default := column.field.get_default()) is not None and not isinstance(default, DatabaseDefault)
    }


def _copy(model: type[Model], columns: Sequence[_Column], rows: Sequence[Mapping[str, Any]]) -> None:
    # A column that is null in all rows is not written.
    used = [column for column in columns if any(row.get(column.attribute) is not None for row in rows)]
    names = ", ".join(column.name for column in used)
    table = connection.ops.quote_name(model._meta.db_table)
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(
                [
                    column.prepare(row.get(column.attribute), connection)
                    if column.prepare
                    else row.get(column.attribute)
                    for column in used
                ]
            )
