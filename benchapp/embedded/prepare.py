"""The part of `up` that needs Django, in a process that ends: tables, this machine's token, the set-up link.

python -m benchapp.embedded.prepare      reads {"host": …, "token": …} on stdin, answers in JSON on stdout
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    """Prepare the database and answer."""
    asked: dict[str, Any] = json.load(sys.stdin)
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchapp.settings"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0, stdout=sys.stderr)

    from benchapp.pipeline.accounts import create_setup_link

    print(json.dumps({"token": _find_token(asked["host"], asked["token"]), "setup": create_setup_link()}))


def _find_token(host: str, known: str | None) -> str:
    from benchapp.pipeline.enroll import issue_host_token
    from benchapp.pipeline.tokens import TokenRefused, read_token

    if known:
        try:
            read_token(known)
            return known
        except TokenRefused as refused:
            # Revoked, or the database is another one now: whoever starts the stack may speak for its machine.
            print(f"this machine's token is replaced: {refused}", file=sys.stderr)
    return issue_host_token(host, label="made by up")


if __name__ == "__main__":
    main()
