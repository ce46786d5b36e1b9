"""Percentiles from histograms are equal to those of fio."""

import pytest

from benchapp.fio.merging.directions import (
    coarsen_bins,
    find_percentiles,
    is_saturated,
    merge_bins,
    read_bucket,
)
from tests.fio.outputs import read_single


@pytest.mark.parametrize(
    "name",
    [
        "generated/08_jsonplus.out",
        "generated/83_multi_job_jsonplus.out",
        "versions/fio-2.2.12/jsonplus.json",
        "versions/fio-2.20/jsonplus.json",
    ],
)
def test_percentiles_of_bins_are_those_that_fio_printed(name: str) -> None:
    document = read_single(name)
    checked = 0

    for job in document.jobs:
        for direction in job.directions:
            latency = direction.completion
            percents = [percent for percent, _ in latency.percentiles]
            assert find_percentiles(latency.bins, percents) == latency.percentiles
            checked += 1

    assert document.format == "json+"
    assert checked >= 1


def test_bins_contain_every_sample_in_ns() -> None:
    (direction,) = read_single("generated/08_jsonplus.out").groups[0].directions

    assert sum(direction.completion.bins.values()) == direction.completion.count
    assert min(direction.completion.bins) >= direction.completion.minimum_ns * 0.99


@pytest.mark.parametrize(
    ("bins", "percents", "expected"),
    [
        ({}, [50.0], ()),
        ({7: 1}, [1.0, 50.0, 100.0], ((1.0, 7), (50.0, 7), (100.0, 7))),
        ({1: 50, 2: 50}, [50.0, 50.1], ((50.0, 1), (50.1, 2))),
        ({2: 1, 1: 99}, [99.0, 99.5], ((99.0, 1), (99.5, 2))),
        ({1: 99, 5: 1}, [99.0, 99.9], ((99.0, 1), (99.9, 5))),
        # The double of 99.9 is a little more than 99.9, for fio too.
        ({1: 999, 5: 1}, [99.9], ((99.9, 5),)),
    ],
)
def test_percentile_is_the_first_bin_that_reaches_it(bins, percents, expected) -> None:
    assert find_percentiles(bins, percents) == expected


def test_merging_adds_counts_in_order_of_value() -> None:
    assert list(merge_bins([{5: 1, 9: 2}, {1: 3, 5: 4}]).items()) == [(1, 3), (5, 5), (9, 2)]


# From the source of fio: below 128 every value has a bucket, then 64 for each power of two.
@pytest.mark.parametrize(
    ("index", "value"), [(0, 0), (127, 127), (128, 129), (191, 255), (192, 258), (255, 510), (1215, 16711680)]
)
def test_bucket_index_of_old_versions_gives_its_middle(index: int, value: int) -> None:
    assert read_bucket(index) == value


@pytest.mark.parametrize(
    ("value_ns", "is_last"),
    [
        # The last bucket of fio 3, as JSON and as text print it, and the one before.
        (17_112_760_320, True),
        (17_113_000_000, True),
        (16_978_542_592, False),
        # The last bucket of fio 2, and its neighbor in fio 3.
        (16_711_680_000, True),
        (16_710_107_136, False),
    ],
)
def test_percentile_in_the_last_bucket_is_a_minimum(value_ns: int, is_last: bool) -> None:
    assert is_saturated(value_ns) is is_last


@pytest.mark.parametrize(
    ("bins", "coarse"),
    [
        ({}, None),
        ({1000: 0}, None),
        ({0: 3}, [0, 3]),
        ({0: 1, 1: 2}, [0, 3]),
        ({1024: 5}, [40, 5]),
        ({1217: 1, 1218: 2}, [40, 1, 2]),
        ({1023: 1, 1024: 2, 2047: 4, 2048: 8}, [39, 1, 2, 0, 0, 4, 8]),
        ({2**63 - 1: 1}, [251, 1]),
        ({1: 2**62, 2: 2**62}, None),
    ],
)
def test_coarser_histogram_has_four_buckets_for_each_power_of_two(
    bins: dict[int, int], coarse: list[int] | None
) -> None:
    assert coarsen_bins(bins) == coarse


@pytest.mark.parametrize("name", ["generated/08_jsonplus.out", "versions/fio-2.2.12/jsonplus.json"])
def test_coarser_histogram_keeps_every_sample_in_fewer_buckets(name: str) -> None:
    for job in read_single(name).jobs:
        for direction in job.directions:
            bins = direction.completion.bins
            coarse = coarsen_bins(bins)
            assert sum(coarse[1:]) == sum(bins.values())
            assert len(coarse) < 200
