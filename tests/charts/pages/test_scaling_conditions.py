"""The page of Scaling by a condition of the runs."""

import pytest
from django.test import Client

from tests.charts.api.test_scaling_conditions import FALLING, make_dependent_series
from tests.pages import Page

pytestmark = pytest.mark.django_db


def test_page_has_the_slope_in_title_and_table_and_a_dot_for_each_run(viewer: Client) -> None:
    make_dependent_series(FALLING)

    response = viewer.get("/scaling/", {"x": "extents"})

    figure = response.context["figure"]
    assert figure.title.endswith("bandwidth by extents: −10 % from 1 to 101 (9 runs)")
    assert "−100 kB/s per extent" in Page(response).words
    (layer,) = figure.document["layers"]
    (facet,) = layer["facets"]
    assert [over for cell in facet["lines"][0] for over in cell["runs"]["overs"]] == [x for x, _ in FALLING]
    assert (figure.document["display"]["draw"], len(facet["models"])) == ("points", 1)


def test_address_of_before_redirects_to_the_equal_chart(viewer: Client) -> None:
    response = viewer.get("/dependence/?q=host:db-1&condition=storage_round_trip_s&from=-7d")

    assert (response.status_code, response["Location"]) == (
        301,
        "/scaling/?q=host:db-1&from=-7d&x=storage_round_trip_s",
    )
