"""Print the one-time link to create the first admin: `manage.py setup_link`."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from benchapp.accounts.write.accounts import create_setup_link
from benchapp.framework.write.audit import write_from_command


class Command(BaseCommand):
    """For servers not started by `up`, which prints the link automatically."""

    help = "Print a one-time link to create the first admin; valid for 24 hours, replaces earlier links."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the link; CommandError if an admin exists."""
        with write_from_command("setup_link"):
            secret = create_setup_link()
        if secret is None:
            raise CommandError("an admin account already exists; admins invite others on the People page")
        self.stdout.write(
            f"{settings.PUBLIC_URL or 'http://127.0.0.1:8000'}{reverse('setup', args=[secret])}"
        )
