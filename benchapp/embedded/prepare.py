"""The part of `up` that needs Django, in a process that ends: tables, token, set-up link, the sample where wanted.

python -m benchapp.embedded.prepare
    reads {"host": …, "token": …, "is_sample_wanted": …} on stdin, answers in JSON on stdout
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

    from benchapp.pipeline.access.accounts import create_setup_link

    answer = {
        "token": _find_token(asked["host"], asked["token"]),
        "setup": create_setup_link(),
        "sample": _load_sample() if asked["is_sample_wanted"] else "",
    }
    print(json.dumps(answer))


def _load_sample() -> str:
    """Load what is not there yet of the sample; say in a few words what is there now."""
    from benchapp.pipeline.importing.sample import load_sample

    loaded = load_sample()
    new = loaded.imported.measurements
    return f"{len(loaded.studies)} studies; {f'{new} numbers are new' if new else 'nothing is new'}"


def _find_token(host: str, known: str | None) -> str:
    from benchapp.pipeline.access.tokens import TokenRefused, read_token
    from benchapp.pipeline.hosts import issue_host_token

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
