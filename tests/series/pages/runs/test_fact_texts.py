"""Facts of the environment and conditions of a run, with labels and units."""

import pytest

from benchapp.series.pages.run_tables import list_facts


@pytest.mark.parametrize(
    ("name", "value", "label", "text"),
    [
        ("clocksource", "tsc", "Clocksource", "tsc"),
        ("disks", ["vda", "vdb"], "Disks", "vda, vdb"),
        ("kernel_parameters", "mitigations=off", "Kernel parameters", "mitigations=off"),
        ("numa_nodes", "0-1", "NUMA nodes", "0-1"),
        ("bios_version", "1.16.3", "BIOS version", "1.16.3"),
        ("swappiness", "60", "vm.swappiness", "60"),
        ("dirty_bytes", "0", "vm.dirty_bytes", "0 B"),
        ("dirty_ratio", "20", "vm.dirty_ratio", "20.0 %"),
        ("smt_active", "1", "SMT active", "yes"),
        ("frequency_max_khz", "2400000,3500000", "Maximum frequency", "2.40 GHz, 3.50 GHz"),
        ("load_before", 0.53, "Load before the run", "0.53"),
        ("extents", 12345, "Extents", "12\u202f345"),
        ("extent_mean_bytes", 33554432, "Mean size of extents", "32.0 MiB"),
        ("contiguous_share_percent", 99.5, "Share of the largest extent", "99.5 %"),
        ("storage_round_trip_s", 0.00045, "Round-trip time to the storage", "450 µs"),
        ("suspended_s", 0, "Time in suspend", "0 s"),
        ("knee_p95_ns", 1240000, "Knee p95", "1.24 ms"),
        (
            "other_io_before",
            {"reads_per_s": 1.5, "writes_per_s": 0.0, "busy_percent": 2.5},
            "Other I/O before the run",
            "reads 1.50/s · writes 0/s · busy 2.50 %",
        ),
        (
            "limits",
            {"cpus": 2, "memory_bytes": 2147483648, "io": {"vda": "rbps=1048576"}},
            "Limits",
            "CPUs 2 · memory 2.00 GiB · I/O vda rbps=1048576",
        ),
        ("queue", {"rotational": "0", "read_ahead_kb": "128"}, "Queue", "rotational no · read ahead 128 KiB"),
        ("rack", None, "Rack", "–"),
        ("chain", [], "Chain", ""),
        ("memory_bytes", "unknown", "Memory bytes", "unknown"),
    ],
)
def test_fact_has_a_label_and_its_unit(name: str, value: object, label: str, text: str) -> None:
    (line,) = list_facts({name: value})

    assert (line["name"], line["label"], line["text"]) == (name, label, text)


def test_title_has_the_value_as_it_was_sent() -> None:
    (line,) = list_facts({"queue": {"read_ahead_kb": "128", "disks": ["vda"]}})

    assert line["raw"] == "read_ahead_kb 128 · disks vda"
