#!/usr/bin/env python3
"""Django's command line for benchapp."""

import os
import sys


def main() -> None:
    """Run the command that the arguments name."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
    # Also where the environment is that of a web process (`docker compose exec web`): its limits are not for commands.
    os.environ["BENCHAPP_ROLE"] = "command"
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
