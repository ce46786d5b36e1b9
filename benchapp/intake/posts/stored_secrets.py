"""Remove secrets from rows: those that an earlier version stored, and those of an archive.

A submission keeps its digest of the received bytes. The key of a workload, target or series with a secret becomes
the key that the next run has: the series goes on. If an equal series exists already, both are kept apart and counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from django.db import connection, transaction
from psycopg import sql

from benchapp.fio.redaction import (
    HINTS,
    is_secret_name,
    remove_from_body,
    remove_from_document,
    remove_secrets,
)
from benchapp.intake.posts.submissions import pack, unpack
from benchapp.models import (
    TARGET_FIELDS,
    WORKLOAD_FIELDS,
    Environment,
    Kind,
    Run,
    Series,
    Submission,
    Target,
    Workload,
)
from benchapp.models.series import ENVIRONMENT_FIELDS
from benchapp.storage.write.hosts import environment_key, key_of, series_key

_BATCH_SIZE: Final = 200
_HINT: Final = "|".join(hint.decode() for hint in HINTS)


def _clean_json(text: str) -> str:
    document = orjson.loads(text)
    cleaned = remove_from_document(document)
    return text if cleaned == document else orjson.dumps(cleaned).decode()


def _clean_options(text: str) -> str:
    """Return options as the identity of a workload has them: those that are secrets are left out."""
    options: Mapping[str, str] = orjson.loads(text)
    kept = {name: remove_secrets(value) for name, value in options.items() if not is_secret_name(name)}
    return text if kept == options else orjson.dumps(kept).decode()


_LAYOUT: Final = dict.fromkeys(("target_name", "volume_type", "mount_options"), remove_secrets)
# Table of an archive → column → how its text is cleaned. Besides: the body of submissions.
CLEANERS: Final[Mapping[str, Mapping[str, Callable[[str], str]]]] = {
    "submissions": {"parameters": _clean_json, "reason": remove_secrets},
    "runs": {"command": _clean_json, "labels": _clean_json, "warnings": _clean_json},
    "environments": {"facts": _clean_json},
    "workloads": {"options": _clean_options},
    "targets": _LAYOUT,
    "series": {"options": _clean_options, **_LAYOUT},
}
STORED: Final = {
    "submissions": Submission._meta.db_table,
    "runs": Run._meta.db_table,
    "environments": Environment._meta.db_table,
    "workloads": Workload._meta.db_table,
    "targets": Target._meta.db_table,
    "series": Series._meta.db_table,
}
_KEYED: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], bytes]]]] = {
    "environments": (ENVIRONMENT_FIELDS, environment_key),
    "workloads": (WORKLOAD_FIELDS, key_of),
    "targets": (TARGET_FIELDS, key_of),
}


@dataclass(slots=True)
class CleanedRows:
    """Rows with secrets by table; kept_apart: series beside an equal one without the secret."""

    counts: Counter[str] = field(default_factory=Counter)
    kept_apart: int = 0


def clean_rows(tables: Mapping[str, str] = STORED, *, is_dry_run: bool = False) -> CleanedRows:
    """Remove the secrets from these tables (name in archives → table); return how many rows had any.

    One transaction for each 200 rows. A dry run rolls back each.
    """
    cleaned = CleanedRows()
    keys: dict[str, dict[int, bytes]] = {name: {} for name in _KEYED}
    for name in CLEANERS:
        last: Any = None
        while True:
            with transaction.atomic():
                last = _clean_batch(name, tables[name], after=last, cleaned=cleaned, keys=keys)
                if is_dry_run:
                    transaction.set_rollback(True)
            if last is None:
                break
    with transaction.atomic():
        cleaned.kept_apart = _rekey_series(tables, keys)
        if is_dry_run:
            transaction.set_rollback(True)
    return cleaned


def clean_values(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that have secrets, without them. values: texts, and the packed body with its kind."""
    changed: dict[str, Any] = {}
    for column, clean in CLEANERS.get(name, {}).items():
        if (text := values[column]) and (kept := clean(text)) != text:
            changed[column] = kept
    if packed := values.get("body"):
        body = unpack(packed)
        kept_body = remove_from_body(body, is_document=values["kind"] != Kind.FIO)
        if kept_body is not body:
            changed |= {"body": pack(kept_body), "body_bytes": len(kept_body)}
    return changed


