"""A CSV of published numbers: rows become runs, units become base units, and every bad cell is named."""

import pytest

from benchapp.intake.importing.published_csv import BadTable, read_table

DAY = {"started_at": "2013-04-01"}


def faults(text: str, defaults: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(BadTable) as caught:
        read_table(text, DAY if defaults is None else defaults)
    return [str(fault) for fault in caught.value.faults]


def test_rows_of_one_study_and_layout_are_one_run() -> None:
    runs = read_table(
        "study,volume_count,rw,block_size,metric,value\n"
        "1,4,read,4k,iops,18207\n"
        "1,4,write,4k,iops,6083\n"
        "1,8,read,4k,iops,20693\n"
        "2,4,read,4k,iops,19830\n",
        DAY,
    )

    assert [(run["labels"], run["target"], len(run["measurements"])) for run in runs] == [
        ({"study": "1"}, {"volume_count": 4}, 2),
        ({"study": "1"}, {"volume_count": 8}, 1),
        ({"study": "2"}, {"volume_count": 4}, 1),
    ]
    assert runs[0]["started_at"] == "2013-04-01T00:00:00Z"
    assert runs[0]["measurements"][0] == {"rw": "read", "block_size": 4096, "iops": 18207.0}


@pytest.mark.parametrize(
    ("column", "cell", "metric", "value"),
    [
        ("iops", "33415", "iops", 33415.0),
        ("bandwidth_mb_s", "94.935", "bandwidth_bytes_per_s", 94935000.0),
        ("bandwidth_mib_s", "1.5", "bandwidth_bytes_per_s", 1572864.0),
        ("bandwidth_bytes_per_s", "7", "bandwidth_bytes_per_s", 7.0),
        ("latency_ms", "1.2", "latency_mean_ns", 1200000.0),
        ("latency_p99_us", "850", "latency_p99_ns", 850000.0),
        ("latency_p99_9_ns", "8500000", "latency_p99_9_ns", 8500000.0),
        ("elapsed_s", "0.116", "elapsed_s", 0.116),
        ("IOPS", "1e3", "iops", 1000.0),
    ],
)
def test_unit_of_a_metric_is_in_its_name(column: str, cell: str, metric: str, value: float) -> None:
    (as_column,) = read_table(f"rw,{column}\nread,{cell}\n", DAY)
    (as_pair,) = read_table(f"rw,metric,value\nread,{column},{cell}\n", DAY)

    assert as_column["measurements"] == as_pair["measurements"] == [{"rw": "read", metric: value}]


@pytest.mark.parametrize(
    ("column", "cell", "size_bytes"),
    [
        ("volume_size_gb", "20", 20 * 2**30),
        ("volume_size_gib", "0.5", 2**29),
        ("volume_size_tb", "1", 2**40),
        ("volume_size", "20G", 20 * 2**30),
        ("volume_size_bytes", "21474836480", 20 * 2**30),
    ],
)
def test_sizes_of_volumes_count_by_1024(column: str, cell: str, size_bytes: int) -> None:
    (run,) = read_table(f"rw,{column},iops\nread,{cell},1\n", DAY)

    assert run["target"] == {"volume_size_bytes": size_bytes}


def test_metrics_of_one_workload_come_together_and_repetitions_stay_apart() -> None:
    (run,) = read_table(
        "rw,metric,value,note\nread,iops,10,faint\nread,latency_ms,2,\nread,iops,11,\n",
        DAY,
    )

    assert run["measurements"] == [
        {"rw": "read", "iops": 10.0, "latency_mean_ns": 2000000.0, "note": "faint"},
        {"rw": "read", "iops": 11.0},
    ]


def test_cell_wins_over_what_holds_for_all_rows() -> None:
    one, two = read_table(
        "rw,filesystem,iops\nread,,1\nread,EXT4,2\n", {**DAY, "filesystem": "xfs", "scheduler": "noop"}
    )

    assert (one["target"], two["target"]) == ({"filesystem": "xfs"}, {"filesystem": "ext4"})
    assert one["environment"] == {"scheduler": "noop"}


def test_comments_empty_lines_and_a_mark_of_bytes_are_passed_over() -> None:
    (run,) = read_table("\ufeff# from a blog\r\nrw,iops\r\n\r\nread,5\r\n,\r\n", DAY)

    assert run["measurements"] == [{"rw": "read", "iops": 5.0}]


def test_every_bad_cell_is_named_by_line_and_column() -> None:
    text = "# source\nrw,volume_count,iops,note\nread,four,1,\nsong,4,x,\nread,4,1\n\nread,4,-1,\nread,4,,\n"

    patterns = "read, randread, write, randwrite, trim, randtrim, trimwrite, randtrimwrite, rw, randrw"
    assert faults(text) == [
        "line 3, volume_count: expected a whole number, not 'four'",
        f"line 4, rw: 'song' is not valid. Available: {patterns}",
        "line 5: 3 cells, but 4 columns",
        "line 7, iops: '-1' is not a valid number: use digits and a decimal point",
        "line 8: the row has no values",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "line 1: the header line is missing"),
        ("rw,iops\n", "line 1: no rows below the header line"),
        ("rw,iops,iops\nread,1,2\n", "line 1, iops: duplicate of another column"),
        ("rw,volume_size_gb,volume_size\nread,1,2\n", "line 1, volume_size: duplicate of another column"),
        ("iops\n1\n", "line 1: column rw (read, write, randread, randwrite, …) is missing"),
        (
            "rw,metric\nread,iops\n",
            "line 1: no values: add the columns metric and value, or one such as iops",
        ),
        (
            "rw,metric,value\nread,speed,1\n",
            "line 2, metric: 'speed' is not a valid metric. Available: iops, elapsed_s",
        ),
        ("rw,metric,value\nread,iops,\n", "line 2, value: the cell is empty"),
        ("rw,iops\n,1\n", "line 2, rw: the cell is empty"),
        ("rw,iops\nrandrw,1\n", "line 2, direction: randrw has two directions: set direction"),
        (
            "rw,iops\nread,16 000\n",
            "line 2, iops: '16 000' is not a valid number: use digits and a decimal point",
        ),
        ('rw,iops\n"read,1\n', "line 2: not a valid CSV: unexpected end of data"),
        ("rw,file_size_gb,iops\nread,0.1,1\n", "line 2, file_size_gb: 0.1 is not a whole number of bytes"),
    ],
)
def test_fault_of_the_table_is_reported(text: str, fault: str) -> None:
    assert faults(text)[0].startswith(fault)


def test_unknown_column_lists_the_known_ones() -> None:
    (fault,) = faults("rw,iops,speed\nread,1,2\n")

    assert fault.startswith("line 1, speed: unknown column 'speed'. Available: study, ebs_optimized,")


def test_table_without_a_time_asks_for_a_date() -> None:
    assert faults("rw,iops\nread,1\n", {})[0] == (
        "line 1: no time of measurement: add --date, or a column started_at"
    )
    assert faults("rw,iops\nread,1\n", {"started_at": "April"})[0].startswith(
        "for all rows, started_at: 'April'"
    )


def test_only_so_many_faults_are_collected() -> None:
    assert len(faults("rw,iops\n" + "read,x\n" * 500)) == 100
