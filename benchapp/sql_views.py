"""Views for read-only SQL: how migrations create and replace them, and who may read them.

A view belongs to the migration that creates it. PostgreSQL refuses to drop or change a column that a view reads: such a
migration drops the view first and creates it again, with `replace_views`; CONTRIBUTING has an example.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, migrations
from psycopg import sql

VIEW_PREFIX: Final = "benchapp_v_"


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view. expression: SQL; comment: its meaning, with the unit of a number."""

    name: str
    expression: str
    comment: str


@dataclass(frozen=True, slots=True)
class SqlView:
    """A view: SELECT columns source. comment: what a row is."""

    name: str
    comment: str
    columns: tuple[ViewColumn, ...]
    source: str


def create_views(views: Sequence[SqlView]) -> migrations.RunPython:
    """Return the operation that creates views with their comments; its reverse drops them."""
    return migrations.RunPython(_create(views), _drop(views))


def replace_views(
    before: Sequence[SqlView], after: Sequence[SqlView], *, operations: Sequence[Any]
) -> list[Any]:
    """Return operations that drop views, run others, and create the views again; roles that read them still can.

    before, after: the definitions without and with the operations, for the reverse too.
    """
    return [
        migrations.RunPython(_drop(before), _create(before)),
        *operations,
        migrations.RunPython(_create(after), _drop(after)),
    ]


def list_views() -> list[str]:
    """Return the names of the views, sorted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
            " AND relkind = 'v' AND starts_with(relname, %s) ORDER BY 1",
            [VIEW_PREFIX],
        )
        return [name for (name,) in cursor.fetchall()]


_Step = Callable[[Any, Any], None]
# Grants of dropped views, until they are created again in the same transaction.
_MAKE_MEMORY: Final = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS dropped_grants (view text, role text) ON COMMIT DROP"
)
_REMEMBER: Final = (
    "INSERT INTO dropped_grants SELECT class.relname, role.rolname"
    " FROM pg_class AS class, aclexplode(class.relacl) AS acl, pg_roles AS role"
    " WHERE class.relnamespace = current_schema()::regnamespace AND class.relname = %s"
    " AND acl.privilege_type = 'SELECT' AND role.oid = acl.grantee AND acl.grantee <> class.relowner"
)


def _create(views: Sequence[SqlView]) -> _Step:
    def create(apps: Any, editor: Any) -> None:
        with editor.connection.cursor() as cursor:
            for view in views:
                _create_view(cursor, view)
                cursor.execute("SELECT to_regclass('pg_temp.dropped_grants') IS NOT NULL")
                if cursor.fetchone()[0]:
                    cursor.execute("SELECT role FROM dropped_grants WHERE view = %s", [view.name])
                    for (role,) in cursor.fetchall():
                        grant = sql.SQL("GRANT SELECT ON {} TO {}")
                        _execute(cursor, grant, sql.Identifier(view.name), sql.Identifier(role))

    return create


def _drop(views: Sequence[SqlView]) -> _Step:
    def drop(apps: Any, editor: Any) -> None:
        with editor.connection.cursor() as cursor:
            cursor.execute(_MAKE_MEMORY)
            for view in reversed(views):
                cursor.execute(_REMEMBER, [view.name])
                _execute(cursor, sql.SQL("DROP VIEW {}"), sql.Identifier(view.name))

    return drop


def _create_view(cursor: Any, view: SqlView) -> None:
    name = sql.Identifier(view.name)
    columns = ", ".join(f"{column.expression} AS {column.name}" for column in view.columns)
    _execute(cursor, sql.SQL("CREATE VIEW {} AS " + f"SELECT {columns} {view.source}"), name)
    _execute(cursor, sql.SQL("COMMENT ON VIEW {} IS {}"), name, sql.Literal(view.comment))
    for column in view.columns:
        comment = sql.SQL("COMMENT ON COLUMN {}.{} IS {}")
        _execute(cursor, comment, name, sql.Identifier(column.name), sql.Literal(column.comment))


def _execute(cursor: Any, statement: sql.SQL, *parts: sql.Composable) -> None:
    cursor.execute(statement.format(*parts).as_string(None))
