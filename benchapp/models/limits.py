"""Readers who are limited to pools: PostgreSQL shows them no other rows (row-level security).

A limited request is one transaction under a role of PostgreSQL that has a policy for every table. The owner of the
tables has none, so that other requests, workers and commands cost nothing. A table without a policy is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from django.db import DatabaseError, connection, transaction
from psycopg import sql

from benchapp.models.account import User
from benchapp.models.host import ApiToken

_POOLS: Final = "(SELECT current_setting('benchapp.pools'))::text[]"
_PERSON: Final = "(SELECT nullif(current_setting('benchapp.person'), ''))::bigint"
_TOKEN: Final = "(SELECT nullif(current_setting('benchapp.token'), ''))::bigint"
# Roles of PostgreSQL that people use beside this application are not limited.
_OTHERS: Final = "(SELECT current_user <> session_user || '_limited')"
_NOTHING: Final = "false"
_ALL: Final = "true"
_HOST: Final = "EXISTS (SELECT FROM benchapp_host AS h WHERE h.id = host_id)"
_SERIES: Final = "EXISTS (SELECT FROM benchapp_series AS s WHERE s.id = series_id)"
_RUN: Final = "EXISTS (SELECT FROM benchapp_run AS r WHERE r.id = run_id)"
_OWNER: Final = f"owner_id = {_PERSON}"
# "pool:db" of the reader's pools, "host:db-1" of their hosts.
_SCOPE: Final = (
    f"(starts_with({{0}}, 'pool:') AND substr({{0}}, 6) = ANY ({_POOLS})"  # noqa: S608
    " OR {0} IN (SELECT 'host:' || h.name FROM benchapp_host AS h))"
)
# A filter that names a place of the reader first, and no other one.
_FILTER: Final = (
    "(filter = '' OR split_part(filter, ' ', 1) IN (SELECT 'host:' || h.name FROM benchapp_host AS h"  # noqa: S608
    f" UNION ALL SELECT 'pool:' || pool FROM unnest({_POOLS}) AS pool)"
    " AND substr(filter, 2) !~* '(host|pool)[:=]')"
)

# By table: which rows a limited reader sees and writes. A test compares it with the models.
POLICIES: Final[Mapping[str, str]] = {
    "host": f"pool = ANY ({_POOLS})",
    "series": f"(starts_with(scope, 'pool:') AND substr(scope, 6) = ANY ({_POOLS}) OR {_HOST})",
    **dict.fromkeys(
        ("submission", "attempt", "run", "runrequest", "requestpolicy", "scheduleadoption", "apitoken"), _HOST
    ),
    **dict.fromkeys(
        (
            "measurement",
            "dailypoint",
            "change",
            "detectionresult",
            "level",
            "newestvalues",
            "seriesenvironment",
        ),
        _SERIES,
    ),
    "trace": _RUN,
    "target": "EXISTS (SELECT FROM benchapp_series AS s WHERE s.target_id = benchapp_target.id)"
    " OR EXISTS (SELECT FROM benchapp_run AS r WHERE r.target_id = benchapp_target.id)",
    "workload": "EXISTS (SELECT FROM benchapp_series AS s WHERE s.workload_id = benchapp_workload.id)",
    "environment": "EXISTS (SELECT FROM benchapp_seriesenvironment AS e"
    " WHERE e.environment_id = benchapp_environment.id)"
    " OR EXISTS (SELECT FROM benchapp_run AS r WHERE r.environment_id = benchapp_environment.id)",
    **dict.fromkeys(("incident", "pooledevaluation", "targetmapping"), _SCOPE.format("scope")),
    "formername": _SCOPE.format("present"),
    # What an incident had in common with those of other pools is not of this pool.
    "incidentevent": "kind NOT IN ('merged', 'split', 'moved') AND (kind <> 'undone' OR text !~ 'incident')"
    " AND EXISTS (SELECT FROM benchapp_incident AS i WHERE i.id = incident_id)",
    "confirmationpolicy": f"pool = '' OR pool = ANY ({_POOLS})",
    "wantedschedule": f"pool = ANY ({_POOLS}) OR {_HOST}",
    **dict.fromkeys(("plannedevent", "detectionpolicy"), _FILTER),
    "plannedeventlogentry": "EXISTS (SELECT FROM benchapp_plannedevent AS p WHERE p.id = planned_event_id)",
    "detectionpolicylogentry": "EXISTS (SELECT FROM benchapp_detectionpolicy AS p WHERE p.id = policy_id)",
    **dict.fromkeys(("study", "pinnedchart", "savedview", "subscription", "emailaddress"), _OWNER),
    "signedlink": f"created_by_id = {_PERSON} OR token_id = {_TOKEN}",
    # Their numbers of runs and filters are of everything.
    **dict.fromkeys(
        (
            *("correction", "correctionlogentry", "deletedrun", "relabeledrun", "detectiondryrun"),
            *("invitation", "externalidentity", "refusedaddress"),
            # Of before the limit: texts and numbers of everything.
            *("thresholdviolation", "notice", "storedlayoutanswer", "studysnapshot", "studysnapshotimage"),
        ),
        _NOTHING,
    ),
    **dict.fromkeys(("user", "throttle", "heartbeat", "price", "auditrecord"), _ALL),
}
# Columns that a limited reader reads where not all: the newest ids are in keys of caches.
_COLUMNS: Final[Mapping[str, str]] = {"auditrecord": "id"}
# Written by nobody who is limited, or only their own rows.
_WRITABLE: Final[Mapping[str, str]] = {"user": f"id = {_PERSON}"}
_POLICY: Final = "limited_reader"
_DIGEST: Final = sha256(repr((POLICIES, _COLUMNS, _WRITABLE, _OTHERS)).encode()).hexdigest()
_OTHER_TABLES: Final = ("django_session", "django_migrations", "django_content_type")


@dataclass(frozen=True, slots=True)
class ReaderLimit:
    """What a reader is limited to. person, token: whose own rows it sees; None: of nobody."""

    pools: tuple[str, ...]
    person: int | None = None
    token: int | None = None


_LIMIT: Final[ContextVar[ReaderLimit | None]] = ContextVar("limit", default=None)
_REQUEST: Final[ContextVar[ExitStack | None]] = ContextVar("limited_request", default=None)


def read_limit() -> ReaderLimit | None:
    """Return the limit of the current reader; None: everything."""
    return _LIMIT.get()


def make_limit(
    pools: Sequence[str], person: int | None = None, token: int | None = None
) -> ReaderLimit | None:
    """Return the limit to these pools; None without pools."""
    return ReaderLimit(tuple(sorted(pools)), person, token) if pools else None


@contextmanager
def limited(limit: ReaderLimit | None) -> Iterator[None]:
    """Limit what is read and written within, in one transaction; None: nothing changes."""
    if limit is None:
        yield
        return
    outer = read_limit()
    earlier = _LIMIT.set(limit)
    try:
        with transaction.atomic():
            _apply(limit)
            yield
            _end()
            if outer and not connection.needs_rollback:
                _apply(outer)
    finally:
        _LIMIT.reset(earlier)


@contextmanager
def unlimited() -> Iterator[None]:
    """Suspend the limit of the current reader, for writes to what only the server sees."""
    limit = _LIMIT.get()
    if limit is None:
        yield
        return
    earlier = _LIMIT.set(None)
    try:
        _end()
        yield
    finally:
        _LIMIT.reset(earlier)
        try:
            _apply(limit)
        except DatabaseError:
            # A statement failed: nothing more is read in this transaction.
            transaction.set_rollback(True)


@contextmanager
def limitable_request() -> Iterator[None]:
    """Allow `limit_reader` within, which lasts until the end."""
    with ExitStack() as stack:
        earlier = _REQUEST.set(stack)
        try:
            yield
        finally:
            _REQUEST.reset(earlier)


def limit_reader(pools: Sequence[str], *, person: int | None = None, token: int | None = None) -> None:
    """Limit the current request from now on, also if it was limited otherwise; no pools: to nothing."""
    stack = _REQUEST.get()
    if not pools and (stack is None or read_limit() is None):
        return
    if stack is None:
        raise RuntimeError("a reader is limited outside of a request")
    stack.enter_context(limited(make_limit(pools, person, token)) if pools else unlimited())


def limit_person(person: User | None) -> None:
    """Limit the current request to the pools of a person; None: nothing changes."""
    if person is not None:
        limit_reader(person.pools, person=person.pk)


def limit_token(token: ApiToken) -> None:
    """Limit the current request to the pools of a token."""
    limit_reader(token.pools, token=token.pk)


def find_obstacle() -> str:
    """Return why nobody can be limited, with the remedy; "" if that is possible."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT session_user, (SELECT pg_has_role(session_user, oid, 'MEMBER')"
            " AND has_table_privilege(oid, 'benchapp_host', 'SELECT') FROM pg_roles"
            " WHERE rolname = session_user || '_limited')"
        )
        user, is_member = cursor.fetchone()
    role = f"{user}_limited"
    if is_member:
        return ""
    return (
        f"PostgreSQL has no role {role} for this: as a superuser, CREATE ROLE {role} NOLOGIN;"
        f" GRANT {role} TO {user}; then run manage.py migrate"
    )


