"""Pair fio logs with their outputs, and combine both into one submission."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

import orjson
from django.conf import settings

from benchapp.fio.logs import split_log_name
from benchapp.fio.report import Notes
from benchapp.fio.text import decode_output
from benchapp.intake.posts.envelope import SCHEMA, BadEnvelope, read_envelope
from benchapp.intake.posts.submissions import IncomingSubmission
from benchapp.models import Kind

# Namespace of the ids of created envelopes: same host, same output and logs, same id.
_ENVELOPE_IDS: Final = UUID("0f7c2f0e-52f4-4d0b-9d58-6c1a3d0c9e27")
_LOG_BEGINNING: Final = re.compile(rb"\s{0,16}\d{1,20},")
_PACKED: Final = (".gz", ".xz", ".bz2")
_BENCH_FIO: Final = re.compile(r"-(?:iodepth|numjobs)-(?=\d)")
_SEPARATORS: Final = "_.-"


@dataclass(frozen=True, slots=True)
class Pairing:
    """Logs of a folder by output. unmatched: log → why it has no output."""

    logs_of: Mapping[str, tuple[str, ...]]
    unmatched: Mapping[str, str]


def plain_name(name: str) -> str:
    """Return a file name without the suffix of its packing."""
    return name.removesuffix(next((suffix for suffix in _PACKED if name.endswith(suffix)), ""))


def is_log(name: str, beginning: bytes) -> bool:
    """Return whether a file is a fio log, by name and first line; also an empty one."""
    is_named_so = split_log_name(plain_name(name)) is not None
    return is_named_so and (not beginning.strip() or _LOG_BEGINNING.match(beginning) is not None)


def pair_logs(outputs: Sequence[str], logs: Sequence[str]) -> Pairing:
    """Assign each log of a folder to its output, by name.

    A log belongs to the output whose name without extension is the log's prefix, or begins it before one of `_.-`;
    the longest such name is used. Without one it belongs to the only output of the folder.
    """
    stems = {name: plain_name(name).rpartition(".")[0] or plain_name(name) for name in outputs}
    counts = Counter(stems.values())
    named = {stem: name for name, stem in stems.items()}
    logs_of: dict[str, list[str]] = defaultdict(list)
    unmatched: dict[str, str] = {}
    for log in logs:
        stem = next((prefix for prefix in _list_prefixes(log) if prefix in named), None)
        if stem is not None and counts[stem] > 1:
            unmatched[log] = f"{counts[stem]} outputs have the name {stem}"
        elif stem is not None or len(outputs) == 1:
            logs_of[named[stem] if stem is not None else outputs[0]].append(log)
        else:
            unmatched[log] = (
                f"its name begins with the name of none of the {len(outputs)} outputs"
                if outputs
                else "no output in this folder"
            )
    return Pairing({name: tuple(found) for name, found in logs_of.items()}, unmatched)


def make_submission(
    host_id: int, output: bytes, *, parameters: Mapping[str, Any], logs: Mapping[str, bytes]
) -> IncomingSubmission:
    """Return the submission: the bare output, or an envelope of output and logs.

    parameters: as `query_parameters.read_parameters` returns them; logs: file name → bytes. Raises BadEnvelope if the
    logs are not valid in an envelope, or make it exceed the limit.
    """
    if not logs:
        return IncomingSubmission(host_id, Kind.FIO, output, parameters=parameters)
    document = _make_document(output, parameters, logs)
    digest = hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
    envelope_id = uuid5(_ENVELOPE_IDS, f"{host_id}:{digest}")
    body = orjson.dumps({"schema": SCHEMA, "id": str(envelope_id), "kind": "fio", **document})
    if len(body) > settings.UNPACKED_LIMIT_BYTES:
        raise BadEnvelope(
            "body-too-big",
            f"with its {len(logs)} logs the output is {len(body) // 2**20} MiB;"
            f" the limit is {settings.UNPACKED_LIMIT_BYTES // 2**20} MiB",
        )
    read_envelope(body)
    return IncomingSubmission(host_id, Kind.ENVELOPE, body, id=envelope_id)


def _list_prefixes(log: str) -> Iterator[str]:
    """Yield the possible names of the output of a log, longest first."""
    name = split_log_name(plain_name(log))
    stem = name.stem if name else ""
    yield stem
    # bench-fio writes randread-16-1.json beside randread-iodepth-16-numjobs-1_bw.1.log.
    yield _BENCH_FIO.sub("-", stem)
    for place in range(len(stem) - 1, 0, -1):
        if stem[place] in _SEPARATORS:
            yield stem[:place]


def _make_document(output: bytes, parameters: Mapping[str, Any], logs: Mapping[str, bytes]) -> dict[str, Any]:
    target = parameters.get("target") or {}
    return {
        "profile": parameters.get("profile") or "",
        "started_at": parameters.get("started_at"),
        "fio_output": _as_text(output),
        "logs": {plain_name(name): _as_text(log) for name, log in logs.items()},
        "target": {
            "name" if field == "target_name" else field: value
            for field, value in target.items()
            if value is not None
        },
        "labels": dict(parameters.get("labels") or {}),
        "environment": {
            name: value for name, value in (parameters.get("environment") or {}).items() if value
        },
    }


def _as_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return decode_output(content, Notes())
