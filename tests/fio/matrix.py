"""Every format of one run against its JSON, for many configurations of real fio: `make fio-matrix FIO=PATH`.

Not collected by `make test`. FIO: the fio to run, that of PATH by default.
"""

import os
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest

from tests.fio.test_agreement import compare_documents, read_part, split_formats

FIO: Final = os.environ.get("FIO") or "fio"
# Options of the only job, beside size, run time and engine.
JOBS: Final = {
    "read": ["--rw=read", "--bs=64k"],
    "randread": ["--rw=randread", "--bs=4k"],
    "write": ["--rw=write", "--bs=128k"],
    "randrw 70": ["--rw=randrw", "--rwmixread=70", "--bs=4k"],
    "bsrange": ["--rw=randread", "--bsrange=4k-64k"],
    "bs per direction": ["--rw=randrw", "--bs=4k,16k"],
    "bssplit": ["--rw=randread", "--bssplit=4k/50:64k/50"],
    "odd block size": ["--rw=read", "--bs=6144"],
    "fsync": ["--rw=write", "--bs=4k", "--fsync=8"],
    "rate": ["--rw=read", "--bs=4k", "--rate_iops=200"],
    "kb_base 1000": ["--rw=read", "--bs=4k", "--kb_base=1000"],
    "bits": ["--rw=read", "--bs=64k", "--unit_base=1"],
    "unified": ["--rw=randrw", "--bs=4k", "--unified_rw_reporting=1"],
    "no latency": ["--rw=randread", "--bs=4k", "--disable_lat=1"],
    "no completion latency": ["--rw=randread", "--bs=4k", "--disable_clat=1"],
    "gtod_reduce": ["--rw=randread", "--bs=4k", "--gtod_reduce=1"],
    "no percentiles": ["--rw=randread", "--bs=4k", "--clat_percentiles=0"],
    "lat_percentiles": ["--rw=randread", "--bs=4k", "--lat_percentiles=1", "--clat_percentiles=0"],
    "slat_percentiles": ["--rw=randread", "--bs=4k", "--slat_percentiles=1"],
    "percentile_list": ["--rw=randread", "--bs=4k", "--percentile_list=50:99:99.999"],
    "clones, one by one": ["--rw=randread", "--bs=4k", "--numjobs=3"],
    "clones, summed": ["--rw=randread", "--bs=4k", "--numjobs=3", "--group_reporting"],
    "threads": ["--rw=randread", "--bs=4k", "--numjobs=2", "--thread", "--group_reporting"],
    "description": ["--rw=read", "--bs=4k", "--description=a: read, 4k; (odd)"],
    "name with blanks": ["--rw=read", "--bs=4k"],
    "latency target": ["--rw=randread", "--bs=4k", "--latency_target=50ms", "--latency_window=100ms"],
    "significant figures": ["--rw=read", "--bs=4k", "--significant_figures=7"],
}
FORMATS: Final = ("json,normal", "json+,normal", "json,terse,normal")


@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("name", JOBS)
def test_formats_of_one_run_agree(name: str, formats: str, tmp_path: Path) -> None:
    job = "a long name: with signs" if name == "name with blanks" else "job"
    options = [f"--name={job}", *JOBS[name], "--size=4m", "--ioengine=psync", "--time_based", "--runtime=1"]
    run = subprocess.run(
        [FIO, *options, f"--output-format={formats}", f"--directory={tmp_path}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "Bad option" in run.stderr + run.stdout or "unrecognized option" in run.stderr:
        pytest.skip(f"this fio does not know the options: {run.stderr.strip()[:200]}")

    if name == "lat_percentiles" and "terse" in formats:
        pytest.skip("terse prints percentiles of either latency in the same fields")

    parts = [read_part(part) for part in split_formats(run.stdout)]

    assert len(parts) == len(formats.split(","))
    assert [line for one, other in combinations(parts, 2) for line in compare_documents(one, other)] == []
