"""The chart of one metric over one dimension: what is chosen, fixed, mixed, counted, and how it was before."""

from datetime import date, timedelta
from statistics import median

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.catalog.grammar import parse_filter, write_filter
from benchapp.catalog.metrics import CATALOG, show_rates_in
from benchapp.charts.read import scaling, series_columns
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_findings import find_bends, find_findings, find_reach
from benchapp.charts.read.scaling_shapes import ScalingChart, ScalingRequest
from benchapp.charts.rules.findings import AtLimit
from benchapp.charts.texts.scaling_remarks import describe_applicable_limits, name_limit
from benchapp.framework.read.days import end_of_day
from benchapp.judge import judge_due
from benchapp.models import Series
from benchapp.series.read.levels import read_current_levels
from benchapp.series.read.selected_levels import LevelRange
from tests.detection.write import judging
from tests.ebs import make_ebs_series, make_level
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_host,
    make_measurement,
    make_planned_event,
    make_run,
    make_series,
    make_target,
    make_workload,
)

pytestmark = pytest.mark.django_db


def make_sweep(values, *, metric="iops", target=None, workload=None, direction="read", **summary):
    """Make a series for each volume count, which stands at a value; None: it was measured without that metric."""
    made = []
    for count, value in values.items():
        layout = make_target(**{"volume_type": "gp3", "volume_count": count, **(target or {})})
        series = make_series(target=layout, workload=workload, direction=direction, host=HOST[0])
        Series.objects.filter(pk=series.pk).update(measurement_count=1, first_at=NOON, last_at=NOON)
        if value is not None:
            make_level(series, metric, value, **summary)
        made.append(series)
    return made


HOST = [None]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def host(db):
    HOST[0] = make_host("db-01")
    return HOST[0]


def read(text="", *, as_of=None, **options) -> ScalingChart:
    span = LevelRange(to_at=end_of_day(as_of))
    return read_scaling(ScalingRequest(parse_filter(text), span=span, **options))


def values(chart, place=0):
    """Return the values of a panel by line."""
    return {line.label: [cell.median for cell in line.cells] for line in chart.panels[place].lines}


def test_first_picture_is_iops_over_volumes_with_a_color_for_each_pattern():
    make_sweep({1: 1000.0, 2: 2000.0})
    make_sweep({1: 500.0}, workload=make_workload(rw="randwrite"), direction="write")

    chart = read()

    assert (chart.x.dimension.name, chart.metric.name) == ("volume_count", "iops")
    assert chart.x.labels == ("1", "2")
    assert values(chart) == {"random read": [1000.0, 2000.0], "random write": [500.0, None]}
    assert (chart.counts.cells, chart.counts.filled) == (4, 3)


def test_four_patterns_stand_in_the_order_in_which_people_list_them():
    make_ebs_series(2)

    chart = read("bs:4k")

    assert list(values(chart)) == ["sequential read", "sequential write", "random read", "random write"]


def test_table_of_the_second_study_has_the_published_numbers():
    make_ebs_series(2)

    assert values(read("bs:4k")) == {
        "sequential read": [16730, 17854, 19830, 28315, 29210],
        "sequential write": [5372, 5939, 6465, 7918, 11894],
        "random read": [14311, 24287, 30613, 30180, 30213],
        "random write": [5956, 11769, 20713, 22940, 23253],
    }


