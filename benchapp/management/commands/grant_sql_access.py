"""`manage.py grant_sql_access ROLE`: let a role of PostgreSQL read the views, and nothing else."""

import getpass
import sys
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, ProgrammingError, connection, transaction
from psycopg import sql

from benchapp.framework.write.audit import record_write, write_from_command
from benchapp.management.progress import add_data_directory, use_database
from benchapp.models import AuditKind
from benchapp.sql_views import list_views

_NEEDS_ADMINISTRATOR: Final = (
    "the role {role} does not exist, and this account of PostgreSQL may not create roles. As an administrator run:"
    " CREATE ROLE {role} LOGIN PASSWORD '…' CONNECTION LIMIT 10; then run this command again"
)
# What the role could do beyond the views.
_FORBIDDEN: Final = (
    (
        "SELECT 'it is a superuser or may create roles, databases or replicas' FROM pg_roles WHERE rolname = %s"
        " AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)"
    ),
    (
        "SELECT format('it is a member of %%s', parent.rolname) FROM pg_auth_members JOIN pg_roles AS member"
        " ON member.oid = pg_auth_members.member JOIN pg_roles AS parent ON parent.oid = pg_auth_members.roleid"
        " WHERE member.rolname = %s"
    ),
    (
        "SELECT format('it may use %%s', relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relname ~ '^(benchapp|django|auth)_' AND relkind IN ('r', 'p', 'v', 'm', 'f')"
        " AND NOT (relkind = 'v' AND starts_with(relname, 'benchapp_v_'))"
        " AND (has_table_privilege(%s, oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')"
        "  OR has_any_column_privilege(%s, oid, 'SELECT, INSERT, UPDATE, REFERENCES'))"
    ),
    (
        "SELECT format('it may write %%s', relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind = 'v' AND has_table_privilege(%s, oid, 'INSERT, UPDATE, DELETE, TRUNCATE')"
    ),
    (
        "SELECT 'it may create tables in the schema: REVOKE CREATE ON SCHEMA ' || current_schema() || ' FROM PUBLIC'"
        " WHERE has_schema_privilege(%s, current_schema(), 'CREATE')"
    ),
)

# Without the right to grant them PostgreSQL only warns.
_REQUIRED: Final = (
    "SELECT 'connect to the database' WHERE NOT has_database_privilege(%s, current_database(), 'CONNECT')",
    "SELECT 'use the schema' WHERE NOT has_schema_privilege(%s, current_schema(), 'USAGE')",
    (
        "SELECT format('read %%s', relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind = 'v' AND starts_with(relname, 'benchapp_v_') AND NOT has_table_privilege(%s, oid, 'SELECT')"
    ),
)


class Command(BaseCommand):
    """Create or update the role in one transaction, and check what it can do."""

    help = (
        "Let a role of PostgreSQL read the views benchapp_v_* and nothing else; creates it if possible. Repeat it after"
        " a restore."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add = parser.add_argument
        add("role", metavar="ROLE", help="name of the role")
        add(
            "--password-file",
            type=Path,
            metavar="FILE",
            help="set the password in the first line of FILE; - is standard input (default for a new role: ask)",
        )
        add_data_directory(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Grant, check, print the views."""
        try:
            password = _read_password(options["password_file"])
            with use_database(options["data_dir"]):
                views = _grant(options["role"], password)
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['role']} can read {', '.join(views)}")


def _grant(role: str, password: str | None) -> list[str]:
    try:
        with write_from_command("grant_sql_access"):
            return grant_access(role, password=password)
    except Error as error:
        # Further lines can quote the statement.
        raise CommandError(
            f"PostgreSQL reports: {str(error).splitlines()[0]}; nothing was changed"
        ) from error


def grant_access(role: str, *, password: str | None = None) -> list[str]:
    """Let a role read the views, and return their names; password: a new one, None keeps it.

    Raises CommandError, and changes nothing, if the role cannot be created or could do more.
    """
    name, views = sql.Identifier(role), list_views()
    with transaction.atomic(), connection.cursor() as cursor:
        if not _ask(cursor, "SELECT rolname FROM pg_roles WHERE rolname = %s", role):
            _create_role(role, password or _ask_password())
        elif password is not None:
            _run(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, sql.Literal(_encrypt(role, password))))
        database, schema = (
            sql.Identifier(_ask(cursor, f"SELECT {function}"))
            for function in ("current_database()", "current_schema()")
        )
        _run(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(schema, name))
        _run(sql.SQL("REVOKE ALL ON ALL SEQUENCES IN SCHEMA {} FROM {}").format(schema, name))
        _run(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))
        _run(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, name))
        listed = sql.SQL(", ").join(map(sql.Identifier, views))
        _run(sql.SQL("GRANT SELECT ON {} TO {}").format(listed, name))
        for query in _FORBIDDEN:
            if found := _ask(cursor, query, *[role] * query.replace("%%s", "").count("%s")):
                raise CommandError(
                    f"the role {role} would not be limited to the views: {found}; nothing was changed"
                )
        for query in _REQUIRED:
            if found := _ask(cursor, query, role):
                raise CommandError(
                    f"this account of PostgreSQL may not let the role {role} {found}: run the command as the owner of"
                    " the database; nothing was changed"
                )
        record_write(AuditKind.SQL_ROLE, "granted", object_id=role, after={"views": views})
    return views


def _create_role(role: str, password: str) -> None:
    name = sql.Identifier(role)
    try:
        with transaction.atomic():
            _run(
                sql.SQL("CREATE ROLE {} LOGIN NOINHERIT CONNECTION LIMIT 10 PASSWORD {}").format(
                    name, sql.Literal(_encrypt(role, password))
                )
            )
    except ProgrammingError as error:
        raise CommandError(_NEEDS_ADMINISTRATOR.format(role=role)) from error
    # Defaults, which a session can change: the privileges are the limit.
    _run(sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on").format(name))
    _run(sql.SQL("ALTER ROLE {} SET statement_timeout = '60s'").format(name))


def _encrypt(role: str, password: str) -> str:
    """Return the digest (SCRAM) of a password, so that neither statements nor logs contain it."""
    connection.ensure_connection()
    digest = connection.connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return str(digest.decode())


def _read_password(file: Path | None) -> str | None:
    if file is None:
        return None
    text = sys.stdin.readline() if str(file) == "-" else file.read_text(encoding="utf-8")
    password = text.split("\n")[0]
    if not password:
        raise CommandError(f"{file} is empty; the first line must have the password")
    return password


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise CommandError("the role does not exist: give its password with --password-file")
    return getpass.getpass("Password of the new role: ")


def _run(statement: sql.Composable) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(None))


def _ask(cursor: Any, query: str, *values: str) -> str:
    """Return the first value of a query, "" without rows."""
    cursor.execute(query, values or None)
    row = cursor.fetchone()
    return "" if row is None else str(row[0])
