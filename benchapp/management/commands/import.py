"""`manage.py import`: import files with fio output."""  # noqa: N999 — the command's name

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final, TextIO, cast

from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.framework.queue import wake_up
from benchapp.intake.importing.checking import (
    BadFileParameters,
    FileParameters,
    ImportOptions,
    read_name_pattern,
)
from benchapp.intake.importing.discovery import Folder, find_folders, unpack_archives
from benchapp.intake.importing.files import (
    FileGroup,
    ImportSummary,
    UnknownHost,
    find_host,
    import_files,
)
from benchapp.intake.posts.envelope import BadParameter, read_parameters
from benchapp.intake.posts.metadata import BadLayout
from benchapp.judge import detect_and_notify
from benchapp.management.progress import Progress, add_data_directory, use_database
from benchapp.series.pages.run_tables import BADGES
from benchapp.series.validity.rules import SEVERAL_TARGETS
from benchapp.storage.write.hosts import EnrollmentRefused

_BY_FILE: Final = "mtime"
_DETAIL_LENGTH: Final = 200
_INTERRUPTED: Final = 130


class Command(BaseCommand):
    """Import files with a progress display, and print a summary."""

    # Without the checks of URLs, whose import takes longer than that of a thousand files.
    requires_system_checks = (Tags.security, Tags.database)
    help = "Import fio output from files and folders; existing results stay unchanged."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add = parser.add_argument
        add(
            "places",
            nargs="+",
            metavar="FILE-OR-FOLDER",
            type=Path,
            help="output of fio in any format; also gzip, xz, bzip2, zstd, zip and tar",
        )
        add("--host", required=True, metavar="H", help="host of the results")
        add("--create-host", action="store_true", help="create the host if missing")
        pairs: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
        add("--target", metavar="KEY=VALUE", help="target fields: volume_type=gp3 volume_count=4 …", **pairs)
        add("--label", metavar="KEY=VALUE", help="labels: rack=r12 …", **pairs)
        add(
            "--pattern",
            default="",
            metavar="P",
            help="parameters in the names of files and folders: '{name}/{bs}/*'",
        )
        add("--profile", default="", metavar="P", help="profile name")
        add(
            "--started-at",
            default="",
            metavar="TIME",
            help=f"start time for outputs without one: 2026-11-21T10:00:00Z, or {_BY_FILE}"
            " for the modification time of the file",
        )
        add(
            "--time-zone",
            default="",
            metavar="ZONE",
            help="of the dates in text output: Europe/Berlin; UTC without it",
        )
        add("--no-wait", "--queue", action="store_true", help="leave processing to the workers")
        add_data_directory(parser)
        add("--quiet", action="store_true", help="print neither progress nor summary, as -v 0")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import; exit status 1 if anything was rejected, 130 after Ctrl-C."""
        is_quiet = options["quiet"] or options["verbosity"] == 0
        try:
            with use_database(options["data_dir"]):
                summary, is_stopped = self._import(options, is_quiet=is_quiet)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        if not is_quiet:
            self.stdout.write("\n".join(describe_summary(summary, is_stopped=is_stopped)))
        if is_stopped or summary.rejected:
            sys.exit(_INTERRUPTED if is_stopped else 1)

    def _import(self, options: Mapping[str, Any], *, is_quiet: bool) -> tuple[ImportSummary, bool]:
        with TemporaryDirectory(prefix="benchapp-import-") as unpacked:
            limit = settings.UNPACKED_LIMIT_BYTES
            folders = list(unpack_archives(_find(options["places"]), Path(unpacked), limit=limit))
            return self._import_folders(folders, options, is_quiet=is_quiet)

    def _import_folders(
        self, folders: Sequence[Folder], options: Mapping[str, Any], *, is_quiet: bool
    ) -> tuple[ImportSummary, bool]:
        import_options = _read_options(options)
        total = sum(len(folder.files) for folder in folders)
        progress = Progress(total, cast(TextIO, self.stderr._out), is_quiet)
        summary, asked = ImportSummary(), [False]
        with _stop_politely(asked):
            for summary in import_files(folders, import_options, should_stop=lambda: asked[0]):
                progress.show(summary.files)
        progress.close()
        if import_options.is_queued:
            wake_up()
        while not import_options.is_queued and detect_and_notify().series_ids:
            continue
        return summary, asked[0]


def describe_summary(summary: ImportSummary, *, is_stopped: bool = False) -> list[str]:
    """Return the lines of the summary."""
    lines = ["stopped; so far:"] if is_stopped else []
    lines.append(f"stored: {_format_count(summary.stored, 'file')} ({_format_count(summary.runs, 'run')})")
    lines.append(f"already stored: {_format_count(summary.already_there, 'file')}")
    if summary.waiting:
        lines.append(f"accepted, waiting for a worker: {_format_count(summary.waiting, 'file')}")
    if summary.attached_logs:
        lines.append(f"logs attached to their outputs: {summary.attached_logs}")
    lines += _describe_groups("rejected", summary.rejected)
    lines += _describe_groups("not fio output", summary.foreign)
    if summary.mixed:
        lines += _describe_groups("stored, but several targets share a value or a series", summary.mixed)
        lines.append(f"  {BADGES[SEVERAL_TARGETS].advice}")
    if summary.unmatched_logs:
        lines += _describe_groups("logs without an output", summary.unmatched_logs)
    return lines


def _describe_groups(title: str, groups: Mapping[str, FileGroup]) -> Iterator[str]:
    yield f"{title}: {_format_count(sum(group.count for group in groups.values()), 'file')}"
    for code, group in sorted(groups.items(), key=lambda item: -item[1].count):
        yield f"  {code}: {_format_count(group.count, 'file')}"
        for name, detail in group.first:
            yield f"    {_printable(name)}: {_printable(detail[:_DETAIL_LENGTH])}"
        if more := group.count - len(group.first):
            yield f"    … and {more} more"


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _printable(text: str) -> str:
    """Return the text without control characters."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _find(places: list[Path]) -> list[Folder]:
    try:
        return find_folders(places)
    except OSError as error:
        raise CommandError(str(error)) from error


def _read_options(options: Mapping[str, Any]) -> ImportOptions:
    started_at = options["started_at"]
    pairs = [_split(text, "--target") for text in options["target"]]
    pairs += [
        (f"label.{name}", value) for name, value in (_split(text, "--label") for text in options["label"])
    ]
    pairs += [("profile", options["profile"])] if options["profile"] else []
    pairs += [("time_zone", options["time_zone"])] if options["time_zone"] else []
    pairs += [("started_at", started_at)] if started_at and started_at != _BY_FILE else []
    try:
        read_parameters(pairs)
        pattern = read_name_pattern(options["pattern"])
        host = find_host(options["host"], may_create=options["create_host"])
    except BadLayout as error:
        raise CommandError(f"{error.pointer.lstrip('/')}: {error}") from error
    except (BadParameter, BadFileParameters, UnknownHost, EnrollmentRefused) as error:
        raise CommandError(str(error)) from error
    return ImportOptions(
        host.pk,
        FileParameters(dict(pairs), pattern),
        dates_by_file=started_at == _BY_FILE,
        is_queued=options["no_wait"],
    )


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{option} {text!r} is not KEY=VALUE; files and folders must precede options")
    return name.strip(), value.strip()


@contextmanager
def _stop_politely(asked: list[bool]) -> Iterator[None]:
    """The first Ctrl-C stops after the current batch; the second interrupts."""

    def note(number: int, frame: FrameType | None) -> None:
        asked[0] = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