def _apply(limit: ReaderLimit) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('benchapp.pools', %s::text[]::text, true), set_config('benchapp.person', %s, true),"
            " set_config('benchapp.token', %s, true), set_config('role', session_user || '_limited', true)",
            [list(limit.pools), str(limit.person or ""), str(limit.token or "")],
        )


def _end() -> None:
    """Return to the owner's role, for a caller whose transaction goes on."""
    if connection.needs_rollback:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('role', 'none', true)")
    except DatabaseError:
        # A statement failed: the transaction ends, and the role with it.
        transaction.set_rollback(True)


def install_policies(**_: Any) -> None:
    """Create the role, its policies and its grants, unless they are as they should be; after each `migrate`."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(to_regclass(name)) FROM unnest(%s::text[]) AS name",
            [[f"benchapp_{table}" for table in POLICIES]],
        )
        if cursor.fetchone()[0] < len(POLICIES):
            # Migrated to an earlier state.
            return
        cursor.execute(
            "SELECT session_user || '_limited', count(*), max(obj_description(oid, 'pg_policy')) FROM pg_policy"
            " WHERE starts_with(polname, %s)",
            [_POLICY],
        )
        role, count, installed = cursor.fetchone()
        if (count, installed) != (len(_CLAUSES) * len(POLICIES), _DIGEST):
            for table, rows in POLICIES.items():
                _install_policy(cursor, f"benchapp_{table}", rows, _WRITABLE.get(table, rows))
            cursor.execute(
                sql.SQL("COMMENT ON POLICY {} ON benchapp_host IS {}")
                .format(sql.Identifier(f"{_POLICY}_reads"), sql.Literal(_DIGEST))
                .as_string(None)
            )
        _grant(cursor, role)


def drop_policies(*, plan: Sequence[Any], **_: Any) -> None:
    """Drop the policies before migrations, as they keep columns from being changed; limited readers see nothing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT polrelid::regclass::text, polname FROM pg_policy WHERE starts_with(polname, %s)",
            [_POLICY],
        )
        for table, policy in cursor.fetchall() if plan else ():
            statement = sql.SQL("DROP POLICY {} ON {}").format(sql.Identifier(policy), sql.Identifier(table))
            cursor.execute(statement.as_string(None))