def test_everything_that_varies_beside_the_axes_is_held_where_most_cells_are_filled():
    make_ebs_series(2, 3, 4)

    chart = read()

    assert [(fixed.dimension, fixed.values) for fixed in chart.fixed] == [("file_size_bytes", (5 * 2**30,))]
    assert [(choice.value // 2**30, choice.series_count) for choice in chart.fixed[0].choices] == [
        (5, 20),
        (15, 20),
        (50, 6),
        (100, 2),
    ]
    assert write_filter(chart.shown_filter) == "file_size_bytes:5G"
    assert chart.counts.hidden_by_fixed == 28
    # 20 have latencies only.
    assert chart.counts.shown + chart.counts.left_out == 68
    assert read(free=("*",)).counts.hidden_by_fixed == 0


def test_link_with_what_was_chosen_shows_the_same_picture():
    make_ebs_series()
    first = read()

    again = read(write_filter(first.shown_filter), x="volume_count", metric="iops", color="pattern")

    assert values(again) == values(first)
    assert again.fixed == ()


def test_what_is_let_free_is_mixed_and_said():
    make_sweep({1: 1000.0}, target={"filesystem": "xfs"})
    make_sweep({1: 3000.0, 2: 5000.0}, target={"filesystem": "ext4"})

    chart = read(free=("filesystem",))

    assert values(chart) == {"random read": [2000.0, 5000.0]}
    assert chart.mixed == ("filesystem",)
    assert len(chart.panels[0].lines[0].cells[0].series_ids) == 2


def test_several_series_have_the_least_p10_and_the_greatest_p90():
    make_sweep({1: 100.0}, target={"mount_options": "noatime"}, p10=90.0, p90=120.0, n=5)
    make_sweep({1: 200.0}, target={"mount_options": "rw"}, p10=150.0, p90=210.0, n=7)

    cell = read().panels[0].lines[0].cells[0]

    assert (cell.median, cell.p10, cell.p90, cell.n) == (150.0, 90.0, 210.0, 12)


def test_percentiles_of_several_series_are_never_averaged():
    for options, level in (("noatime", 100.0), ("rw", 300.0)):
        make_sweep({1: level}, metric="latency_p99_ns", target={"mount_options": options})

    cell = read(metric="latency_p99_ns").panels[0].lines[0].cells[0]

    assert (cell.median, cell.p10, cell.p90) == (300.0, 100.0, 300.0)


def test_layout_that_moves_with_x_is_held_only_where_a_cell_has_a_choice():
    make_sweep({1: 1.0}, target={"raid_level": "none"})
    make_sweep({2: 2.0, 4: 4.0}, target={"raid_level": "raid0"})
    make_sweep({4: 9.0}, target={"raid_level": "raid5"})

    chart = read()

    assert values(chart) == {"random read": [1.0, 2.0, 4.0]}
    assert chart.fixed[0].values == ("none", "raid0")
    assert write_filter(chart.shown_filter) == "raid_level:none,raid0"


def test_hosts_and_pools_with_one_layout_are_repetitions():
    for metric in ("iops", "latency_p99_ns"):
        HOST[0] = make_host(f"of-{metric}")
        pooled = make_series(pool="web", target=make_target(volume_type="gp3", volume_count=1))
        Series.objects.filter(pk=pooled.pk).update(last_at=NOON, measurement_count=1)
        make_level(pooled, metric, 7.0)
        make_sweep({1: 1.0, 2: 2.0}, metric=metric)

    shown, percentiles = read(), read(metric="latency_p99_ns")

    assert (shown.fixed, values(shown)) == ((), {"random read": [4.0, 2.0]})
    assert (percentiles.fixed, values(percentiles)) == ((), {"random read": [7.0, 2.0]})
    assert write_filter(read("pool:web").shown_filter) == "pool:web"


def test_depth_is_x_where_volumes_do_not_vary():
    for depth in (1, 8, 32):
        make_sweep({4: 100.0 * depth}, workload=make_workload(iodepth=depth))

    chart = read()

    assert chart.x.dimension.name == "iodepth"
    assert chart.x.values == (1, 8, 32)


def test_curves_of_one_value_each_are_bars_side_by_side():
    for rw, size, depth in (("randread", 4096, 32), ("randread", 16_384, 16), ("read", 2**20, 8)):
        make_sweep({4: 100.0 * depth}, workload=make_workload(rw=rw, block_size_bytes=size, iodepth=depth))

    chart, by_depth = read(), read(x="iodepth")

    assert (chart.x.name, chart.color, chart.draw_mode) == ("pattern,block_size_bytes", None, "bars")
    assert list(values(chart).values()) == [[800.0, 3200.0, 1600.0]]
    assert (by_depth.counts.filled, by_depth.draw_mode) == (3, "bars")


def test_targets_as_color_are_all_shown_though_one_has_no_volume_type():
    for name, volume_type, value in (
        ("nvme0n1", None, 90_000),
        ("sda", "ssd", 50_000),
        ("md0", "raid", 120_000),
    ):
        target = make_target(target_name=name, volume_type=volume_type)
        add_series([value], host=HOST[0], target=target)

    chart = read(color="target_name")

    assert (chart.x.dimension.name, chart.counts.shown, chart.counts.unknown_x) == ("iodepth", 3, 0)
    assert sorted(cell.median for cell in chart.cells) == [50_000, 90_000, 120_000]


def test_hosts_that_x_determines_are_all_shown():
    for name, count in (("a", 1), ("b", 2), ("c", 4)):
        HOST[0] = make_host(name)
        for depth in (1, 8):
            make_sweep({count: float(depth)}, workload=make_workload(iodepth=depth))

    chart = read()

    assert (chart.x.dimension.name, chart.x.values) == ("volume_count", (1, 2, 4))
    assert [fixed.dimension for fixed in chart.fixed] == ["iodepth"]


def test_every_volume_type_is_shown_with_the_layout_that_it_has():
    make_sweep({1: 100.0, 8: 800.0}, target={"volume_type": "gp3"})
    HOST[0] = make_host("db-02")
    make_sweep({8: 900.0}, target={"volume_type": "io2", "filesystem": "xfs"})
    HOST[0] = make_host("db-03")
    make_sweep({2: 50.0}, target={"volume_type": "st1", "filesystem": "ext4"})

    chart = read(x="volume_type")

    assert values(chart) == {"random read": [800.0, 900.0, 50.0]}
    assert chart.fixed[0].dimension == "volume_count"
    assert (chart.fixed[0].values, chart.counts.hidden_by_fixed) == ((2, 8), 1)


def test_dimensions_that_the_pattern_determines_are_not_fixed():
    for rw, size, depth in (("randread", 4096, 16), ("read", 2**20, 4), ("write", 2**20, 4)):
        direction = "write" if rw == "write" else "read"
        work = make_workload(rw=rw, block_size_bytes=size, iodepth=depth)
        make_sweep({1: 1.0, 2: 2.0}, workload=work, direction=direction)

    chart = read()

    assert (chart.fixed, chart.counts.hidden_by_fixed) == ((), 0)
    assert chart.counts.filled == 6


def test_first_run_of_several_patterns_is_a_bar_for_each():
    for rw, size, depth in (
        ("randread", 4096, 16),
        ("randwrite", 4096, 16),
        ("read", 2**20, 4),
        ("write", 2**20, 4),
    ):
        direction = "write" if "write" in rw else "read"
        make_sweep(
            {1: 1.0}, workload=make_workload(rw=rw, block_size_bytes=size, iodepth=depth), direction=direction
        )

    chart = read()

    assert (chart.x.name, chart.color, chart.fixed) == ("pattern", None, ())
    assert chart.x.labels == ("sequential read", "sequential write", "random read", "random write")


def test_single_volume_is_one_stripe():
    make_sweep({1: 1.0}, target={"raid_level": "none"})
    make_sweep({4: 4.0}, target={"raid_level": "raid0", "stripe_count": 4})
    make_sweep({8: 8.0}, target={"raid_level": "raid0"})

    chart = read(x="stripe_count")

    assert (chart.x.values, values(chart), chart.counts.unknown_x) == ((1, 4), {"random read": [1.0, 4.0]}, 1)
    assert values(read("stripe_count:1", x="volume_count")) == {"random read": [1.0]}
    assert values(read("stripe_count:>=1", x="volume_count")) == {"random read": [1.0, 4.0]}
    assert values(read("stripe_count:unknown", x="volume_count")) == {"random read": [8.0]}


def test_shown_series_of_a_cell_do_not_include_the_hidden_ones_of_another():
    make_sweep({1: 1.0, 2: 2.0, 4: 4.0}, target={"filesystem": "xfs"})
    make_sweep({4: 9.0, 8: 8.0}, target={"filesystem": "ext4"})

    chart = read()

    assert values(chart) == {"random read": [1.0, 2.0, 4.0, 8.0]}
    assert chart.fixed[0].values == ("ext4", "xfs")
    assert (chart.mixed, chart.counts.shown, chart.counts.hidden_by_fixed) == ((), 4, 1)


def test_single_series_is_one_bar():
    make_sweep({4: 100.0})

    chart = read()

    assert (chart.x.labels, values(chart)) == (("4",), {"random read": [100.0]})


def test_timings_of_a_whole_are_shown_where_nothing_has_iops():
    make_sweep({1: 3.5}, metric="elapsed_s")

    assert read().metric.name == "elapsed_s"


def test_nothing_at_all_is_an_empty_picture():
    chart = read()

    assert chart.is_empty
    assert chart.metric.name == "iops"


def test_failed_missing_and_unvalued_cells_are_told_apart():
    failed = make_sweep({4: None})[0]
    Series.objects.filter(pk=failed.pk).update(badges=["failed-job"])
    make_sweep({1: 100.0, 2: 200.0})
    make_sweep({2: None}, workload=make_workload(rw="randwrite"), direction="write")
    make_sweep({1: 50.0}, workload=make_workload(rw="randwrite"), direction="write")

    chart = read()

    states = {line.label: [cell.state for cell in line.cells] for line in chart.panels[0].lines}
    assert states == {
        "random read": ["measured", "measured", "failed"],
        "random write": ["measured", "unvalued", "missing"],
    }
    assert (chart.counts.failed, chart.counts.unvalued) == (1, 1)


def test_series_whose_x_is_unknown_are_counted_and_not_drawn():
    make_sweep({None: 5.0, 1: 1.0, 2: 2.0})

    chart = read()

    assert (chart.x.labels, chart.counts.unknown_x) == (("1", "2"), 1)


def test_iops_per_volume_are_divided_and_their_ideal_is_level():
    make_sweep({1: 1000.0, 4: 2000.0}, p10=400.0, p90=4000.0)

    one, four = read(metric="iops_per_volume").panels[0].lines[0].cells

    assert (four.median, four.p10, four.p90) == (500.0, 100.0, 1000.0)
    assert (one.ideal, four.ideal, four.efficiency) == (1000.0, 1000.0, 0.5)


def test_ideal_is_as_many_times_the_first_and_efficiency_the_share_of_it():
    make_sweep({2: 1000.0, 8: 3000.0})

    two, eight = read().panels[0].lines[0].cells

    assert (two.ideal, eight.ideal, two.efficiency, eight.efficiency) == (1000.0, 4000.0, 1.0, 0.75)


def test_what_is_provisioned_is_a_ceiling_by_itself():
    make_ebs_series(7)

    (limit,) = read("bs:4k").panels[0].limits

    assert (limit.values, limit.is_given) == ((2000, 4000, 8000), False)


def test_provisioned_iops_limit_the_curves_that_have_them():
    make_sweep({1: 990.0, 2: 1980.0, 4: 3960.0})
    make_sweep({1: 1000.0, 2: 2000.0, 4: 4000.0}, target={"volume_type": "io1", "provisioned_iops": 1000})

    chart = read(color="volume_type", limits=("known",))

    (facet,) = chart.panels
    gp3, io1 = facet.lines
    assert [name_limit(facet, limit).replace("\u202f", " ") for limit in facet.limits] == [
        "provisioned: 1 000 IOPS × n (io1)",
        "gp3 16 000 IOPS × n (gp3)",
        "io1 64 000 IOPS × n (io1)",
    ]
    reached = [each for each in find_findings(chart) if isinstance(each, AtLimit)]
    assert [(each.start.place.line, each.limit) for each in reached] == [(1, 1000)]
    assert [facet.find_lowest_limit(line, 2).values[2] for line in (gp3, io1)] == [64_000, 4000]
    assert [text.replace("\u202f", " ") for text in describe_applicable_limits(chart)] == [
        "Limit that applies to gp3: 1 volume to 4 volumes: gp3 16 000 IOPS × n.",
        "Limit that applies to io1: 1 volume to 4 volumes: provisioned: 1 000 IOPS × n.",
        "gp3, 4 volumes: 6.2 % of gp3 16 000 IOPS × n; io1, 4 volumes: 100 % of provisioned: 1 000 IOPS × n.",
    ]


def test_published_limits_are_not_known_of_all_curves():
    make_sweep({1: 990.0})
    make_sweep({1: 1000.0}, target={"volume_type": "tape"})

    chart = read(x="volumes", color="volume_type", limits=("known",))

    assert "No published limit is known for tape." in describe_applicable_limits(chart)


def test_provisioned_iops_do_not_limit_a_mix_of_layouts_with_and_without_them():
    make_sweep({1: 1000.0})
    make_sweep({1: 1000.0}, target={"volume_type": "io1", "provisioned_iops": 1000})

    chart = read(x="volumes", color="none", free=("volume_type", "provisioned_iops"))

    assert [len(cell.series_ids) for _, _, _, cell in chart.walk()] == [2]
    assert chart.panels[0].limits == ()


def test_given_ceilings_have_names_units_and_may_be_of_each_volume():
    make_sweep({1: 1e6, 4: 4e6}, metric="bandwidth_bytes_per_s")

    chart = read(metric="bandwidth_bytes_per_s", limits=("instance:125MB/s", "volume: 60 MiB/s*n"))

    assert [(each.name, each.values) for each in chart.panels[0].limits] == [
        ("instance", (125e6, 125e6)),
        ("volume", (60 * 2**20, 240 * 2**20)),
    ]


def test_published_limits_are_those_of_the_types_and_the_lowest_applies():
    host = make_host("db-1")
    for count, iops in ((1, 15_000.0), (2, 18_000.0), (4, 18_500.0)):
        target = make_target(volume_type="gp3", volume_count=count, instance_type="m5.4xlarge")
        make_series([iops], host=host, target=target)
    calculate_levels()

    chart = read(limits=("known",))

    assert [(each.name, each.values, each.is_given) for each in chart.panels[0].limits] == [
        ("gp3 16\u202f000 IOPS × n", (16_000, 32_000, 64_000), True),
        ("instance m5.4xlarge 18\u202f750 IOPS", (18_750,) * 3, True),
        ("instance m5.4xlarge bandwidth 594 MB/s at 4 KiB", (593.75e6 / 4096,) * 3, True),
    ]
    assert list(describe_applicable_limits(chart)) == [
        (
            "Limit that applies: 1 volume: gp3 16\u202f000 IOPS × n; 2 volumes to 4 volumes:"
            " instance m5.4xlarge 18\u202f750 IOPS."
        ),
        "Random read, 4 volumes: 99 % of instance m5.4xlarge 18\u202f750 IOPS.",
    ]
    assert list(describe_applicable_limits(read())) == []


def test_published_limit_of_a_volume_with_burst_credits_depends_on_its_size():
    make_sweep({1: 3010.0, 2: 6020.0}, target={"volume_type": "gp2", "volume_size_bytes": 100 * 2**30})

    chart = read(limits=("known",))

    assert [(each.name, each.values) for each in chart.panels[0].limits] == [
        ("gp2 100 GiB 300 IOPS × n", (300, 600)),
        ("gp2 100 GiB burst 3\u202f000 IOPS × n", (3000, 6000)),
    ]


def make_limited_sweep(block_sizes, counts=(1, 2, 4)):
    """Make a series of 10 000 IOPS for each block size and number of gp3 volumes at an m5.4xlarge."""
    host = make_host("db-1")
    for block_size in block_sizes:
        for count in counts:
            make_series(
                [10_000.0],
                host=host,
                target=make_target(volume_type="gp3", volume_count=count, instance_type="m5.4xlarge"),
                workload=make_workload(block_size_bytes=block_size),
            )
    calculate_levels()


def test_bandwidth_limits_are_iops_at_one_block_size_and_the_lowest_applies():
    make_limited_sweep([128 * 2**10])
    each, instance = 1000 * 2**20 / 2**17, 593.75e6 / 2**17

    chart = read(limits=("known",))

    assert [(limit.name, limit.values) for limit in chart.panels[0].limits] == [
        ("gp3 16\u202f000 IOPS × n", (16_000, 32_000, 64_000)),
        ("gp3 bandwidth 1.05 GB/s at 128 KiB × n", (each, 2 * each, 4 * each)),
        ("instance m5.4xlarge 18\u202f750 IOPS", (18_750,) * 3),
        ("instance m5.4xlarge bandwidth 594 MB/s at 128 KiB", (instance,) * 3),
    ]
    assert next(describe_applicable_limits(chart)) == (
        "Limit that applies: 1 volume to 4 volumes: instance m5.4xlarge bandwidth 594 MB/s at 128 KiB."
    )


def test_limits_have_no_common_block_size_unless_it_is_the_x_axis():
    make_limited_sweep([4096, 65_536], counts=(2,))

    mixed = read(x="volumes", color="bs", limits=("known",))
    over_block_size = read(x="bs", color="none", limits=("known",))

    assert [limit.name for limit in mixed.panels[0].limits] == [
        "gp3 16\u202f000 IOPS × n",
        "instance m5.4xlarge 18\u202f750 IOPS",
    ]
    (bandwidth,) = [limit for limit in over_block_size.panels[0].limits if "instance" in limit.name][1:]
    assert bandwidth.name == "instance m5.4xlarge bandwidth 594 MB/s"
    assert bandwidth.values == (593.75e6 / 4096, 593.75e6 / 65_536)
    (facet,) = over_block_size.panels
    lowest = [facet.find_lowest_limit(facet.lines[0], place).name for place in (0, 1)]
    assert lowest == ["instance m5.4xlarge 18\u202f750 IOPS", "instance m5.4xlarge bandwidth 594 MB/s"]


def test_iops_limits_are_bandwidth_at_one_block_size():
    make_sweep({1: 1e6, 2: 2e6}, metric="bandwidth_bytes_per_s", target={"instance_type": "m5.4xlarge"})

    chart = read(metric="bandwidth_bytes_per_s", limits=("known",))

    assert [(limit.name, limit.values) for limit in chart.panels[0].limits] == [
        ("gp3 1.05 GB/s × n", (1000 * 2**20, 2000 * 2**20)),
        ("gp3 16\u202f000 IOPS at 4 KiB × n", (16_000 * 4096, 32_000 * 4096)),
        ("instance m5.4xlarge 594 MB/s", (593.75e6,) * 2),
        ("instance m5.4xlarge 18\u202f750 IOPS at 4 KiB", (18_750 * 4096,) * 2),
    ]


def test_names_of_limits_have_the_units_of_the_reader():
    make_limited_sweep([4096], counts=(1, 2))

    names = []
    for units in ("si", "binary"):
        with show_rates_in(units):
            names.append(read(limits=("known",)).panels[0].limits[-1].name)

    assert [name.rpartition(" bandwidth ")[2] for name in names] == [
        "594 MB/s at 4 KiB",
        "566 MiB/s at 4 KiB",
    ]


def test_targets_are_of_their_metric_and_may_be_of_each_volume():
    make_ebs_series(2)

    chart = read("bs:4k", targets=("iops:24k:Database", "p99:1ms:Latency", "iops:8000*n:Scaling"))

    assert [(limit.name, limit.values) for limit in chart.panels[0].limits] == [
        ("Database", (24_000,) * 5),
        ("Scaling", (8000, 16_000, 32_000, 64_000, 128_000)),
    ]
    random_read = [
        (reach.target.name, reach.reached, reach.missed) for reach in find_reach(chart) if reach.line == 2
    ]
    assert random_read == [("Database", (1, 2, 3, 4), (0,)), ("Scaling", (0, 1), (2, 3, 4))]


def test_latency_meets_a_target_at_most_as_high():
    make_sweep({1: 1e6, 2: 2e6, 4: 0.5e6}, metric="latency_p99_ns")

    (reach,) = find_reach(read(metric="p99", targets=("p99:1ms:SLO",)))

    assert (reach.reached, reach.missed) == ((0, 2), (1,))


def make_metrics(counts):
    """Make a series for each volume count with IOPS, and with latency if it is known."""
    for count, (iops, latency) in counts.items():
        (series,) = make_sweep({count: iops})
        if latency is not None:
            make_level(series, "latency_p99_ns", latency)


def test_several_metrics_are_charts_with_equal_axes():
    make_metrics({1: (100.0, 1e6), 2: (200.0, None), 4: (None, 3e6)})

    chart = read(metric="iops,p99", limits=("limit:150",), targets=("p99:2ms:SLO",))

    assert [each.metric.name for each in chart.stack] == ["iops", "latency_p99_ns"]
    assert [each.x.values for each in chart.stack] == [(1, 2, 4)] * 2
    assert [[cell.median for _, _, _, cell in each.walk()] for each in chart.stack] == [
        [100.0, 200.0, None],
        [1e6, None, 3e6],
    ]
    assert [[limit.name for limit in each.panels[0].limits] for each in chart.stack] == [["limit"], ["SLO"]]


def test_axes_are_those_of_the_first_metric_with_values():
    make_sweep({1: 1e6, 8: 2e6}, metric="latency_p99_ns")

    chart = read(metric=",p99")

    assert [each.counts.filled for each in chart.stack] == [0, 2]
    assert not chart.is_empty


def test_values_of_several_metrics_are_the_current_levels():
    make_metrics({1: (100.0, 1e6), 2: (200.0, 2e6)})

    stack = read(metric="iops,p99,bandwidth").stack

    for metric in ("iops", "latency_p99_ns", "bandwidth_bytes_per_s"):
        ids = [series.pk for series in Series.objects.order_by("target__volume_count")]
        levels = read_current_levels(ids, CATALOG[metric])
        (chart,) = [each for each in stack if each.metric.name == metric]
        shown = [cell.median for _, _, _, cell in chart.walk()]
        assert shown == [levels[each].median if each in levels else None for each in ids]


def test_several_metrics_take_one_more_query_each(django_assert_num_queries, monkeypatch):
    make_metrics({1: (100.0, 1e6), 2: (200.0, 2e6)})
    fetched = []
    monkeypatch.setattr(
        series_columns, "fetch_arrays", _count(series_columns.fetch_arrays, fetched, "fetch_arrays")
    )

    with django_assert_num_queries(4):  # the snapshot, marks of each metric, and kinds of the latency
        read(metric="iops,p99")

    assert fetched == ["fetch_arrays"] * 3


def test_facets_are_panels_with_the_same_lines():
    make_ebs_series(2, 3)

    chart = read("bs:4k rw:randread", facet="file_size")

    assert [facet.label for facet in chart.panels] == ["5 GiB", "15 GiB"]
    assert values(chart, 1) == {"random read": [375, 1644, 10912, 26643, 26002]}


def test_layouts_side_by_side_are_those_of_the_published_series():
    make_ebs_series(4, 6, 8)

    chart = read("file_size:50G volumes:4", x="volume_size,volume_type")

    assert chart.x.labels == ("20 GiB · standard", "200 GiB · provisioned-iops", "200 GiB · standard")
    assert values(chart) == {"random read": [1620, 8191, 1344], "random write": [513, 8094, 577]}
    assert [limit.values for limit in chart.panels[0].limits] == [(None, 8000, None)]
    assert (chart.fixed, chart.mixed) == ((), ())


def test_combined_colors_are_lines_of_the_combinations_that_exist():
    make_ebs_series(2, 5, 7)

    chart = read("bs:4k rw:randread", x="volumes", color="volume_size,volume_type")

    assert values(chart) == {
        "20 GiB · standard": [14311, 24287, 30613, 30180, 30213],
        "200 GiB · provisioned-iops": [2064, 4114, 8150, None, None],
        "200 GiB · standard": [16074, 22964, 30321, 30371, 30276],
    }


GROUPS = ("20 GB = volume_size:20G", "200 GB = volume_size:200G type:standard", "promised = type:prov*")


def test_named_groups_are_the_last_chart_of_the_published_series():
    make_ebs_series(4, 6, 8)

    chart = read("file_size:50G volumes:4", groups=GROUPS)

    assert (chart.x.name, chart.x.labels) == ("group", ("20 GB", "200 GB", "promised"))
    assert values(chart) == {"random read": [1620, 1344, 8191], "random write": [513, 577, 8094]}
    assert [(count.matching, count.shown, count.others) for count in chart.groups] == [(2, 2, ())] * 3
    assert chart.counts.ungrouped == 0


def test_groups_can_be_the_colors():
    make_ebs_series(2, 5, 7)

    chart = read("bs:4k rw:randread", x="volumes", color="group", groups=GROUPS)

    assert values(chart) == {
        "20 GB": [14311, 24287, 30613, 30180, 30213],
        "200 GB": [16074, 22964, 30321, 30371, 30276],
        "promised": [2064, 4114, 8150, None, None],
    }


def test_series_in_several_groups_or_none_are_counted():
    make_sweep({1: 10.0, 2: 20.0, 4: 40.0, 8: 80.0})

    chart = read(groups=("few = volumes:1..2", "two = volumes:2..4", "empty = volumes:99"))

    assert values(chart) == {"random read": [15.0, 40.0, None]}
    few, two, empty = chart.groups
    assert (few.matching, few.shown, few.others) == (2, 2, ())
    assert (two.matching, two.shown, two.others) == (2, 1, (("few", 1),))
    assert (empty.matching, empty.shown) == (0, 0)
    assert (chart.counts.ungrouped, chart.mixed) == (1, ("volume_count", "raid_level", "stripe_count"))


def test_group_without_a_filter_has_all_other_series():
    make_sweep({1: 10.0, 2: 20.0, 4: 40.0})

    assert values(read(groups=("one = volumes:1", "others ="))) == {"random read": [10.0, 30.0]}


def test_dimension_in_the_filter_of_a_group_is_not_fixed_and_others_are():
    make_sweep({1: 10.0, 4: 40.0}, target={"filesystem": "xfs"})
    make_sweep({4: 41.0}, target={"filesystem": "ext4"})

    chart = read(groups=("one = volumes:1", "four = volumes:4"))

    assert [(fixed.dimension, fixed.values) for fixed in chart.fixed] == [("filesystem", ("xfs",))]
    assert values(chart) == {"random read": [10.0, 40.0]}


def test_words_and_negated_terms_of_a_group_match_as_in_the_filter():
    make_sweep({1: 10.0}, target={"filesystem": "xfs"})
    make_sweep({1: 20.0}, target={"filesystem": "ext4"})

    assert values(read(groups=("word = XFS", "not = -fs:xfs"))) == {"random read": [10.0, 20.0]}


def test_automatic_axis_is_combined_with_a_dimension():
    make_ebs_series(5, 7)

    assert read("bs:4k rw:randread", x=",volume_type").x.name == "volume_count,volume_type"
    assert read("bs:4k", color=",volume_type").color.name == "pattern,volume_type"


def test_latency_over_throughput_has_its_knee():
    for depth, iops, latency in (
        (1, 10e3, 1e5),
        (8, 60e3, 1.3e5),
        (32, 80e3, 4e5),
        (64, 81e3, 8e5),
        (128, 82e3, 16e5),
    ):
        (series,) = make_sweep({4: latency}, metric="latency_mean_ns", workload=make_workload(iodepth=depth))
        make_level(series, "iops", iops)

    chart = read(over="iops")

    assert (chart.x.dimension.name, chart.metric.name) == ("iodepth", "latency_mean_ns")
    assert [cell.over for cell in chart.panels[0].lines[0].cells] == [10e3, 60e3, 80e3, 81e3, 82e3]
    assert [place for *_, place in find_bends(chart)] == [2]
    assert find_findings(chart) == ()


def test_past_is_of_the_measurements_before_it_without_failed_and_excluded_ones():
    layout = make_target(volume_count=1)
    series = make_series([100.0, 200.0, 300.0], target=layout, host=HOST[0], step=timedelta(days=1))
    for day, fields in ((1, {"error": 5}), (1, {"is_excluded": True})):
        run = make_run(HOST[0], target=layout, started_at=NOON + timedelta(days=day))
        make_measurement(run, series, iops=9e9, **fields)
    calculate_levels()

    past = read(as_of=date(2026, 11, 22)).panels[0].lines[0].cells[0]

    assert (past.median, past.n) == (150.0, 2)


def test_ghost_stands_beside_as_many_days_before():
    make_series([100.0, 200.0], target=make_target(volume_count=1), step=timedelta(days=10))
    calculate_levels()

    cell = read(as_of=date(2026, 12, 1), compare_days=5).panels[0].lines[0].cells[0]

    assert (cell.median, cell.earlier_median) == (150.0, 100.0)


def test_past_is_of_the_level_that_had_begun_by_then():
    values = judging.make_level(1000.0, 24) + judging.make_level(780.0, 10)
    start_at = NOON - timedelta(days=40)
    judging.make_cells(HOST[0], [values], start_at=start_at, step=timedelta(days=1))
    judge_due()

    now, then = (
        read(as_of=(start_at + timedelta(days=day)).date()).panels[0].lines[0].cells[0] for day in (34, 20)
    )

    assert (now.n, then.n) == (10, 21)
    assert now.median == pytest.approx(780.0, rel=0.01)
    assert then.median == pytest.approx(1000.0, rel=0.01)


def test_past_is_without_runs_during_maintenance():
    series = make_series(
        [100.0, 900.0, 100.0, 100.0], target=make_target(volume_count=1), host=HOST[0], step=timedelta(days=1)
    )
    make_planned_event(
        filter="host:db-01", from_at=NOON + timedelta(hours=20), to_at=NOON + timedelta(hours=30)
    )
    calculate_levels([series.pk])

    past = read(as_of=date(2026, 11, 23)).panels[0].lines[0].cells[0]

    assert (past.median, past.n) == (100.0, 2)


def test_runs_of_a_value_are_those_of_its_level():
    start_at = NOON - timedelta(days=40)
    values = judging.make_level(1000.0, 24) + judging.make_level(780.0, 10)
    (series,) = judging.make_cells(HOST[0], [values], start_at=start_at, step=timedelta(days=1))
    during, failed, excluded = (start_at + timedelta(days=day, hours=2) for day in (26, 27, 28))
    make_planned_event(filter="host:db-01", from_at=during, to_at=during + timedelta(hours=1))
    for at, fields in ((during, {}), (failed, {"error": 5}), (excluded, {"is_excluded": True})):
        make_measurement(make_run(HOST[0], started_at=at), series, iops=1.0, **fields)
    repeated = make_run(HOST[0], started_at=start_at + timedelta(days=33, hours=2))
    for ordinal, iops in enumerate((700.0, 780.0, 790.0)):
        make_measurement(repeated, series, iops=iops, ordinal=ordinal)
    judge_due()

    (cell,) = read(has_runs=True).panels[0].lines[0].cells

    assert len(cell.runs) == cell.n == 11
    assert median(run.value for run in cell.runs) == cell.median
    assert [run.started_at for run in cell.runs] == sorted(run.started_at for run in cell.runs)
    assert (cell.runs[-1].run, cell.runs[-1].value) == (repeated.pk, 780.0)
    assert {(run.host, run.series) for run in cell.runs} == {("db-01", series.pk)}


def test_runs_at_an_earlier_time_are_those_before_it():
    make_series([100.0, 200.0, 300.0], target=make_target(volume_count=1), step=timedelta(days=1))
    calculate_levels()

    (cell,) = read(as_of=date(2026, 11, 22), has_runs=True).panels[0].lines[0].cells

    assert [run.value for run in cell.runs] == [100.0, 200.0]


def test_runs_beyond_the_maximum_are_shared_by_the_series_of_a_value(monkeypatch):
    monkeypatch.setattr(scaling, "CELL_RUNS_MAXIMUM", 4)
    for name in ("db-02", "db-03"):
        add_series([1.0, 2.0, 3.0], host=make_host(name), target=make_target(volume_count=1))

    chart = read(x="volume_count", free=("host",), has_runs=True)

    (cell,) = chart.panels[0].lines[0].cells
    assert (chart.cell_runs_maximum, cell.n) == (4, 6)
    assert sorted((run.host, run.value) for run in cell.runs) == [
        ("db-02", 2.0),
        ("db-02", 3.0),
        ("db-03", 2.0),
        ("db-03", 3.0),
    ]


def test_of_more_series_than_runs_the_most_recent_have_one(monkeypatch):
    monkeypatch.setattr(scaling, "CHART_RUNS_MAXIMUM", 2)
    for hour in range(3):
        layout = make_target(volume_count=1)
        add_series([1.0, 2.0], host=make_host(f"db-1{hour}"), target=layout, start_at=NOON + hour * DAY)

    (cell,) = read(x="volume_count", free=("host",), has_runs=True).panels[0].lines[0].cells

    assert [(run.host, run.value) for run in cell.runs] == [("db-11", 2.0), ("db-12", 2.0)]


def test_runs_of_a_value_per_volume_are_per_volume():
    add_series([400.0, 800.0], target=make_target(volume_count=4))

    (cell,) = read(metric="iops_per_volume", x="volume_count", has_runs=True).panels[0].lines[0].cells

    assert [run.value for run in cell.runs] == [100.0, 200.0]


def test_runs_of_a_latency_have_their_own_throughput():
    series = make_series(target=make_target(volume_count=4), host=HOST[0])
    for hour, (latency, iops) in enumerate(((1e6, 1000.0), (2e6, 500.0))):
        run = make_run(HOST[0], started_at=NOON + timedelta(hours=hour))
        make_measurement(run, series, latency_mean_ns=latency, iops=iops)
    calculate_levels([series.pk])

    (cell,) = read(over="iops", has_runs=True).panels[0].lines[0].cells

    assert [(run.value, run.over) for run in cell.runs] == [(1e6, 1000.0), (2e6, 500.0)]


def test_queries_for_runs_do_not_grow_with_series(django_assert_num_queries):
    add_series([1.0, 2.0], target=make_target(volume_count=1))
    with CaptureQueriesContext(connection) as few:
        read(has_runs=True)
    for count in (2, 4, 8):
        add_series([1.0, 2.0], target=make_target(volume_count=count))

    with django_assert_num_queries(len(few)):
        read(has_runs=True)


def test_series_that_began_later_are_not_in_a_past_picture():
    series = make_series([100.0], target=make_target(volume_count=1))
    make_level(series, "iops", 100.0)

    assert read(as_of=date(2020, 1, 1)).is_empty


@pytest.mark.parametrize(
    ("options", "parameter", "words"),
    [
        ({"x": "speed"}, "x", "'speed' is not a valid dimension; available: host, pool"),
        ({"x": "none"}, "x", "'none' is not a valid dimension"),
        ({"x": "volume_type,speed"}, "x", "'speed' is not a valid dimension"),
        ({"x": "host,pool,rw,engine"}, "x", "at most 3 allowed"),
        ({"x": "volume_count,pattern", "color": "pattern"}, "color", "must be different dimensions"),
        ({"metric": "speed"}, "metric", "'speed' is not a valid metric; available: iops"),
        ({"metric": "iops,speed"}, "metric", "'speed' is not a valid metric"),
        ({"metric": "iops,p50,p95,p99"}, "metric", "4 metrics given, at most 3 allowed"),
        ({"metric": "p99,latency_p99_ns"}, "metric", "the metrics must be different"),
        ({"metric": "latency,p99", "over": "iops"}, "over", "over=iops needs one metric; 2 given"),
        ({"facet": "iodepth", "color": "depth"}, "color", "must be different dimensions"),
        ({"over": "iops", "metric": "iops"}, "over", "iops is not a latency"),
        ({"over": "elapsed_s"}, "over", "is not a throughput metric"),
        ({"free": ("speed",)}, "any", "is not a valid dimension"),
        ({"x": "group"}, "x", "no groups are defined; define them as group=NAME=FILTER"),
        ({"x": "host", "color": "rw", "facet": "engine", "groups": ("a=",)}, "group", "groups need an axis"),
        ({"groups": ("a = speed:9",)}, "group", "group 1: 'a': Unknown filter 'speed'"),
        ({"targets": ("iops:16000",)}, "target", "write it as iops:16000:Provisioned"),
        ({"targets": ("speed:1:a",)}, "target", "'speed' is not a valid metric; available: iops"),
        ({"targets": ("p99:fast:a",)}, "target", "'fast' is not a value of latency_p99_ns; examples: 1ms"),
        ({"targets": ("p99:1MB/s:a",)}, "target", "'MB/s' is not a unit of this metric"),
        ({"targets": ("iops:1:a",) * 9}, "target", "9 targets given, at most 8 allowed"),
        ({"limits": ("16000",)}, "limit", "is not NAME:VALUE; write it as limit:16000"),
        ({"limits": ("a:3ms",)}, "limit", "'ms' is not a unit of this metric; available: iops"),
        ({"limits": ("a:1",) * 9}, "limit", "9 limits given, at most 8 allowed"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_there_is(options, parameter, words):
    with pytest.raises(BadChart) as refused:
        read(**options)

    assert refused.value.parameter == parameter
    assert words in str(refused.value)


def test_more_colors_than_can_be_told_apart_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr("benchapp.charts.read.scaling.COLORS_MAXIMUM", 2)
    for depth in (1, 2, 4):
        make_sweep({1: 1.0, 2: 2.0} if depth < 4 else {1: 4.0}, workload=make_workload(iodepth=depth))

    chart = read(color="iodepth", x="volume_count")

    assert (chart.color.values, chart.counts.omitted) == ((1, 2), 1)


def test_more_matching_series_than_the_maximum_are_reported():
    make_sweep({1: 1.0, 2: 2.0})

    table, is_cut = series_columns.read_table(parse_filter(""), ["iops"], maximum=1)

    assert (table.length, is_cut) == (1, True)


def test_chart_is_read_by_eight_queries_and_two_for_each_earlier_time(django_assert_num_queries, monkeypatch):
    make_sweep({1: 1.0, 2: 2.0, 4: 4.0})
    fetched = []
    for name in ("fetch_arrays", "_fetch_rows"):
        monkeypatch.setattr(series_columns, name, _count(getattr(series_columns, name), fetched, name))

    with django_assert_num_queries(
        2
    ):  # snapshot and marks; those of series_columns are made beside Django's cursor
        read()
    with django_assert_num_queries(3):
        read(as_of=date(2026, 12, 1), compare_days=5)

    assert fetched == [*["fetch_arrays"] * 2, *["_fetch_rows"] * 4] * 2


def _count(fetch, fetched, name):
    return lambda *given, **more: fetched.append(name) or fetch(*given, **more)
