"""The request of a sweep, and its plan: rounds and steps, without access to the machine."""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
from dataclasses import dataclass, field
from typing import Any, Callable, Container, Iterable, Iterator, Mapping, Sequence, TypeVar

from agent.config import Config
from agent.delivery.envelope import check_labels, read_target
from agent.exit_codes import ConfigurationError
from agent.job_state import SweepState, check_types
from agent.profiles.profile import Plan, Profile, make_plan
from agent.quantities import format_duration, format_size, parse_count, parse_size
from agent.running.run_command import read_pairs
from agent.storage.signatures import Signature
from agent.sweeping.stripe_commands import (
    BTRFS_CHUNK_BYTES,
    CHUNK_DEFAULT_BYTES,
    FILESYSTEMS,
    RAIDS,
    Stripe,
    build_commands,
    check_stripe,
    find_size_minimum,
    predict_state,
    undo_commands,
    wipe_commands,
)

# The parameter that --file-sizes varies.
SIZE_PARAMETER = "size"
# mkfs, mount, umount and wipe on an idle machine; mkfs.xfs on 16 volumes takes about 2 s.
_BUILD_S = 5.0
_STEPS_MAXIMUM = 1000
# Filesystem overhead, and the reserve that a run leaves free: 5 %, at most 1 GiB.
_OVERHEAD_SHARE = 0.05
_OVERHEAD_BYTES = 64 * 2**20
_RESERVE_SHARE = 0.05
_RESERVE_MAXIMUM = 2**30
T = TypeVar("T")
_LISTS = ("directories", "devices", "stripes", "wiped")
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("profile", "raid", "filesystem"), (str,)),
    **dict.fromkeys(_LISTS, (list, tuple)),
    **dict.fromkeys(("parameters", "target", "labels"), (dict,)),
    "chunk_bytes": (int,),
    "trusts_directory": (bool,),
}


@dataclass(frozen=True)
class SweepRequest:
    """The parameters of a sweep.

    parameters: values by name, several are varied; directories: to measure in, without devices; stripes: number of
    devices of each round, from the first; target, labels: as given; trusts_directory: allow root to measure where
    another user can write.
    """

    profile: str
    parameters: Mapping[str, tuple[str, ...]]
    directories: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    stripes: tuple[int, ...] = ()
    raid: str = "mdadm"
    filesystem: str = "xfs"
    chunk_bytes: int = 0
    wiped: tuple[str, ...] = ()
    target: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    trusts_directory: bool = False


@dataclass(frozen=True)
class SweepStep:
    """One run of the sweep. number: from 1; settings: as for --set; label: its varied values."""

    number: int
    plan: Plan
    settings: Mapping[str, str]
    label: str


@dataclass(frozen=True)
class Round:
    """The steps on one stripe or in one directory."""

    directory: str
    stripe: Stripe | None
    steps: tuple[SweepStep, ...]

    @property
    def duration_s(self) -> float:
        build_s = _BUILD_S if self.stripe else 0.0
        return build_s + sum(step.plan.duration_s for step in self.steps)

    @property
    def file_size_bytes(self) -> int:
        return max(step.plan.needs.space_bytes for step in self.steps)


@dataclass(frozen=True)
class SweepPlan:
    """All rounds, in order. duration_s: without the first write of test files."""

    request: SweepRequest
    rounds: tuple[Round, ...]

    @property
    def steps(self) -> tuple[SweepStep, ...]:
        return tuple(step for each in self.rounds for step in each.steps)

    @property
    def duration_s(self) -> float:
        return sum(each.duration_s for each in self.rounds)

    @property
    def needed_bytes(self) -> int:
        """Return the minimum size of each device."""
        return max((find_needed_bytes(each) for each in self.rounds), default=0)


def plan_sweep(request: SweepRequest, profile: Profile, *, mount_point: str) -> SweepPlan:
    """Return the plan; stripes vary slowest, so that each is built once."""
    variants = _vary(request.parameters)
    places = list(_list_places(request, mount_point))
    count = len(places) * len(variants)
    if not count or count > _STEPS_MAXIMUM:
        raise ConfigurationError(f"{count} steps; a sweep has 1 to {_STEPS_MAXIMUM}")
    varied = [name for name, values in request.parameters.items() if len(values) > 1]
    numbers = itertools.count(1)
    rounds = []
    for directory, stripe, place in places:
        steps = []
        for settings in variants:
            parts = [place, *(f"{name}={settings[name]}" for name in varied)]
            plan = make_plan(profile, settings)
            steps.append(
                SweepStep(next(numbers), plan, settings, ", ".join(filter(None, parts)) or profile.name)
            )
        rounds.append(Round(directory, stripe, tuple(steps)))
    return SweepPlan(request, tuple(rounds))


