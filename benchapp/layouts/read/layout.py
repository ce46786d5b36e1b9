"""A layout and a load: their dimensions."""

from dataclasses import dataclass, field
from typing import Final

from benchapp.layouts.read.question import VARYING
from benchapp.layouts.rules.ranking import find_capacity
from benchapp.series.read.titles import UNKNOWN_LAYOUT, describe_setting, describe_target

# What a requirement may leave open, beside queue depth and jobs: each load has its own.
WORKLOAD_DETAILS: Final = ("block_size_bytes", "file_size_bytes", "is_direct", "engine", "read_share_percent")
LOAD_DIMENSIONS: Final = ("iodepth", "numjobs", *WORKLOAD_DETAILS)
# Of reads or writes alone.
PURE_LOAD_DIMENSIONS: Final = LOAD_DIMENSIONS[:-1]
# Always part of a layout, beside those that may be fixed.
LAYOUT_DETAILS: Final = ("volume_size_bytes", "provisioned_iops", "raid_level", "chunk_size_bytes")
LAYOUT_DIMENSIONS: Final = (*VARYING, *LAYOUT_DETAILS)


@dataclass(frozen=True, slots=True)
class Layout:
    """The dimensions of a layout; None: unknown. unstated: the unknown ones that others of its ranking state."""

    volume_type: str | None
    volume_count: int | None
    stripe_count: int | None
    instance_type: str | None
    filesystem: str | None
    volume_size_bytes: int | None
    provisioned_iops: int | None
    raid_level: str | None
    chunk_size_bytes: int | None
    target_name: None = None
    unstated: tuple[str, ...] = field(default=(), compare=False)

    @property
    def title(self) -> str:
        """Return the layout in one line."""
        title = describe_target(self)
        if title == UNKNOWN_LAYOUT:
            return title
        return ", ".join((title, *(describe_setting(name, None) for name in self.unstated)))

    @property
    def capacity_bytes(self) -> int | None:
        """Return the bytes for data; None if unknown."""
        return find_capacity(self.volume_size_bytes, self.volume_count, raid_level=self.raid_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The dimensions of a load; None: unknown. read_share_percent: of mixes only."""

    iodepth: int | None
    numjobs: int | None
    block_size_bytes: int | None
    file_size_bytes: int | None
    is_direct: bool | None
    engine: str | None
    read_share_percent: int | None = None
