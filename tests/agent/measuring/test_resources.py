"""Memory that a run may take."""

from pathlib import Path

import pytest

from agent.exit_codes import CannotMeasure
from agent.measuring.resources import check_resources, find_free_memory
from agent.profiles.needs import Needs

MIB = 2**20


def plant(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


MEMINFO = {"proc/meminfo": "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n"}


def test_free_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    assert find_free_memory(root=plant(tmp_path, MEMINFO)) == 4096 * MIB


def test_container_has_less(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/box/"
    limits = {group + "memory.max": f"{512 * MIB}\n", group + "memory.current": f"{200 * MIB}\n"}
    limits[group + "memory.stat"] = f"anon 1\ninactive_file {100 * MIB}\n"

    root = plant(tmp_path, {**MEMINFO, "proc/self/cgroup": "0::/box\n", **limits})

    assert find_free_memory(root=root) == 412 * MIB


def test_container_without_a_limit_has_what_the_machine_has(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/memory.max": "max\n"}

    assert find_free_memory(root=plant(tmp_path, {**MEMINFO, **files})) == 4096 * MIB


def test_system_that_does_not_say_is_unknown(tmp_path: Path) -> None:
    assert find_free_memory(root=str(tmp_path)) is None


def test_what_does_not_fit_into_memory_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match=r"not enough memory: .* 8192 TiB"):
        check_resources(str(tmp_path), Needs(0, 1.0, 2**53), reserve_bytes=0)
