"""The application with one more view, which runs SELECT 1: the limit of a read."""

# First: it sets up Django.
from benchapp.asgi import application

# isort: split
from django.http import HttpRequest, HttpResponse
from django.urls import path

from benchapp import urls
from benchapp.framework.read.binary_columns import fetch_rows

__all__ = ["application"]


def read_one(request: HttpRequest) -> HttpResponse:
    """Return the row of a SELECT 1."""
    return HttpResponse(str(fetch_rows("SELECT 1")))


urls.urlpatterns.insert(0, path("bare-read", read_one))
