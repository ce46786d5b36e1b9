"""The memory that a run may use."""

from pathlib import Path

import pytest

from agent.exit_codes import CannotMeasure
from agent.measuring.workspace import check_resources, find_free_memory
from agent.profiles.parameters import Needs
from tests.agent.storage.trees import write_tree

MIB = 2**20


MEMINFO = {"proc/meminfo": "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n"}


def test_free_memory_is_that_of_the_kernel(tmp_path: Path) -> None:
    assert find_free_memory(root=write_tree(tmp_path, MEMINFO)) == 4096 * MIB


def test_container_limit_reduces_free_memory(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/box/"
    limits = {group + "memory.max": f"{512 * MIB}\n", group + "memory.current": f"{200 * MIB}\n"}
    limits[group + "memory.stat"] = f"anon 1\ninactive_file {100 * MIB}\n"

    root = write_tree(tmp_path, {**MEMINFO, "proc/self/cgroup": "0::/box\n", **limits})

    assert find_free_memory(root=root) == 412 * MIB


def test_container_without_a_limit_has_the_memory_of_the_machine(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/memory.max": "max\n"}

    assert find_free_memory(root=write_tree(tmp_path, {**MEMINFO, **files})) == 4096 * MIB


def test_missing_memory_figures_are_unknown(tmp_path: Path) -> None:
    assert find_free_memory(root=str(tmp_path)) is None


def test_jobs_that_do_not_fit_into_memory_are_refused_with_the_sizes(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match=r"not enough memory: .* 8192 TiB"):
        check_resources(str(tmp_path), Needs(0, 1.0, 2**53), reserve_bytes=0)
