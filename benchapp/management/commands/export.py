"""`manage.py export`: write the history to an archive, or to SQLite or Parquet for analysis."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TextIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter
from benchapp.framework.read.days import parse_moment
from benchapp.management.progress import Progress, add_data_directory, use_database
from benchapp.operation.archive.export import (
    ParquetUnavailable,
    export_archive,
    export_parquet,
    export_sqlite,
)
from benchapp.operation.archive.tables import ExportSelection

_WRITERS: Final = {".tar.zst": export_archive, ".sqlite": export_sqlite, ".parquet": export_parquet}


class Command(BaseCommand):
    """Write a file with a progress display, and print what it contains."""

    help = (
        "Export the history with raw results, triage, exclusions and studies. FILE.tar.zst can be imported with"
        " import_archive; FILE.sqlite and DIR.parquet are for analysis. Not exported: accounts, tokens, subscriptions."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add = parser.add_argument
        add("file", type=Path, metavar="FILE", help=f"its name ends in {', '.join(_WRITERS)}")
        add(
            "--filter",
            default="",
            metavar="FILTER",
            help="only matching runs, as in the filter bar: host:db-* bs:4k",
        )
        add(
            "--from",
            metavar="TIME",
            help="only runs that started at this time or later: 2026-11-21, now-30d",
        )
        add("--to", metavar="TIME", help="only runs that started before this time")
        add_data_directory(parser)
        add("--quiet", action="store_true", help="print neither progress nor summary, as -v 0")

    def handle(self, *args: Any, **options: Any) -> None:
        """Export; an existing file is replaced once the new one is complete."""
        path: Path = options["file"].absolute()
        write = next((write for suffix, write in _WRITERS.items() if path.name.endswith(suffix)), None)
        if write is None:
            raise CommandError(f"{path.name}: the name must end in {', '.join(_WRITERS)}")
        is_quiet = options["quiet"] or options["verbosity"] == 0
        progress = Progress(0, cast(TextIO, self.stderr._out), is_quiet, unit="rows")
        try:
            selection = _read_selection(options)
            with use_database(options["data_dir"]):
                rows = write(path, selection, show=progress.show_of)
        except (BadFilter, ParquetUnavailable, OSError) as error:
            raise CommandError(str(error)) from error
        except sqlite3.Error as error:
            raise CommandError(f"{path.name} cannot be written: {error}") from error
        finally:
            progress.close()
        if not is_quiet:
            self.stdout.write("\n".join(describe_rows(path, rows)))


def describe_rows(path: Path, rows: Mapping[str, int]) -> list[str]:
    """Return the lines of the summary; rows: by table."""
    size = path.stat().st_size if path.is_file() else sum(part.stat().st_size for part in path.iterdir())
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in rows.items() if count)
    return [f"{path} ({size / 1e6:.1f} MB): {counts or 'no rows'}"]


def _read_selection(options: Mapping[str, Any]) -> ExportSelection:
    try:
        from_at, to_at = (
            parse_moment(options[name], now=timezone.now()) if options[name] else None
            for name in ("from", "to")
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    if from_at is not None and to_at is not None and from_at >= to_at:
        raise CommandError("--to is not after --from")
    return ExportSelection(options["filter"], from_at, to_at)
