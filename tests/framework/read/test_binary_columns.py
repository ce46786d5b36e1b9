"""Rows in PostgreSQL's binary format, and ids as text."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from benchapp.framework.read.binary_columns import fetch_rows, write_ids

pytestmark = pytest.mark.django_db


def test_rows_have_the_values_of_djangos_cursor() -> None:
    query = (
        "SELECT 7::bigint, 0.1::double precision, '2026-11-22 12:00:00.000001+00'::timestamptz, 'a'::varchar, NULL,"
        " true, '{1.5,2.5}'::double precision[], '{\"a\": [1]}'::jsonb, %s::text"
    )

    (row,) = fetch_rows(query, ["b"])

    at = datetime(2026, 11, 22, 12, 0, 0, 1, tzinfo=UTC)
    assert row == (7, 0.1, at, "a", None, True, [1.5, 2.5], {"a": [1]}, "b")
    assert row[2].utcoffset() == at.utcoffset()


def test_queries_are_counted(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        fetch_rows("SELECT 1", [])
        fetch_rows("SELECT 2", [])


@pytest.mark.parametrize("ids", [[], [5], [3, 1, 2**40]])
def test_ids_as_text_are_an_array(ids: list[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::bigint[]", [write_ids(ids)])

        assert cursor.fetchone() == (ids,)
