"""`manage.py import_archive`: import what `manage.py export` wrote."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.framework.times import format_utc_moment
from benchapp.management.progress import Progress, add_data_directory, use_database
from benchapp.operation.archive.container import BadArchive, CheckedArchive, check_archive, list_authors
from benchapp.operation.archive.loading import LoadedArchive, StoredMeanwhile, load_archive

_NAMED = 20

_FAILED: Final = "nothing was imported, run the command again"


class Command(BaseCommand):
    """Check the whole file first; store everything that is new, or nothing."""

    help = (
        "Import an archive of export, FILE.tar.zst; existing rows stay unchanged, repeating it adds nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add = parser.add_argument
        add("file", type=Path, metavar="FILE.tar.zst")
        add("--check", action="store_true", help="compare the file with its checksums; import nothing")
        add_data_directory(parser)
        add("--quiet", action="store_true", help="print neither progress nor summary, as -v 0")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, or check."""
        is_quiet = options["quiet"] or options["verbosity"] == 0
        progress = Progress(0, cast(TextIO, self.stderr._out), is_quiet, unit="rows")
        try:
            with options["file"].open("rb") as file:
                if options["check"]:
                    lines = describe_check(check_archive(file), list_authors(file))
                else:
                    with use_database(options["data_dir"], failed=_FAILED):
                        lines = describe_loaded(load_archive(file, show=progress.show_of))
        except BadArchive as error:
            raise CommandError(f"{options['file']}: {error}; nothing was imported") from error
        except StoredMeanwhile as error:
            raise CommandError(
                f"a row of the archive was stored here meanwhile ({error}); nothing was imported, run the command again"
            ) from error
        except OSError as error:
            raise CommandError(str(error)) from error
        finally:
            progress.close()
        if not is_quiet:
            self.stdout.write("\n".join(lines))


def describe_check(checked: CheckedArchive, authors: Sequence[str]) -> Iterator[str]:
    """Yield the lines about an archive; authors: sign-in names."""
    written = checked.format
    yield (
        f"complete: format {written.format}, written by benchapp {written.product} (migration {written.migration})"
        f" at {format_utc_moment(written.created_at)}"
    )
    if written.filter or written.since_at or written.until_at:
        since, until = (format_utc_moment(at) if at else "…" for at in (written.since_at, written.until_at))
        yield f"selection: {written.filter or 'all runs'}, {since} to {until}"
    for name, count in checked.manifest.rows.items():
        if count:
            yield f"{name.replace('_', ' ')}: {_list_names(authors) if name == 'authors' else count}"


def describe_loaded(loaded: LoadedArchive) -> Iterator[str]:
    """Yield the lines of the summary."""
    for name, count in loaded.new.items():
        if count or loaded.present[name]:
            present = f", {loaded.present[name]} present" if loaded.present[name] else ""
            yield f"{name.replace('_', ' ')}: {count} new{present}"
    if loaded.evaluated:
        yield f"series evaluated again: {loaded.evaluated}"
    if names := loaded.unknown_authors:
        yield f"no account here, so their actions have no author: {_list_names(names)}"


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
