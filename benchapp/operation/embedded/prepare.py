"""The part of `up` that needs Django, in a short-lived process: migrations, token, setup link, sample.

python -m benchapp.operation.embedded.prepare
    reads {"host": …, "token": …, "is_sample_wanted": …} from stdin, writes JSON to stdout
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    """Prepare the database and print the result."""
    request: dict[str, Any] = json.load(sys.stdin)
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchapp.settings"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0, stdout=sys.stderr)

    from benchapp.accounts.write.accounts import create_setup_link
    from benchapp.framework.write.audit import write_from_command

    with write_from_command("up"):
        result = {
            "token": _find_token(request["host"], request["token"]),
            "setup": create_setup_link(),
            "sample": _load_sample() if request["is_sample_wanted"] else "",
        }
    print(json.dumps(result))


def _load_sample() -> str:
    """Load the missing part of the sample; return a summary."""
    from benchapp.intake.importing.sample import load_sample

    loaded = load_sample()
    new = loaded.imported.measurements
    return f"{len(loaded.studies)} studies; {f'{new} new measurements' if new else 'already loaded'}"


def _find_token(host: str, known: str | None) -> str:
    from benchapp.accounts.write.tokens import TokenRefused, read_token
    from benchapp.models import follow_name
    from benchapp.storage.write.hosts import issue_host_token

    if known:
        try:
            read_token(known)
            return known
        except TokenRefused as refused:
            # Revoked, or another database: the user who starts the stack may create a token for this machine.
            print(f"replacing this machine's token: {refused}", file=sys.stderr)
    return issue_host_token(follow_name("host", host.lower()), label="created by up")


if __name__ == "__main__":
    main()
