"""Arrays of numbers reach PostgreSQL exactly, in its binary form."""

from datetime import UTC, datetime

import numpy as np
import pytest
from django.db import connection

from benchapp.pipeline.detection.histories import to_microseconds
from benchapp.pipeline.detection.packed_arrays import PackedArray, execute_packed

pytestmark = pytest.mark.django_db


def test_numbers_and_times_arrive_as_they_are() -> None:
    numbers, moment = [0.1, -2.5e300, float("nan")], datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)

    execute_packed(
        "CREATE TEMPORARY TABLE arrived ON COMMIT DROP AS"
        " SELECT %(floats)s::float8[] AS floats, %(integers)s::bigint[] AS integers, %(times)s::timestamptz[] AS times,"
        " %(none)s::float8[] AS none, %(text)s AS text",
        {
            "floats": PackedArray(np.array(numbers), "float8"),
            "integers": PackedArray(np.array([2**60, -1]), "int8"),
            "times": PackedArray(np.array([to_microseconds(moment)]), "timestamptz"),
            "none": PackedArray(np.zeros(0), "float8"),
            "text": "plain",
        },
    )

    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM arrived")
        floats, *others = cursor.fetchone()
    assert np.array(floats).tobytes() == np.array(numbers).tobytes()
    assert others == [[2**60, -1], [moment], [], "plain"]
