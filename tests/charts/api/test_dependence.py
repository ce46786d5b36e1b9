"""A metric by a condition, for programs."""

import csv
import io

import pytest

from tests.series.read.test_dependence import make_dependent_series

pytestmark = pytest.mark.django_db


def test_fit_and_points_are_answered_and_the_csv_has_the_points(reader):
    series = make_dependent_series([(extents, 1e8 - 1e5 * extents) for extents in range(1, 10)])

    answer = reader.get("/api/v1/dependence").json()
    text = reader.get("/api/v1/dependence?format=csv").content.decode()

    (row,) = answer["series"]
    assert (row["series"], row["n"], row["is_significant"]) == (series.pk, 9, True)
    assert row["slope"] == pytest.approx(-1e5)
    assert row["points"][0]["condition"] == 1
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [line["condition"] for line in lines] == [str(extents) for extents in range(1, 10)]
    refused = reader.get("/api/v1/dependence?condition=phase")
    assert (refused.status_code, refused.json()["pointer"]) == (400, "condition")