def _clean_batch(
    name: str,
    table: str,
    *,
    after: Any,
    cleaned: CleanedRows,
    keys: Mapping[str, dict[int, bytes]],
) -> Any:
    """Clean the next rows; return the id of the last one, None without any."""
    names = list(CLEANERS[name])
    rows = _read(table, names, has_body=name == "submissions", after=after)
    for row_id, packed, kind, *texts in rows:
        body = None if packed is None else bytes(packed)
        changed = clean_values(name, {**dict(zip(names, texts, strict=True)), "body": body, "kind": kind})
        if not changed:
            continue
        cleaned.counts[name] += 1
        before = _read_fields(name, table, row_id) if name in _KEYED else {}
        _update(table, row_id, changed)
        if name in _KEYED:
            keys[name][row_id] = _rekey(name, table, row_id, before)
    return rows[-1][0] if rows else None


def _read(table: str, names: list[str], *, has_body: bool, after: Any) -> list[tuple[Any, ...]]:
    query = sql.SQL(
        "SELECT id, {body}, {columns} FROM {table} WHERE (%(after)s::text IS NULL OR id > %(after)s) AND {hinted}"
        " ORDER BY id LIMIT %(limit)s"
    ).format(
        body=sql.SQL("body, kind" if has_body else "NULL, NULL"),
        columns=sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names),
        table=sql.Identifier(table),
        # Bodies are compressed.
        hinted=sql.SQL("TRUE")
        if has_body
        else sql.SQL("concat({}) ~* %(hint)s").format(
            sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names)
        ),
    )
    with connection.cursor() as cursor:
        cursor.execute(query, {"after": after, "hint": _HINT, "limit": _BATCH_SIZE})
        return list(cursor.fetchall())


def _update(table: str, row_id: Any, values: Mapping[str, Any]) -> None:
    query = sql.SQL("UPDATE {} SET {} WHERE id = %s").format(
        sql.Identifier(table),
        sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in values),
    )
    with connection.cursor() as cursor:
        cursor.execute(query, [*values.values(), row_id])


def _read_fields(name: str, table: str, row_id: Any) -> dict[str, Any]:
    query = sql.SQL("SELECT to_jsonb(own)::text FROM {} AS own WHERE id = %s").format(sql.Identifier(table))
    with connection.cursor() as cursor:
        cursor.execute(query, [row_id])
        row: dict[str, Any] = orjson.loads(cursor.fetchone()[0])
    return {column: row[column] for column in (*_KEYED[name][0], "key")}


def _rekey(name: str, table: str, row_id: Any, before: dict[str, Any]) -> bytes:
    """Give a changed row the key of its content, unless another row has it; return that key."""
    key_before = bytes.fromhex(before.pop("key").removeprefix("\\x"))
    _, make_key = _KEYED[name]
    if make_key(before) != key_before:
        return key_before  # of an earlier rule: the next run gets another one in any case
    after = _read_fields(name, table, row_id)
    after.pop("key")
    key = make_key(after)
    if not _has_key(table, key):
        _update(table, row_id, {"key": key})
    return key


def _has_key(table: str, key: bytes) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE key = %s)").format(sql.Identifier(table)), [key]
        )
        return bool(cursor.fetchone()[0])


def _rekey_series(tables: Mapping[str, str], keys: Mapping[str, dict[int, bytes]]) -> int:
    """Give series of changed workloads and targets their new key; return how many another series has it."""
    kept_apart = 0
    for series_id, scope, direction, key, parts in _list_affected(tables, keys):
        new = series_key(scope=scope, target_key=parts[0], workload_key=parts[1], direction=direction)
        if new == key:
            continue
        if _has_key(tables["series"], new):
            kept_apart += 1
        else:
            _update(tables["series"], series_id, {"key": new})
    return kept_apart


def _list_affected(
    tables: Mapping[str, str], keys: Mapping[str, dict[int, bytes]]
) -> Iterator[tuple[int, str, str, bytes, tuple[bytes, bytes]]]:
    query = sql.SQL(
        "SELECT series.id, scope, direction, series.key, target_id, target.key, workload_id, workload.key"
        " FROM {series} AS series JOIN {targets} AS target ON target.id = target_id"
        " JOIN {workloads} AS workload ON workload.id = workload_id"
        " WHERE target_id = ANY(%s) OR workload_id = ANY(%s) ORDER BY series.id"
    ).format(**{name: sql.Identifier(tables[name]) for name in ("series", "targets", "workloads")})
    with connection.cursor() as cursor:
        cursor.execute(query, [list(keys["targets"]), list(keys["workloads"])])
        rows = cursor.fetchall()
    for series_id, scope, direction, key, target_id, target_key, workload_id, workload_key in rows:
        target = keys["targets"].get(target_id, bytes(target_key))
        workload = keys["workloads"].get(workload_id, bytes(workload_key))
        yield series_id, scope, direction, bytes(key), (target, workload)
