"""Source of each part of a workload: the options of the report, a text header, or none."""

from typing import Final

from benchapp.fio.report import Group
from benchapp.fio.workload import WorkloadSpec
from benchapp.intake.normalize.plan import bound_options
from benchapp.intake.provenance.shapes import WorkloadPart

# Part of the workload → fio options that set it.
_OPTIONS: Final = {
    "rw": ("rw", "readwrite"),
    "block_size": ("bssplit", "bsrange", "blocksize_range", "bs", "blocksize"),
    "iodepth": ("iodepth",),
    "numjobs": ("numjobs",),
    "file_size": ("size", "filesize"),
    "is_direct": ("direct", "buffered"),
    "engine": ("ioengine",),
    "read_share_percent": ("rwmixread", "rwmixwrite"),
    "runtime_s": ("runtime", "timeout"),
    "time_based": ("time_based",),
}
# Parts that the parser infers from values without an option.
_INFERRED: Final = {
    "rw": "not reported; inferred from the directions with I/O",
    "block_size": "not reported; inferred as data transferred / I/Os",
    "iodepth": "not reported; inferred from latency_depth, the depth in effect",
    "numjobs": "not reported; inferred from the number of jobs in the report",
}
_HEADERS: Final = {"time": "the timed command"}


def derive_workload(group: Group, spec: WorkloadSpec, *, format: str) -> tuple[WorkloadPart, ...]:
    """Return the parts of a workload with their sources; further options follow by name."""
    values = {
        "rw": spec.rw or None,
        "block_size": spec.block_size_text or _format_number(spec.block_size_bytes),
        "iodepth": _format_number(spec.iodepth),
        "numjobs": _format_number(spec.numjobs),
        "file_size": spec.file_size_text or _format_number(spec.file_size_bytes),
        "is_direct": None if spec.is_direct is None else "yes" if spec.is_direct else "no",
        "engine": spec.engine or None,
        "read_share_percent": _format_number(spec.read_share_percent),
        "runtime_s": _format_number(spec.runtime_s),
        "time_based": "yes" if spec.is_time_based else "no",
    }
    parts = [
        WorkloadPart(name, value, _find_source(name, value, group, format)) for name, value in values.items()
    ]
    return (
        *parts,
        *(
            WorkloadPart(name, value, _find_extra_source(name, group, format))
            for name, value in bound_options(spec.extra).items()
        ),
    )


def _find_source(name: str, value: str | None, group: Group, format: str) -> str:
    option = next((each for each in _OPTIONS[name] if each in group.options), None)
    if option is not None:
        return _describe_option(option, group, format)
    if name == "read_share_percent" and value in ("0", "100"):
        return "follows from rw"
    if name == "numjobs" and group.numjobs > 1:
        return _INFERRED[name]
    if name == "iodepth" and group.iodepth is not None and group.iodepth != 1:
        return _INFERRED[name]
    if name == "time_based" and value == "yes":
        return "not reported; inferred because it ran for its full runtime"
    if not group.options:
        return _INFERRED.get(name, "not reported") if value is not None else "not reported"
    if not group.has_all_options:
        return "not reported: the header has only some options"
    return "not set: fio's default" if value is not None else "not set"


def _find_extra_source(name: str, group: Group, format: str) -> str:
    if name in group.options:
        return _describe_option(name, group, format)
    if name in ("options", "job"):
        return "added by benchapp: without all options the job name distinguishes it from others"
    return f"from the {_name_source(format)}"


def _describe_option(option: str, group: Group, format: str) -> str:
    given = group.options[option]
    shown = option if given == "" else f"{option}={given[:200]}"
    source = "report's options" if group.has_all_options else _name_source(format)
    return f"{shown}, from the {source}"


def _name_source(format: str) -> str:
    return _HEADERS.get(
        format, "report's options" if format in ("json", "json+") else "text's header"
    ).removeprefix("the ")


def _format_number(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"