_CLAUSES: Final[Mapping[str, str]] = {
    "reads": "FOR SELECT USING ({rows})",
    "inserts": "FOR INSERT WITH CHECK ({written})",
    "updates": "FOR UPDATE USING ({written})",
    "deletes": "FOR DELETE USING ({written})",
}


def _install_policy(cursor: Any, table: str, rows: str, written: str) -> None:
    names = {"table": sql.Identifier(table)}
    cursor.execute(sql.SQL("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY").format(**names).as_string(None))
    for what, clause in _CLAUSES.items():
        names["policy"] = sql.Identifier(f"{_POLICY}_{what}")
        statement = "DROP POLICY IF EXISTS {policy} ON {table}; CREATE POLICY {policy} ON {table} " + clause
        parts = {"rows": sql.SQL(f"{_OTHERS} OR {rows}"), "written": sql.SQL(f"{_OTHERS} OR {written}")}
        cursor.execute(sql.SQL(statement).format(**names, **parts).as_string(None))


def _grant(cursor: Any, role: str) -> None:
    """Create the role and grant it the tables. Without the right to create roles, see `find_obstacle`."""
    name = sql.Identifier(role)
    cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
    if cursor.fetchone() is None:
        cursor.execute(
            "SELECT rolsuper OR rolcreaterole, rolsuper FROM pg_roles WHERE rolname = session_user"
        )
        may_create, is_superuser = cursor.fetchone()
        if not may_create:
            return
        cursor.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name).as_string(None))
        if not is_superuser:
            cursor.execute(sql.SQL("GRANT {} TO session_user").format(name).as_string(None))
    for table in (*(f"benchapp_{table}" for table in POLICIES), *_OTHER_TABLES):
        columns = _COLUMNS.get(table.removeprefix("benchapp_"))
        read = f"SELECT ({columns})" if columns else "SELECT"
        cursor.execute(
            sql.SQL(f"GRANT {read}, INSERT, UPDATE, DELETE ON {{}} TO {{}}")
            .format(sql.Identifier(table), name)
            .as_string(None)
        )
    cursor.execute("SELECT current_schema()")
    (schema,) = cursor.fetchone()
    for what in ("USAGE ON SCHEMA {}", "USAGE ON ALL SEQUENCES IN SCHEMA {}"):
        grant = sql.SQL("GRANT " + what + " TO {}").format(sql.Identifier(schema), name)
        cursor.execute(grant.as_string(None))
