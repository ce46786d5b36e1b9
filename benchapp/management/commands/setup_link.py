"""Print the one-time link that makes the first admin: `manage.py setup_link`."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from benchapp.pipeline.access.accounts import create_setup_link


class Command(BaseCommand):
    """For servers that `up` does not start; `up` prints the link by itself."""

    help = "Print a link that makes the first admin; it works once, for 24 hours, and replaces earlier ones."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print it, or say that there is an admin already."""
        secret = create_setup_link()
        if secret is None:
            raise CommandError("there is an admin already, who invites others on the page People")
        self.stdout.write(
            f"{settings.PUBLIC_URL or 'http://127.0.0.1:8000'}{reverse('setup', args=[secret])}"
        )