def find_needed_bytes(each: Round) -> int:
    """Return the minimum size of each device of a round: test file, reserve and filesystem."""
    if each.stripe is None:
        return 0
    count = len(each.stripe.devices)
    file_bytes = each.file_size_bytes
    filesystem_bytes = (file_bytes + _OVERHEAD_BYTES) / (1 - _OVERHEAD_SHARE)
    reserve_bytes = min(filesystem_bytes * _RESERVE_SHARE, _RESERVE_MAXIMUM)
    share_bytes = int((filesystem_bytes + reserve_bytes) / count)
    minimum_bytes = find_size_minimum(each.stripe.filesystem)
    # btrfs has a minimum per device, the others for the whole array.
    is_each = each.stripe.layer in ("btrfs", None)
    return max(share_bytes, minimum_bytes if is_each else -(-minimum_bytes // count))


def list_commands(
    plan: SweepPlan,
    *,
    size_bytes: int,
    signatures: Sequence[tuple[str, Sequence[Signature]]] = (),
    over: Container[int] = (),
) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    """Yield titles with their commands, in order of execution.

    size_bytes: of the smallest device; signatures: removed by --wipe before the first round; over: numbers of finished
    steps.
    """
    wipes = wipe_commands(signatures)
    if wipes:
        yield "wipe", wipes
    for each in plan.rounds:
        steps = [step for step in each.steps if step.number not in over]
        if not steps:
            continue
        if each.stripe:
            yield f"build {describe_place(each)}", build_commands(each.stripe)
        for step in steps:
            time = format_duration(step.plan.duration_s)
            title = f"step {step.number} of {len(plan.steps)}: {step.label}, about {time}"
            yield title, (_run_command(plan.request, each, step),)
        if each.stripe:
            found = predict_state(each.stripe, size_bytes=size_bytes)
            yield f"remove {describe_place(each)}", undo_commands(each.stripe, found)


def describe_place(each: Round) -> str:
    """Return the location of a round as text."""
    stripe = each.stripe
    if stripe is None:
        return each.directory
    if stripe.layer is None:
        return f"{stripe.filesystem} on {stripe.devices[0]}"
    chunk = format_size(stripe.chunk_bytes)
    raid = "btrfs" if stripe.layer == "btrfs" else f"{stripe.filesystem} on {stripe.layer}"
    return f"{raid} RAID0 of {len(stripe.devices)}, chunk {chunk}"


def describe_plan(plan: SweepPlan) -> str:
    """Return the plan as a few lines, for confirmation."""
    time = format_duration(plan.duration_s)
    largest = format_size(max(each.file_size_bytes for each in plan.rounds))
    count = "1 step" if len(plan.steps) == 1 else f"{len(plan.steps)} steps"
    lines = [f"{count} of {plan.request.profile}, about {time}; largest test file: {largest}"]
    for each in plan.rounds:
        labels = "; ".join(step.label for step in each.steps)
        lines.append(f"  {describe_place(each)}: {labels}")
    return "\n".join(lines)


def render_commands(sections: Iterable[tuple[str, tuple[tuple[str, ...], ...]]]) -> Iterator[str]:
    """Yield shell commands, with titles as comments."""
    for title, commands in sections:
        yield f"# {title}"
        for argv in commands:
            yield shlex.join(argv)


def _vary(parameters: Mapping[str, tuple[str, ...]]) -> list[dict[str, str]]:
    """Return all combinations of values; the last parameter varies fastest."""
    return [dict(zip(parameters, values)) for values in itertools.product(*parameters.values())]


def _list_places(request: SweepRequest, mount_point: str) -> Iterator[tuple[str, Stripe | None, str]]:
    """Yield directory, stripe, and the name of the location in step labels."""
    for directory in request.directories:
        yield directory, None, directory if len(request.directories) > 1 else ""
    for count in request.stripes:
        if not 1 <= count <= len(request.devices):
            raise ConfigurationError(
                f"--stripes {count}: must be from 1 to {len(request.devices)}, the number of devices"
            )
        stripe = Stripe(
            request.devices[:count], request.raid, request.filesystem, request.chunk_bytes, mount_point
        )
        check_stripe(stripe)
        yield mount_point, stripe, f"{count} {'stripe' if count == 1 else 'stripes'}"


def _run_command(request: SweepRequest, each: Round, step: SweepStep) -> tuple[str, ...]:
    """Return the command for the same run without a sweep."""
    facts: dict[str, Any] = dict(each.stripe.list_facts()) if each.stripe else {}
    target = {name: value for name, value in facts.items() if value is not None}
    pairs = [
        *(("--set", f"{name}={value}") for name, value in step.settings.items()),
        *(("--target", f"{name}={value}") for name, value in {**target, **request.target}.items()),
        *(("--label", f"{name}={value}") for name, value in request.labels.items()),
    ]
    options = list(itertools.chain.from_iterable(pairs))
    if request.trusts_directory:
        options.append("--trust-directory")
    return ("bench-agent", "run", "--profile", request.profile, "--directory", each.directory, *options)


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
