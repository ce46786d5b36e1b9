"""Allow e-mail to an address whose owner blocked it: `manage.py allow_email_address anna@example.org`."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.framework.write.audit import write_from_command
from benchapp.notices.write.email_confirmation import allow_address


class Command(BaseCommand):
    """Reverts “Never write to this address again”."""

    help = "Allow confirmation mails to an address whose holder chose “Never write to this address again”."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the argument."""
        parser.add_argument("address")

    def handle(self, *args: Any, **options: Any) -> None:
        """Allow the address; CommandError if it is not blocked."""
        with write_from_command("allow_email_address"):
            is_allowed = allow_address(options["address"])
        if not is_allowed:
            raise CommandError(f"{options['address']} is not blocked")
        self.stdout.write(f"{options['address']} can be confirmed again")
