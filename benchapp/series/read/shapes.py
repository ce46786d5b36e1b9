"""Parts that several results share, as frozen values with the column names of the models; badges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from benchapp.models import TARGET_FIELDS
from benchapp.series.validity.rules import CODES, HARMLESS


@dataclass(frozen=True, slots=True)
class TargetRow:
    """The layout of the storage under test; None is unknown."""

    target_name: str | None = None
    volume_type: str | None = None
    volume_size_bytes: int | None = None
    volume_count: int | None = None
    provisioned_iops: int | None = None
    raid_level: str | None = None
    stripe_count: int | None = None
    chunk_size_bytes: int | None = None
    filesystem: str | None = None
    mount_options: str | None = None
    instance_type: str | None = None

    def known(self) -> dict[str, str | int]:
        """Return the known fields, in order."""
        return {name: value for name in TARGET_FIELDS if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A workload; None is unknown, or not a single number (then the text has it)."""

    rw: str
    block_size_bytes: int | None
    block_size_text: str
    iodepth: int | None
    numjobs: int | None
    file_size_bytes: int | None
    file_size_text: str
    is_direct: bool | None
    engine: str
    read_share_percent: int | None
    runtime_s: float | None
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """Facts that may explain a change but do not define another series; None is unknown."""

    kernel: str | None
    os: str | None
    fio_version: str | None
    cpu_model: str | None
    cpu_count: int | None
    memory_bytes: int | None
    scheduler: str | None
    device_model: str | None
    device_firmware: str | None
    device_driver: str | None
    device_class: str | None
    governor: str | None
    virtualization: str | None
    agent_version: str | None
    facts: Mapping[str, Any]


def names_of(kind: type, prefix: str = "") -> tuple[str, ...]:
    """Return the columns of a row type, for `values_list`."""
    return tuple(f"{prefix}{field.name}" for field in fields(kind))


BADGE_CODES: Final = CODES
HARMLESS_CODES: Final = HARMLESS
# Earlier parsers did not check data quality: a missing badge means nothing.
FIRST_JUDGING_PARSER: Final = 2


@dataclass(frozen=True, slots=True)
class BadgeRow:
    """One badge of a measurement. numbers: the values that it is based on, by name, in base units."""

    code: str
    sentence: str
    numbers: Mapping[str, float]


def make_badges(stored: Sequence[Mapping[str, Any]]) -> tuple[BadgeRow, ...]:
    """Return the badges stored with a Measurement."""
    return tuple(BadgeRow(badge["code"], badge["sentence"], badge["numbers"]) for badge in stored)


def order_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Return codes, most severe first; unknown ones last."""
    if not codes:
        return ()
    known = [code for code in CODES if code in codes]
    return (*known, *(code for code in codes if code not in CODES))
