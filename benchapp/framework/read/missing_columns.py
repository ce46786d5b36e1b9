"""Checks that the tables have all columns of the models, regardless of the list of applied migrations."""

from functools import cache

from django.apps import apps
from django.db import connection


class ColumnsMissing(Exception):
    """Columns of models that the database does not have, as `table.column`."""


@cache
def check_columns() -> None:
    """Raise ColumnsMissing unless every column of every model exists; not checked again after success.

    A migration that was edited after a database had applied it leaves that database without what was added.
    """
    expected = {
        (model._meta.db_table, field.column)
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
        for field in model._meta.local_concrete_fields
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE a.attnum > 0 AND NOT a.attisdropped AND pg_table_is_visible(c.oid)"
            " AND c.relname = ANY(%s)",
            [sorted({table for table, _ in expected})],
        )
        missing = expected - set(cursor.fetchall())
    if missing:
        raise ColumnsMissing(", ".join(sorted(f"{table}.{column}" for table, column in missing)))
