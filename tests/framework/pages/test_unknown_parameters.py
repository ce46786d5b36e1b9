"""A page says which parameters of its address it does not read, and which it takes."""

import pytest
from django.test import Client

from tests.factories import make_host, make_series
from tests.pages import Page

pytestmark = pytest.mark.django_db
PAGES = (
    *("/", "/scaling/", "/matrix/", "/history/", "/runs/", "/series/", "/compare/", "/hosts/", "/incidents/"),
    *("/layouts/", "/prices/", "/studies/", "/uploads/", "/maintenance/", "/policies/", "/experiment/"),
    *("/search/", "/hosts/db-1/", "/docs/", "/account/", "/subscriptions/"),
)


@pytest.fixture(autouse=True)
def series(db: None) -> None:
    make_series([1000.0] * 3, host=make_host("db-1"))


@pytest.mark.parametrize("path", PAGES)
def test_page_names_a_parameter_that_it_does_not_read(viewer: Client, path: str) -> None:
    plain, asked = (Page(viewer.get(path, query)).words for query in ({}, {"stat": "open"}))

    assert "Unknown parameter" not in plain
    assert "Unknown parameter 'stat': this page takes " in asked


def test_page_names_what_it_takes_instead(viewer: Client) -> None:
    words = Page(viewer.get("/incidents/", {"state": "open", "b": "<i>"})).words

    assert "Unknown parameters 'state', 'b': this page takes from, q, tab, to, zone." in words


def test_parameters_of_mails_and_other_sites_are_not_named(viewer: Client) -> None:
    assert "Unknown" not in Page(viewer.get("/runs/", {"utm_source": "mail", "q": "host:db-1"})).words


def test_page_that_does_not_exist_says_nothing_about_parameters(viewer: Client) -> None:
    response = viewer.get("/nothing/", {"a": "1"})

    assert response.status_code == 404
    assert "Unknown parameter" not in response.content.decode()
