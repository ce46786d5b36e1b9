"""The configuration of the agent: an INI file, environment variables, and a token that only its owner may read."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, Sequence, TypeVar

from agent.exit_codes import ConfigurationError
from agent.quantities import LOAD_MAXIMUM, parse_duration, parse_limit, parse_size
from agent.trust import describe_user, find_writer, require_trusted

if TYPE_CHECKING:
    from configparser import ConfigParser

Value = TypeVar("Value")
Default = TypeVar("Default")
SYSTEM_PATH = "/etc/bench-agent.ini"
USER_PATH = "~/.config/bench-agent/agent.ini"
# Printable ASCII without spaces: anything else could inject an HTTP header.
_TOKEN = re.compile(r"[!-~]{8,500}")
_KEYS = {
    "server": ("url", "token_file", "ca_file", "proxy", "timeout"),
    "spool": ("directory", "max_bytes"),
    "run": (
        *("directory", "profile", "fio", "reserve", "max_load", "skip_if_busy", "log", "cloud", "serials"),
        *("trust_directory",),
    ),
    "requests": ("allow", "directories", "per_day", "quiet_hours"),
    "schedule": ("from_server", "allow", "directories", "per_day", "quiet_hours"),
}
_FREE_SECTIONS = ("target", "labels")
# What earlier versions read, and why this one does not: a section, or a key of one.
_REMOVED = {
    ("update", None): "update the agent as it was installed",
    ("spool", "max_age"): "results stay until the server has acknowledged or rejected them",
}


@dataclass(frozen=True)
class Config:
    """The configuration; None for a key that is not set.

    path: the file that was read, or that `enroll` would write. reserve_bytes: space that a run leaves free.
    max_load, busy_percent: above these a run is skipped. log: the log file of runs. proxy: to the server; None uses the
    proxy of the environment.
    uses_cloud_metadata: query the metadata service; sends_serials: send ids of disks and machine without hashing.
    trusts_directory: allow root to measure where another user can write. requests, schedule: the sections [requests]
    and [schedule], as text. adopts_schedules: install the schedules that the server wants, within [schedule].
    ignored: what the file has and only earlier versions read.
    """

    path: str
    is_read: bool
    url: str | None
    token_file: str
    ca_file: str | None
    timeout_s: float
    spool_directory: str
    spool_max_bytes: int
    directory: str | None
    profile: str | None
    fio: str | None
    reserve_bytes: int | None
    max_load: float | None = None
    busy_percent: float | None = None
    log: str | None = None
    proxy: str | None = None
    uses_cloud_metadata: bool = False
    sends_serials: bool = False
    trusts_directory: bool = False
    target: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    schedule: Mapping[str, str] = field(default_factory=dict)
    adopts_schedules: bool = False
    ignored: Sequence[str] = ()


def load_config(path: str | None, environ: Mapping[str, str], *, must_exist: bool = True) -> Config:
    """Read the file named by path, by BENCH_AGENT_CONFIG, or the first default path that exists."""
    named = path or environ.get("BENCH_AGENT_CONFIG")
    chosen = named or _find_default_path()
    parser = _parse_file(chosen, must_exist=bool(named) and must_exist)
    is_read = parser is not None
    values = _read_values(parser, chosen) if parser else {}
    url = environ.get("BENCH_AGENT_URL") or values.get("server.url")
    spool = (
        environ.get("BENCH_AGENT_SPOOL") or values.get("spool.directory") or _default_spool_directory(environ)
    )
    try:
        return Config(
            path=chosen,
            is_read=is_read,
            url=check_url(url) if url else None,
            token_file=_resolve(values.get("server.token_file") or default_token_file(chosen), chosen),
            ca_file=_find_path(values, "server.ca_file", chosen),
            timeout_s=_read(values, "server.timeout", _parse_timeout, 30),
            spool_directory=_resolve(spool, chosen),
            # A compressed result is 10 to 30 KB: enough for years of a daily run.
            spool_max_bytes=_read(values, "spool.max_bytes", parse_size, 256 * 2**20),
            directory=_find_path(values, "run.directory", chosen),
            profile=values.get("run.profile"),
            fio=_find_program(values, chosen),
            reserve_bytes=_read(values, "run.reserve", parse_size, None),
            max_load=_read(values, "run.max_load", _parse_limit(LOAD_MAXIMUM), None),
            busy_percent=_read(values, "run.skip_if_busy", _parse_limit(100), None),
            log=_find_path(values, "run.log", chosen),
            proxy=_read(values, "server.proxy", _parse_proxy, None),
            uses_cloud_metadata=_read_choice(values, "run.cloud"),
            sends_serials=_read_choice(values, "run.serials"),
            trusts_directory=_read_choice(values, "run.trust_directory"),
            target=_read_section(parser, "target"),
            labels=_read_section(parser, "labels"),
            requests=_read_section(parser, "requests"),
            schedule=_read_section(parser, "schedule"),
            adopts_schedules=_read_choice(values, "schedule.from_server"),
            ignored=tuple(_list_ignored(parser)) if parser else (),
        )
    except ValueError as error:
        raise ConfigurationError(f"{chosen}: {error}") from None


def check_url(url: str) -> str:
    """Return the server's URL without a trailing slash; ConfigurationError if it is not valid."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url.strip())
        is_port_valid = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ConfigurationError(f"{url!r} is not a valid server URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_port_valid:
        raise ConfigurationError(f"{url!r} is not a valid server URL; use https://bench.example.com")
    if parts.username or parts.password:
        raise ConfigurationError(
            "the server URL contains a user name or password; put the token into the token file"
        )
    if parts.query or parts.fragment or not url.isascii() or re.search(r"\s", url.strip()):
        raise ConfigurationError(f"{url!r} is not a valid server URL; remove the query, fragment or spaces")
    if parts.path.strip("/"):
        raise ConfigurationError(
            f"{url!r} has the path {parts.path!r}, but the server answers only at the root of its address; "
            f"use {parts.scheme}://{parts.netloc}"
        )
    return url.strip().rstrip("/")


def is_loopback(url: str) -> bool:
    """Return whether a URL is one of this machine."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def default_token_file(config_path: str) -> str:
    """Return the default path of the token: next to the configuration."""
    return os.path.splitext(config_path)[0] + ".token"


def read_token(config: Config, environ: Mapping[str, str]) -> str:
    """Return this host's token, from BENCH_AGENT_TOKEN or the token file, which no other user may read."""
    given = environ.get("BENCH_AGENT_TOKEN")
    if given:
        return check_token(given, "BENCH_AGENT_TOKEN")
    try:
        descriptor = os.open(config.token_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigurationError(
            f"no token at {config.token_file}; enroll this host with `bench-agent enroll URL`"
        ) from None
    except PermissionError:
        raise ConfigurationError(_explain_foreign_token(config)) from None
    except OSError as error:
        raise ConfigurationError(f"cannot read the token: {error}") from None
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise ConfigurationError(
                f"{config.token_file} has mode {mode:04o}: other users can read the token; run chmod 600 on it"
            )
        require_trusted(config.token_file)
        return check_token(file.read(4096), config.token_file)


def _explain_foreign_token(config: Config) -> str:
    """Return what a user can do on a host that another user, usually root, enrolled."""
    try:
        owner = describe_user(os.stat(config.token_file).st_uid)
    except OSError:
        owner = "another user"
    return (
        f"{config.token_file} belongs to {owner}, who enrolled this host, and cannot be read by "
        f"{describe_user(os.geteuid())}: run bench-agent as {owner}, or enroll this user as another host with "
        f"`bench-agent enroll URL --config {USER_PATH} --name NAME`"
    )


def check_token(text: str, source: str) -> str:
    """Return a token without surrounding whitespace; the error message never contains it."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError(
            f"{source} does not contain a valid token: expected one word of 8 to 500 printable characters"
        )
    return token


def _find_default_path() -> str:
    user = os.path.expanduser(USER_PATH)
    order = (SYSTEM_PATH, user) if os.geteuid() == 0 else (user, SYSTEM_PATH)
    return next((path for path in order if os.path.exists(path)), order[0])


def _default_spool_directory(environ: Mapping[str, str]) -> str:
    if os.geteuid() == 0:
        return "/var/lib/bench-agent"
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "bench-agent")


def _parse_file(path: str, *, must_exist: bool) -> ConfigParser | None:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, default_section="", strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # label names are case-sensitive
    try:
        with open(path, encoding="utf-8") as file:
            # It names the fio that is run, and the log that is written.
            found = find_writer(path)
            if found:
                raise ConfigurationError(found)
            parser.read_file(file)
    except FileNotFoundError:
        if must_exist:
            raise ConfigurationError(
                f"configuration file {path} does not exist; name another one with --config"
            ) from None
        return None
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ConfigurationError(f"cannot read the configuration: {error}") from None
    return parser


def _read_values(parser: ConfigParser, path: str) -> dict[str, str]:
    values = {}
    for section in parser.sections():
        if section in _FREE_SECTIONS or (section, None) in _REMOVED:
            continue
        if section not in _KEYS:
            known = ", ".join([*_KEYS, *_FREE_SECTIONS])
            raise ConfigurationError(f"{path}: unknown section [{section}]; available: {known}")
        for key, value in parser.items(section):
            if (section, key) in _REMOVED:
                continue
            if key not in _KEYS[section]:
                raise ConfigurationError(
                    f"{path}: unknown key {key!r} in [{section}]; available: {', '.join(_KEYS[section])}"
                )
            values[f"{section}.{key}"] = value.strip()
    return values


def _list_ignored(parser: ConfigParser) -> Iterator[str]:
    for (section, key), reason in _REMOVED.items():
        if parser.has_section(section) if key is None else parser.has_option(section, key):
            yield f"[{section}]{f' {key}' if key else ''} is ignored: {reason}"


def _read_section(parser: ConfigParser | None, section: str) -> dict[str, str]:
    return dict(parser.items(section)) if parser and parser.has_section(section) else {}


def _read(
    values: Mapping[str, str], name: str, read: Callable[[str], Value], default: Default
) -> Value | Default:
    """Return the value of a key, the default if it is not set; ValueError names the key."""
    if not values.get(name):
        return default
    try:
        return read(values[name])
    except ValueError as error:
        raise ValueError(f"{_format_name(name)}: {error}") from None


def _format_name(name: str) -> str:
    """Return [run] reserve for run.reserve."""
    section, _, key = name.partition(".")
    return f"[{section}] {key}"


def _parse_timeout(text: str) -> int:
    """Return seconds, at least 1."""
    timeout_s = parse_duration(text)
    if not timeout_s:
        raise ValueError(f"{text!r} is not a valid timeout; use for example 30s")
    return timeout_s


def _parse_proxy(text: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+/?", text):
        raise ValueError(
            f"{text!r} is not the address of a proxy; use for example http://proxy.example.com:3128"
        )
    return text


def _parse_limit(maximum: float) -> Callable[[str], float]:
    return lambda text: parse_limit(text.rstrip("%"), maximum=maximum)


def _read_choice(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name) or "no"
    if text.lower() not in ("yes", "no"):
        raise ValueError(f"{_format_name(name)} = {text}: use yes or no")
    return text.lower() == "yes"


def _find_path(values: Mapping[str, str], name: str, config_path: str) -> str | None:
    return _resolve(values[name], config_path) if values.get(name) else None


def _find_program(values: Mapping[str, str], config_path: str) -> str | None:
    """Return the path of fio, or a name to search on PATH."""
    name = values.get("run.fio")
    return _resolve(name, config_path) if name and "/" in name else name or None


def _resolve(path: str, config_path: str) -> str:
    """Return an absolute path; a relative one starts at the configuration's directory, not the working directory."""
    return os.path.join(os.path.dirname(os.path.abspath(config_path)), os.path.expanduser(path))
