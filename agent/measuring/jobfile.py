"""Custom job files: read, checked, and converted to a plan."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import Any, Iterator, Mapping, Sequence

from agent.exit_codes import CannotMeasure, ConfigurationError
from agent.measuring.fio import make_environment
from agent.profiles.parameters import Needs
from agent.profiles.profile import Plan, Profile, list_names
from agent.profiles.shipped import JOB_MEMORY_BYTES
from agent.quantities import parse_size
from agent.redaction import remove_secrets
from agent.trust import require_trusted

_JOBFILE_MAXIMUM = 64 * 1024
_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TIME = re.compile(r"(\d{1,9})(us|ms|s|m|h|d)?", re.ASCII)
_SECONDS = {None: 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# These options run programs.
_PROGRAMS = ("exec_prerun", "exec_postrun", "program", "trigger", "trigger-file")
# Engines that do not open local files or devices by path.
_REMOTE_ENGINES = re.compile(
    r"rbd|rados|dfs|nfs|nbd|libiscsi|http|gfapi(_async)?|libhdfs|spdk|xnvme|null|cpuio|exec|net(splice)?|rdma"
)
_NEW_GROUP = ("stonewall", "wait_for_previous", "new_group")
_OFF = ("0", "false", "no")
_PARSE_TIMEOUT_S = 30.0
_ERROR_LINES_MAXIMUM = 3


@dataclass(frozen=True)
class Section:
    """One job with its effective options: its own, and those of the [global] sections before it."""

    name: str
    options: Mapping[str, str]


def read_jobfile(path: str) -> str:
    """Return the text of a job file; ConfigurationError if it cannot be read or is too long."""
    try:
        with open(path, encoding="utf-8") as file:
            require_trusted(path)
            text = file.read(_JOBFILE_MAXIMUM + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--jobfile {path}: {error}") from None
    if len(text) > _JOBFILE_MAXIMUM:
        raise ConfigurationError(f"--jobfile {path}: longer than {_JOBFILE_MAXIMUM} characters")
    return text


def plan_jobfile(
    path: str, text: str, *, name: str | None, time_limit_s: float | None, allows_outside: bool
) -> Plan:
    """Return the plan of a job file; name: of the profile, by default the file name without extension."""
    profile = name or _name_after(path)
    if not _PROFILE_NAME.fullmatch(profile):
        raise ConfigurationError(
            f"--profile {profile}: use at most 100 letters, digits, dots, hyphens and underscores"
        )
    if profile in list_names():
        raise ConfigurationError(
            f"{profile} is the name of a shipped profile; choose another name for this job file with --profile"
        )
    sections = parse_sections(text)
    if not sections:
        raise ConfigurationError(f"--jobfile {path}: no job section found (a [section] other than [global])")
    if not allows_outside:
        refuse_outside(text)
    needs = find_needs(sections, time_limit_s=time_limit_s)
    summary = f"the job file {os.path.basename(path)}"
    return Plan(Profile(profile, summary, "", text, (), lambda _: needs, engine="own", is_own=True), {})


def parse_sections(text: str) -> list[Section]:
    """Return the jobs of a file; options of a [global] section apply to the jobs after it, as in fio."""
    shared: dict[str, str] = {}
    sections: list[Section] = []
    current = shared
    for number, line in _list_lines(text):
        if line.startswith("["):
            name = line[1:].partition("]")[0]
            if name == "global":
                current = shared
            else:
                current = dict(shared)
                sections.append(Section(name, current))
        elif line.split()[0] == "include":
            raise ConfigurationError(f"line {number}: include is not supported; use a single file")
        else:
            option, _, value = line.partition("=")
            current[option.strip().lower()] = value.strip()
    return sections


def list_reported_jobs(text: str) -> list[str]:
    """Return the names under which fio reports the jobs of a file: with group_reporting the first one of a group."""
    names = []
    is_first_of_group = True
    for section in parse_sections(text):
        is_first_of_group |= any(_is_set(section, name) for name in _NEW_GROUP)
        if section.options.get("stats") in _OFF:
            continue
        if is_first_of_group or not _is_set(section, "group_reporting"):
            names.append(_expand(section.options.get("name") or section.name, make_environment()))
        is_first_of_group = False
    return names


def list_opened(text: str, directory: str) -> list[str]:
    """Return the absolute paths of what fio opens; directory: for files whose paths are relative."""
    opened = []
    for section in parse_sections(text):
        options = {name: _expand(value, make_environment()) for name, value in section.options.items()}
        if _REMOTE_ENGINES.fullmatch(options.get("ioengine", "").partition(":")[0]):
            continue
        bases = _split_paths(options.get("directory") or options.get("opendir") or "") or [""]
        names = _split_paths(options.get("filename", ""))
        # As fio does: named files are in the first directory; clones take turns.
        paths = [os.path.join(bases[0], name) for name in names] or bases[: _count_jobs(section)]
        opened += [path if path.startswith("/") else directory for path in paths]
    return list(dict.fromkeys(opened))


def _split_paths(text: str) -> list[str]:
    """Return the paths of a list, in which a colon that is part of a path has a backslash."""
    parts = re.split(r"(?<!\\):", text)
    return [path for part in parts if (path := part.replace("\\:", ":").strip())]


def refuse_outside(text: str) -> None:
    """Raise ConfigurationError if an option refers to a path outside of the run's directory or starts a program."""
    environ = make_environment()
    for number, line in _list_lines(text):
        option, _, value = line.partition("=")
        name = option.strip().lower()
        if line.startswith("["):
            if re.search(r"[/\\]", line):
                raise ConfigurationError(
                    f"line {number}: {line} contains a path; allow it with --allow-outside"
                )
            continue
        if name in _PROGRAMS or (name == "ioengine" and value.strip().startswith("exec")):
            raise ConfigurationError(f"line {number}: {name} starts programs; allow it with --allow-outside")
        if is_outside(value, environ):
            raise ConfigurationError(
                f"line {number}: {remove_secrets(line)} is outside of the measured directory; "
                "allow it with --allow-outside (files there are neither removed nor counted)"
            )


