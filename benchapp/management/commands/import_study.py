"""`manage.py import_study`: import published results from a CSV file."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.intake.importing.files import UnknownHost, find_host
from benchapp.intake.importing.published import Imported, import_published
from benchapp.intake.importing.published_csv import FAULTS_MAXIMUM, BadTable, list_columns, read_table
from benchapp.intake.posts.envelope import BadEnvelope
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.published_document import Publication, read_source_url
from benchapp.management.progress import add_data_directory, use_database
from benchapp.storage.write.hosts import EnrollmentRefused

_BYTES_MAXIMUM: Final = 32 * 2**20
_NAME_LENGTH: Final = 200
_NAMED: Final = 20


class Command(BaseCommand):
    """Read the whole file first; store all rows or none."""

    help = "Import published results without fio output from a CSV file; repeating it changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add = parser.add_argument
        add(
            "file", metavar="FILE.csv", type=Path, help="UTF-8, commas; columns: " + ", ".join(list_columns())
        )
        add(
            "--host",
            metavar="NAME",
            help="host of the results; created if missing (default: the file's name)",
        )
        add("--title", metavar="TEXT", help="title of the publication (default: the file's name)")
        add("--url", metavar="ADDRESS", default="", help="URL of the publication: https://…")
        add("--author", metavar="NAME", default="", help="author of the publication")
        add("--note", metavar="TEXT", default="", help="note about the source")
        add("--date", metavar="DAY", help="date of measurement: 2013-04-01, or RFC 3339")
        add(
            "--set",
            metavar="COLUMN=VALUE",
            nargs="+",
            action="extend",
            default=[],
            help="values for empty cells: filesystem=xfs mount_options=noatime fio_version=fio-2.0.9",
        )
        add_data_directory(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Import; exit status 1 if anything was rejected; nothing is stored then."""
        file: Path = options["file"]
        runs = _read_runs(file, options)
        source = _read_source(options, name=file.stem)
        try:
            with use_database(options["data_dir"]):
                host = find_host(options["host"] or file.stem, may_create=True)
                imported = import_published(runs, source, host_id=host.pk)
        except (UnknownHost, EnrollmentRefused, BadEnvelope) as error:
            raise CommandError(str(error)) from error
        self.stdout.write("\n".join(describe_import(imported, host=host.name, title=source.title)))
        if imported.rejected:
            sys.exit(1)


def describe_import(imported: Imported, *, host: str, title: str) -> list[str]:
    """Return the lines of the summary."""
    measured = f"{_format_count(imported.measurements, 'measurement')} of {imported.series} series"
    lines = [
        f"“{title}”, host {host}:",
        f"stored: {_format_count(imported.new, 'run')} ({measured})",
        f"already stored: {_format_count(imported.already_there, 'run')}",
    ]
    if imported.reworded:
        lines.append(
            f"already stored under another source, which stays unchanged: {_format_count(imported.reworded, 'run')}"
        )
    if imported.corrected.runs:
        lines.append(
            f"corrected: {_format_count(imported.corrected.runs, 'run')}, which are kept but excluded"
        )
    if imported.corrected.superseded:
        lines.append(
            f"already corrected by a newer import: {_format_count(imported.corrected.superseded, 'run')}"
        )
    if imported.corrected.overlapping:
        ids = ", ".join(map(str, imported.corrected.overlapping[:_NAMED]))
        more = " …" if len(imported.corrected.overlapping) > _NAMED else ""
        lines.append(f"not excluded by their correction, as they contain more measurements: runs {ids}{more}")
    lines += [f"rejected: {submission}: {reason}" for submission, reason in imported.rejected]
    return lines


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _read_runs(file: Path, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        if file.stat().st_size > _BYTES_MAXIMUM:
            raise CommandError(f"{file} is larger than {_BYTES_MAXIMUM // 2**20} MiB")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(str(error)) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is not valid UTF-8 at byte {error.start}; save it as UTF-8") from error
    defaults = dict(_split(part) for part in options["set"])
    if options["date"]:
        defaults["started_at"] = options["date"]
    try:
        return read_table(text, defaults)
    except BadTable as error:
        count = len(error.faults)
        more = "more than " if count >= FAULTS_MAXIMUM else ""
        head = f"{file}: {more}{_format_count(count, 'error')}; nothing was stored"
        raise CommandError("\n  ".join([head, *map(str, error.faults)])) from error


def _read_source(options: Mapping[str, Any], *, name: str) -> Publication:
    try:
        return Publication(
            title=(options["title"] or name)[:_NAME_LENGTH],
            url=read_source_url(options["url"], "url"),
            author=options["author"][:_NAME_LENGTH],
            note=options["note"][:2000],
        )
    except BadLayout as error:
        raise CommandError(f"--{error.pointer}: {error}") from error


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandError(f"--set {text!r} is not COLUMN=VALUE; the file must precede options")
    return name.strip(), value.strip()
