"""Parse and check the arguments of `sweep` without access to the machine."""

from __future__ import annotations

import argparse
import os
from typing import Any, Callable, Mapping, TypeVar

from agent.config import Config
from agent.delivery.envelope import check_labels, read_target
from agent.exit_codes import ConfigurationError
from agent.job_state import check_types
from agent.quantities import parse_count, parse_size
from agent.running.run_command import read_pairs
from agent.sweeping.stripe_commands import BTRFS_CHUNK_BYTES, CHUNK_DEFAULT_BYTES, FILESYSTEMS, RAIDS
from agent.sweeping.sweep_plan import SIZE_PARAMETER, SweepRequest
from agent.sweeping.sweep_state import SweepState

T = TypeVar("T")
_LISTS = ("directories", "devices", "stripes", "wiped")
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("profile", "raid", "filesystem"), (str,)),
    **dict.fromkeys(_LISTS, (list, tuple)),
    **dict.fromkeys(("parameters", "target", "labels"), (dict,)),
    "chunk_bytes": (int,),
    "trusts_directory": (bool,),
}


def read_sweep_request(arguments: argparse.Namespace, config: Config) -> SweepRequest:
    """Return the request; ConfigurationError for missing or invalid values."""
    if bool(arguments.devices) == bool(arguments.directories):
        raise ConfigurationError("set either --devices or --directories")
    profile = arguments.profile or config.profile
    if not profile:
        raise ConfigurationError("no profile given; set --profile")
    target = read_pairs(arguments.target, "--target")
    labels = read_pairs(arguments.label, "--label")
    read_target(target)
    check_labels({**config.labels, **labels})
    common: dict[str, Any] = {
        "profile": profile,
        "parameters": _read_parameters(arguments),
        "target": target,
        "labels": labels,
        "trusts_directory": arguments.trust_directory or config.trusts_directory,
    }
    if arguments.directories:
        return SweepRequest(directories=_read_directories(arguments), **common)
    return SweepRequest(**common, **_read_layout(arguments))


def dump_request(request: SweepRequest) -> dict[str, Any]:
    """Return the request as a JSON document."""
    document = dict(vars(request))
    document["parameters"] = {name: list(values) for name, values in request.parameters.items()}
    return document


def load_request(state: SweepState) -> SweepRequest:
    """Return the request that dump_request wrote; ConfigurationError if it is not valid."""
    values = dict(state.request)
    try:
        check_types(values, _TYPES)
        lists = {name: (values[name], int if name == "stripes" else str) for name in _LISTS}
        lists.update({name: (texts, str) for name, texts in values["parameters"].items()})
        for name in ("target", "labels"):
            lists[name] = (values[name].values(), str)
        for name, (items, kind) in lists.items():
            if not all(isinstance(item, kind) for item in items):
                raise ValueError(f"{name} is of a wrong type")
        if set(values["devices"]) != set(state.sizes):
            raise ValueError("its devices have no sizes")
        values.update({name: tuple(values[name]) for name in _LISTS})
        values["parameters"] = {name: tuple(texts) for name, texts in values["parameters"].items()}
        return SweepRequest(**values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the request of the sweep state {state.path} is not valid: {error}; start a new sweep, and end this one "
            f"with bench-agent sweep --abandon {state.id}"
        ) from None


def _read_parameters(arguments: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return all parameters with their values; file sizes come first and vary slowest."""
    parameters: dict[str, tuple[str, ...]] = {}
    if arguments.file_sizes:
        parameters[SIZE_PARAMETER] = _read_list(arguments.file_sizes, "--file-sizes")
    for name, text in read_pairs(arguments.set, "--set").items():
        if name in parameters:
            raise ConfigurationError(f"--set {name}={text}: already set by --file-sizes")
        parameters[name] = _read_list(text, f"--set {name}")
    return parameters


def _read_directories(arguments: argparse.Namespace) -> tuple[str, ...]:
    given = [name for name in ("stripes", "raid", "fs", "chunk", "wipe") if getattr(arguments, name)]
    if given:
        raise ConfigurationError(f"--{given[0]} requires --devices")
    directories = _read_list(arguments.directories, "--directories")
    for directory in directories:
        if not os.path.isdir(directory):
            raise ConfigurationError(f"--directories {directory}: not a directory")
    return tuple(os.path.abspath(directory) for directory in directories)


def _read_layout(arguments: argparse.Namespace) -> dict[str, Any]:
    devices = _read_list(arguments.devices, "--devices")
    raid = arguments.raid or RAIDS[0]
    filesystem = arguments.fs or ("btrfs" if raid == "btrfs" else FILESYSTEMS[0])
    chunk_bytes = BTRFS_CHUNK_BYTES if raid == "btrfs" else CHUNK_DEFAULT_BYTES
    if arguments.chunk:
        chunk_bytes = _read("--chunk", parse_size, arguments.chunk)
    stripes = (
        tuple(_read("--stripes", parse_count, text) for text in _read_list(arguments.stripes, "--stripes"))
        if arguments.stripes
        else _choose_stripes(len(devices))
    )
    return {
        "devices": devices,
        "stripes": stripes,
        "raid": raid,
        "filesystem": filesystem,
        "chunk_bytes": chunk_bytes,
        "wiped": _read_list(arguments.wipe, "--wipe") if arguments.wipe else (),
    }


def _choose_stripes(count: int) -> tuple[int, ...]:
    """Return powers of two up to the number of devices, and that number."""
    powers = [1 << exponent for exponent in range(count.bit_length()) if 1 << exponent <= count]
    return tuple(dict.fromkeys([*powers, count]))


def _read_list(text: str, option: str) -> tuple[str, ...]:
    values = tuple(value.strip() for value in text.split(","))
    if not all(values):
        raise ConfigurationError(f"{option} {text}: empty value")
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ConfigurationError(f"{option} {text}: duplicate value {', '.join(twice)}")
    return values


def _read(option: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None
