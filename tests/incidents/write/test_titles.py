"""Titles and starts of incidents: the typical change decides, and numbers are written as on pages."""

import re
from datetime import timedelta

import pytest

from benchapp.charts.images.history import describe_change_mark
from benchapp.incidents.pages.texts import make_size
from benchapp.incidents.read.changes import list_changes_of
from benchapp.incidents.rules.incidents import MetricSize
from benchapp.incidents.write.common_factors import Breadth
from benchapp.incidents.write.incidents import find_start, format_metric_size, write_title
from tests.factories import NOON, make_change, make_series

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_counts_have_thin_spaces_between_thousands() -> None:
    size = MetricSize("iops", 1000, -0.1, -0.2, -0.05, 0.05)
    breadth = Breadth(("host:db-1",), 1000, 1200, 0.8, [])

    title = write_title(size, breadth, slope=None)

    assert title == "db-1: IOPS −10 % (each −5.0 to −20 %) in 1\u202f000 of 1\u202f200 series"


@pytest.mark.django_db
@pytest.mark.parametrize(("after", "shown"), [(865.0, "14 %"), (945.0, "5.5 %")])
def test_title_message_page_and_chart_show_one_size_of_a_change(after: float, shown: str) -> None:
    change = make_change(make_series([1000.0] * 30), after=after)
    size = MetricSize("iops", 1, *[change.relative] * 3, 0.05)
    sizes = {"metric": "iops", "series": 1, **dict.fromkeys(("relative", "low", "high"), change.relative)}
    (mark,) = list_changes_of([change.series_id], metrics=["iops"])[change.series_id]

    texts = [
        write_title(size, Breadth(("host:db-1",), 1, 4, 0.8, []), slope=None),
        format_metric_size(sizes),
        make_size(change.relative, None, None, is_regression=True).text,
        describe_change_mark(mark, has_incident=False),
    ]

    assert [re.findall(r"[\d.]+ %", text) for text in texts] == [[shown]] * 4


@pytest.mark.django_db
def test_incident_starts_with_its_typical_change_not_with_a_stray_one() -> None:
    series = [make_series([1000.0] * 40, step=HOUR) for _ in range(4)]
    moment = NOON + 30 * HOUR
    changes = [make_change(each, at=moment, evidence={"interval_s": 3600.0}) for each in series[:3]]
    changes.append(make_change(series[3], at=moment - 2 * HOUR, evidence={"interval_s": 3600.0}))
    changes.append(
        make_change(series[0], at=moment - HOUR, metric="latency_p99_ns", evidence={"interval_s": 3600.0})
    )

    assert find_start(changes, "iops") == moment


@pytest.mark.django_db
def test_incident_starts_with_the_first_run_of_a_sweep() -> None:
    series = [make_series([1000.0] * 40, step=HOUR) for _ in range(3)]
    moments = [NOON + 30 * HOUR + minutes * MINUTE for minutes in (0, 20, 40)]
    changes = [
        make_change(each, at=moment, evidence={"interval_s": 3600.0})
        for each, moment in zip(series, moments, strict=True)
    ]

    assert find_start(changes, "iops") == moments[0]
