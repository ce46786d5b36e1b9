"""Allow mail to an address whose holder refused it: `manage.py allow_email_address anna@example.org`."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.pipeline.notifications.email_confirmation import allow_address


class Command(BaseCommand):
    """For holders who changed their minds: the link in the mail works once."""

    help = "Allow confirmation mails to an address whose holder chose “Never write to this address again”."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the address."""
        parser.add_argument("address")

    def handle(self, *args: Any, **options: Any) -> None:
        """Allow it, or say that it was not refused."""
        if not allow_address(options["address"]):
            raise CommandError(f"{options['address']} was not refused")
        self.stdout.write(f"{options['address']} can be confirmed again")
