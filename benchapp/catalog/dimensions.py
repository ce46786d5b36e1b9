"""The dimensions: properties in which series or their runs differ; used by charts, filters and comparisons. Pure.

A dimension's name is a column of Series, but for `host`, `pool` (which are parts of its scope) and `pattern` (its rw
and direction together). Those of the group environment are columns of Environment: facts of runs, in which the runs of
one series may differ.

Filters have more names: `profile`, `sweep` and `label.NAME` are columns of Run. Charts have no axes of them.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

DimensionKind = Literal["text", "count", "size", "seconds", "percent", "flag", "uuid"]
DimensionGroup = Literal["scope", "workload", "target", "environment", "run", "condition"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One entry of the registry.

    kind: of its values; sizes are bytes. group: what it is a property of. is_continuous: charts show lines, not bars.
    companions: dimensions that vary together with it: if it is free or compared, they are too.
    is_minor: rarely relevant; never fixed automatically, only reported where it varies.
    """

    name: str
    label: str
    kind: DimensionKind
    group: DimensionGroup
    is_continuous: bool = False
    is_minor: bool = False
    companions: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Return the heading of its group in lists for readers."""
        if self.name in _STORAGE_FACTS:
            return "Storage"
        return "Host" if self.name in _HOST_FACTS else _HEADINGS[self.group]

    @property
    def is_number(self) -> bool:
        """Return whether its values are numbers."""
        return self.kind not in ("text", "flag", "uuid")

    @property
    def is_environment(self) -> bool:
        """Return whether it is a fact of the environment of runs, not a property of series."""
        return self.group == "environment"

    @property
    def keeps_case(self) -> bool:
        """Return whether its text is stored as it was sent; all other text is stored in its usual form."""
        return self.kind == "text" and (self.is_fact or self.name in _CASE_KEPT)

    @property
    def is_fact(self) -> bool:
        """Return whether it is a fact of runs: of their environment, or profile, sweep or a label."""
        return self.group in ("environment", "run")


_HEADINGS: Final[dict[DimensionGroup, str]] = {
    "workload": "Workload",
    "target": "Storage",
    "scope": "Host",
    "environment": "Software",
    "run": "Run",
    "condition": "Conditions of single runs",
}
HEADINGS: Final = tuple(_HEADINGS.values())
"""The headings of groups of dimensions, in order."""
_STORAGE_FACTS: Final = frozenset({"device_model", "device_firmware", "device_class"})
_HOST_FACTS: Final = frozenset(
    {"instance_type", "cpu_model", "cpu_count", "memory_bytes", "governor", "virtualization"}
)
_CASE_KEPT: Final = frozenset({"pool", "target_name", "mount_options"})
_LAYOUT: Final = (
    "volume_count",
    "stripe_count",
    "raid_level",
    "chunk_size_bytes",
    "target_name",
    "provisioned_iops",
)

DIMENSIONS: Final[dict[str, Dimension]] = {
    dimension.name: dimension
    for dimension in (
        Dimension("host", "Host", "text", "scope"),
        Dimension("pool", "Pool", "text", "scope"),
        Dimension(
            "pattern", "Pattern", "text", "workload", companions=("rw", "direction", "read_share_percent")
        ),
        Dimension("rw", "rw", "text", "workload", companions=("pattern", "direction", "read_share_percent")),
        Dimension(
            "direction", "Direction", "text", "workload", companions=("pattern", "rw", "read_share_percent")
        ),
        Dimension("block_size_bytes", "Block size", "size", "workload", is_continuous=True),
        Dimension("iodepth", "Queue depth", "count", "workload", is_continuous=True),
        Dimension("numjobs", "Jobs", "count", "workload", is_continuous=True),
        Dimension(
            "file_size_bytes", "File size", "size", "workload", is_continuous=True, companions=("runtime_s",)
        ),
        Dimension(
            "read_share_percent",
            "Read share",
            "percent",
            "workload",
            is_continuous=True,
            companions=("pattern", "rw"),
        ),
        Dimension("is_direct", "Direct I/O", "flag", "workload"),
        Dimension("engine", "Engine", "text", "workload"),
        Dimension("runtime_s", "Runtime", "seconds", "workload", is_continuous=True, is_minor=True),
        Dimension("volume_type", "Volume type", "text", "target", companions=("provisioned_iops",)),
        Dimension("volume_count", "Volumes", "count", "target", companions=_LAYOUT),
        Dimension("volume_size_bytes", "Volume size", "size", "target", is_continuous=True),
        Dimension("provisioned_iops", "Provisioned IOPS", "count", "target", is_continuous=True),
        Dimension(
            "raid_level", "RAID level", "text", "target", companions=("stripe_count", "chunk_size_bytes")
        ),
        Dimension("stripe_count", "Stripes", "count", "target", companions=_LAYOUT),
        Dimension("chunk_size_bytes", "Chunk size", "size", "target", is_continuous=True),
        Dimension("filesystem", "Filesystem", "text", "target", companions=("mount_options",)),
        Dimension("mount_options", "Mount options", "text", "target", is_minor=True),
        Dimension("instance_type", "Instance type", "text", "target"),
        Dimension("target_name", "Target", "text", "target"),
        Dimension("kernel", "Kernel", "text", "environment"),
        Dimension("fio_version", "fio version", "text", "environment"),
        Dimension("scheduler", "I/O scheduler", "text", "environment"),
        Dimension("device_model", "Device", "text", "environment"),
        Dimension("device_firmware", "Firmware", "text", "environment"),
        Dimension("device_driver", "Driver", "text", "environment"),
        Dimension("device_class", "Device class", "text", "environment"),
        Dimension("os", "Operating system", "text", "environment"),
        Dimension("cpu_model", "CPU", "text", "environment"),
        Dimension("cpu_count", "CPUs", "count", "environment"),
        Dimension("memory_bytes", "Memory", "size", "environment"),
        Dimension("governor", "CPU governor", "text", "environment"),
        Dimension("virtualization", "Virtualization", "text", "environment"),
        Dimension("agent_version", "Agent version", "text", "environment"),
    )
}
SERIES_DIMENSIONS: Final[dict[str, Dimension]] = {
    name: dimension for name, dimension in DIMENSIONS.items() if not dimension.is_environment
}
"""Those in which series differ: columns of Series and the three above."""

RUN_DIMENSIONS: Final[dict[str, Dimension]] = {
    "profile": Dimension("profile", "Profile", "text", "run"),
    "sweep": Dimension("sweep", "Sweep", "uuid", "run"),
}
"""Those of filters that are columns of Run, beside its labels."""

CONDITIONS: Final[dict[str, Dimension]] = {
    dimension.name: dimension
    for dimension in (
        Dimension("extents", "Extents", "count", "condition", is_continuous=True),
        Dimension("extent_mean_bytes", "Mean size of extents", "size", "condition", is_continuous=True),
        Dimension(
            "contiguous_share_percent",
            "Share of the largest extent",
            "percent",
            "condition",
            is_continuous=True,
        ),
        Dimension(
            "filesystem_fragmentation_percent",
            "Fragmentation of the filesystem",
            "percent",
            "condition",
            is_continuous=True,
        ),
        Dimension(
            "storage_round_trip_s",
            "Round-trip time to the storage",
            "seconds",
            "condition",
            is_continuous=True,
        ),
    )
}
"""Numbers that the agent records with each run: x axes of scaling charts, without terms in filters."""

FILTER_DIMENSIONS: Final[dict[str, Dimension]] = DIMENSIONS | RUN_DIMENSIONS
"""The names of filters, but for label.NAME."""

LABEL_PREFIX: Final = "label."
# A name with a space, a colon, a comma or a quotation mark cannot be in a filter.
_LABEL: Final = re.compile(r'label\.[^\s:",]++')

FACT_NAMES: Final = tuple(name for name, dimension in DIMENSIONS.items() if dimension.is_environment)

# Short names in filters and URLs, in addition to the full ones.
ALIASES: Final = {
    "bs": "block_size_bytes",
    "block_size": "block_size_bytes",
    "depth": "iodepth",
    "jobs": "numjobs",
    "file_size": "file_size_bytes",
    "size": "file_size_bytes",
    "direct": "is_direct",
    "type": "volume_type",
    "volumes": "volume_count",
    "volume_size": "volume_size_bytes",
    "stripes": "stripe_count",
    "chunk": "chunk_size_bytes",
    "chunk_size": "chunk_size_bytes",
    "raid": "raid_level",
    "fs": "filesystem",
    "instance": "instance_type",
    "target": "target_name",
    "name": "target_name",
    "runtime": "runtime_s",
    "read_share": "read_share_percent",
    "fio": "fio_version",
    "device": "device_model",
    "firmware": "device_firmware",
    "driver": "device_driver",
    "class": "device_class",
    "agent": "agent_version",
    "cpu": "cpu_model",
    "cpus": "cpu_count",
    "memory": "memory_bytes",
}


def find_dimension(name: str) -> Dimension | None:
    """Return the dimension with a name or short name; None if unknown."""
    return DIMENSIONS.get(ALIASES.get(name, name))


def find_filter_dimension(name: str) -> Dimension | None:
    """Return the dimension with a name or short name in filters, also label.NAME; None if unknown."""
    if _LABEL.fullmatch(name):
        return Dimension(name, f"Label {name.removeprefix(LABEL_PREFIX)}", "text", "run")
    return FILTER_DIMENSIONS.get(ALIASES.get(name, name))


def get_filter_dimension(name: str) -> Dimension:
    """Return the dimension of a term by its full name. Raises KeyError if there is none."""
    found = find_filter_dimension(name)
    if found is None:
        raise KeyError(name)
    return found


# Values in the filter language, by kind, and of dimensions with other ones.
_EXAMPLES: Final[dict[DimensionKind, tuple[str, ...]]] = {
    "text": ("gp3,io2", "gp*", "unknown"),
    "count": ("8", ">=8", "1..16"),
    "size": ("200G", "200G,500G", ">=1G"),
    "seconds": ("60", "<=60"),
    "percent": ("70", "50..75"),
    "flag": ("yes", "no"),
    "uuid": ("6f1cbb2e-9d3e-4a55-8d0a-222222222222", "6f1cbb2e*", "unknown"),
}
_OWN_EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "host": ("db-01", "db-*"),
    "pool": ("db", "unknown"),
    "pattern": ("randread", '"randrw read"', "rand*"),
    "rw": ("randread,randwrite", "rand*"),
    "direction": ("read", "write"),
    "block_size_bytes": ("4k", "4k,64k", ">=64k"),
    "file_size_bytes": ("5G", "5G,50G", ">=1G"),
    "engine": ("libaio", "io_uring"),
    "provisioned_iops": ("16000", ">=3000"),
    "chunk_size_bytes": ("64k", "64k,256k", ">=128k"),
    "memory_bytes": ("64G", ">=64G"),
    "raid_level": ("raid0", "unknown"),
    "filesystem": ("xfs,ext4", "unknown"),
    "mount_options": ("*noatime*", '"rw,noatime"'),
    "instance_type": ("m5.4xlarge", "m5.*"),
    "target_name": ("/mnt/*",),
    "kernel": ("6.1*", "5.15*,6.1*"),
    "fio_version": ("3.3*", "3.33"),
    "scheduler": ("none", "mq-deadline"),
    "device_model": ('"Amazon Elastic Block Store"', "*SSD*"),
    "device_firmware": ("1.0", "GXA*"),
    "device_driver": ("nvme*", "virtio_blk"),
    "device_class": ("nvme", "nvme,ssd"),
    "agent_version": ("0.1*", "0.1.0"),
    "os": ("*Debian*", '"Ubuntu 24.04"*'),
    "cpu_model": ("*Xeon*", "*EPYC*"),
    "governor": ("performance", "powersave"),
    "virtualization": ("kvm", "none"),
    "profile": ("nightly", "night*,weekly"),
}


def list_examples(dimension: Dimension) -> tuple[str, ...]:
    """Return examples of values in the filter language."""
    if dimension.name.startswith(LABEL_PREFIX):
        return ("r1", "r1,r2", "unknown")
    return _OWN_EXAMPLES.get(dimension.name, _EXAMPLES[dimension.kind])


_RAID_LEVEL: Final = re.compile(r"(?:raid[\s_-]*)?(\d{1,3})", re.ASCII)
_PATTERNS: Final = {
    "read": "sequential read",
    "write": "sequential write",
    "trim": "sequential trim",
    "rw": "sequential read/write",
    "randread": "random read",
    "randwrite": "random write",
    "randtrim": "random trim",
    "randrw": "random read/write",
    "trimwrite": "trim, then write",
    "randtrimwrite": "random trim, then write",
    # Of reports without fio's options.
    "unknown-read": "read, sequential or random",
    "unknown-write": "write, sequential or random",
    "unknown-trim": "trim, sequential or random",
    "unknown-rw": "read/write, sequential or random",
}
_PATTERNS_BY_NAME: Final = {name: rw for rw, name in _PATTERNS.items()} | {"readwrite": "rw"}


def normalize_value(dimension: Dimension, text: str) -> str:
    """Return a value of text as it is stored: "RAID 0" is raid0, "random read" randread, GP3 gp3, DB-01 db-01.

    Senders and filters use it alike. Values that keep their case are compared without it, and returned as they are.
    """
    if dimension.keeps_case or dimension.kind != "text":
        return text
    folded = text.strip().lower()
    if dimension.name == "raid_level":
        level = _RAID_LEVEL.fullmatch(folded)
        return f"raid{level[1]}" if level else {"no raid": "none"}.get(folded, folded)
    if dimension.name in ("pattern", "rw"):
        name, comma, direction = folded.rpartition(", ")
        if comma and name in _PATTERNS_BY_NAME:
            # As pages write the directions of mixed patterns: "random read/write, reads".
            return f"{_PATTERNS_BY_NAME[name]} {'mixed' if direction == 'total' else direction.removesuffix('s')}"
        return _PATTERNS_BY_NAME.get(folded, folded)
    return folded


# The direction of each rw with a single direction; patterns of the others include the direction.
_NATURAL: Final = {
    "read": "read",
    "randread": "read",
    "write": "write",
    "randwrite": "write",
    "trim": "trim",
    "randtrim": "trim",
    "unknown-read": "read",
    "unknown-write": "write",
    "unknown-trim": "trim",
}


def name_pattern(rw: str, direction: str) -> str:
    """Return the pattern of a series: its rw, with the direction if mixed: "randread", "randrw read"."""
    return rw if _NATURAL.get(rw) == direction else f"{rw} {direction}".strip()


def split_pattern(pattern: str) -> tuple[str, str | None]:
    """Return rw and direction of a pattern; None if it has no direction ("randrw")."""
    rw, _, direction = pattern.partition(" ")
    return rw, direction or _NATURAL.get(rw)


def name_rw(rw: str) -> str:
    """Return the name of fio's rw: "random read"; unknown values unchanged."""
    return _PATTERNS.get(rw, rw)


def describe_pattern(pattern: str) -> str:
    """Return a pattern in words: "random read", "random read/write, reads"; "…, total" for both directions."""
    rw, _, direction = pattern.partition(" ")
    shown = name_rw(rw)
    return f"{shown}, {name_direction(direction)}" if direction else shown


def name_direction(direction: str) -> str:
    """Return a direction of a pattern in words: "reads", "syncs"; "total" of all."""
    return "total" if direction == "mixed" else f"{direction}s"
