import json

import pytest

from benchapp.api.framework import lists
from benchapp.models import Study
from tests.factories import (
    make_change,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_run,
    make_series,
    make_target,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def two_of_each():
    """Make two of everything that is listed, with values of every kind; return the id of a series of two points."""
    for number in range(2):
        host = make_host(f"db-{number}")
        series = make_series([10.0, 20.5], host=host, target=make_target(target_name="=1+1", volume_count=4))
        run = make_run(host, labels={"rack": "r1"}, warnings=[{"code": "a", "where": "b", "message": "c"}])
        make_measurement(run, series, iops=1.5, badges=[{"code": "cached"}])
        make_incident(changes=[make_change(series)], suspects=[{"name": "kernel", "text": "kernel 6.1"}])
        make_planned_event()
        Study.objects.create(title="-Disks", panels=[])
    return series.pk


@pytest.mark.parametrize("format", ["csv", "ndjson"])
@pytest.mark.parametrize(
    "path",
    [
        "changes?",
        "hosts?",
        "incidents?",
        "planned-events?",
        "runs?",
        "series?",
        "series/{series_id}/points?rolling=3&",
        "studies?",
        "submissions?",
    ],
)
def test_a_long_list_is_written_as_a_short_one(reader, two_of_each, monkeypatch, path, format):
    address = f"/api/v1/{path.format(series_id=two_of_each)}format={format}"
    short = reader.get(address)

    monkeypatch.setattr(lists, "LIMIT_MAXIMUM", 1)
    long = reader.get(address)

    assert (short.streaming, long.streaming) == (False, True)
    assert read_rows(long.getvalue(), format) == read_rows(short.content, format)


def read_rows(body, format):
    """Return what is compared: the bytes of CSV; of NDJSON the objects, whose members have no order."""
    return body if format == "csv" else [json.loads(line) for line in body.splitlines()]
