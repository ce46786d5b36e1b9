"""Numbers in titles are written as on pages."""

from benchapp.analysis.incidents.typical_change import MetricSize
from benchapp.pipeline.incidents.common_factors import Breadth
from benchapp.pipeline.incidents.refresh import write_title


def test_counts_have_thin_spaces_between_thousands() -> None:
    size = MetricSize("iops", 1000, -0.1, -0.2, -0.05, 0.05)
    breadth = Breadth(("host:db-1",), 1000, 1200, 0.8, [])

    title = write_title(size, breadth, slope=None)

    assert title == "db-1: IOPS −10 % (−5 to −20 %) in 1\u202f000 of 1\u202f200 series"
