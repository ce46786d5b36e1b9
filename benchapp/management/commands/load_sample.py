"""`manage.py load_sample`: the published EBS series, and a study for each of its parts."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from benchapp.intake.importing.files import UnknownHost
from benchapp.intake.importing.sample import SOURCE, Loaded, load_sample
from benchapp.management.commands.import_study import describe_import
from benchapp.management.progress import add_data_directory, use_database
from benchapp.models import SAMPLE_HOST


class Command(BaseCommand):
    """Load the missing part of the sample."""

    help = "Load the sample: 154 published results of EBS volumes (2013) and eight studies."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add_data_directory(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Load the sample and print a summary."""
        try:
            with use_database(options["data_dir"]):
                loaded = load_sample()
        except UnknownHost as error:
            raise CommandError(str(error)) from error
        self.stdout.write("\n".join(describe_sample(loaded)))
        if loaded.imported.rejected:
            sys.exit(1)


def describe_sample(loaded: Loaded) -> list[str]:
    """Return the lines of the summary."""
    return [
        *describe_import(loaded.imported, host=SAMPLE_HOST, title=SOURCE.title),
        f"studies: {len(loaded.studies)}, {loaded.new_studies} new; see {reverse('studies')}",
    ]