def is_outside(value: str, environ: Mapping[str, str]) -> bool:
    """Return whether an option's value contains an absolute path or ".."; paths are separated by colons."""
    parts = [part.strip().strip("'\"") for part in re.split(r"[:,]", _expand(value, environ))]
    return any(part.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", part) for part in parts)


def find_needs(sections: Sequence[Section], *, time_limit_s: float | None) -> Needs:
    """Return the needs of the jobs as far as specified; the duration must follow from runtime or the limit."""
    durations_s = [_find_duration(section) for section in sections]
    endless = [section.name for section, seconds in zip(sections, durations_s) if seconds is None]
    if endless and time_limit_s is None:
        raise ConfigurationError(f"job {endless[0]} has no runtime; add one, or set --time-limit")
    known_s = sum(seconds for seconds in durations_s if seconds is not None)
    duration_s = known_s if not endless or time_limit_s is None else time_limit_s
    space_bytes = _sum_space(sections)
    memory_bytes = sum(_count_jobs(section) * _find_job_memory(section) for section in sections)
    return Needs(space_bytes, duration_s, memory_bytes, space_bytes)


def check_by_fio(fio_path: str, jobfile: str, directory: int) -> None:
    """Raise ConfigurationError with fio's errors about a job file; old versions cannot check one.

    directory: descriptor of the job file's directory.
    """
    try:
        ended = subprocess.run(
            [fio_path, "--parse-only", jobfile],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=make_environment(),
            timeout=_PARSE_TIMEOUT_S,
            check=False,
            preexec_fn=partial(os.fchdir, directory),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotMeasure(f"fio --parse-only failed: {error}") from None
    output = ended.stdout.decode("utf-8", "replace")
    if ended.returncode == 0 or "unrecognized option" in output:
        return
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = " | ".join(lines[:_ERROR_LINES_MAXIMUM]) or f"status {ended.returncode}"
    raise ConfigurationError(f"fio rejected this job file: {remove_secrets(errors)}")


def _is_set(section: Section, flag: str) -> bool:
    """Return whether a flag is given; without a value it is on."""
    return section.options.get(flag, "0") not in _OFF


def _expand(value: str, environ: Mapping[str, str]) -> str:
    """Return a value with environment variables expanded, as fio does."""
    return _VARIABLE.sub(lambda match: environ.get(match.group(1), ""), value)


def _name_after(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:100] or "jobfile"


def _list_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are neither comments nor empty, with their numbers from 1."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith(("#", ";")):
            yield number, stripped


def _find_duration(section: Section) -> float | None:
    """Return the seconds that a job may take; None if not specified."""
    runtime_s = _read_time(section.options.get("runtime") or section.options.get("timeout"))
    if not runtime_s:
        return None
    before_s = sum(_read_time(section.options.get(name)) or 0.0 for name in ("ramp_time", "startdelay"))
    return runtime_s + before_s


def _read_time(text: str | None) -> float | None:
    """Return seconds of 90, 90s or 2m; of a range its upper end."""
    match = _TIME.fullmatch((text or "").lower().rpartition("-")[2].strip())
    return int(match.group(1)) * _SECONDS[match.group(2)] if match else None


def _sum_space(sections: Sequence[Section]) -> int:
    """Return the bytes of all files with a size in bytes; jobs with the same filename share it."""
    shared: dict[str, int] = {}
    own_bytes = 0
    for section in sections:
        size_bytes = _read_size(section.options.get("size") or section.options.get("filesize"))
        filename = section.options.get("filename")
        if filename is None:
            own_bytes += size_bytes * _count_jobs(section)
        elif not is_outside(filename, os.environ):
            shared[filename] = max(shared.get(filename, 0), size_bytes)
    return own_bytes + sum(shared.values())


def _find_job_memory(section: Section) -> int:
    blocks = re.split(r"[,\-]", section.options.get("bs") or section.options.get("blocksize") or "4k")
    largest_bytes = max(_read_size(block) for block in blocks)
    return JOB_MEMORY_BYTES + largest_bytes * _read_number(section.options.get("iodepth"))


def _count_jobs(section: Section) -> int:
    return _read_number(section.options.get("numjobs"))


def _read_number(text: Any) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else 1


def _read_size(text: str | None) -> int:
    """Return bytes, 0 if it is not a size (a percentage, for example); fio's kB is 1024 by default."""
    try:
        return parse_size(re.sub(r"(?i)i?b$", "", text.strip())) if text else 0
    except ValueError:
        return 0
