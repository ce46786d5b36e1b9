"""Read outputs of fio from the command line: python -m benchapp.fio FILE… (or standard input)."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.totals import add_totals

_USAGE = "usage: python -m benchapp.fio [FILE…]   (- or nothing: standard input)"


def main(names: Sequence[str]) -> int:
    """Print the report of each file as one line of JSON; return 1 if any could not be read."""
    if any(name in ("-h", "--help") for name in names):
        print(_USAGE)
        return 0
    failed = False
    for name in names or ["-"]:
        try:
            output = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            report = add_totals(read_output(output))
        except UnreadableOutput as error:
            seen = error.seen or "no format of fio"
            print(f"{name}: {seen}: {error.code}: {error.detail}", file=sys.stderr)
            failed = True
        except OSError as error:
            print(f"{name}: {error.strerror or error}", file=sys.stderr)
            failed = True
        else:
            line = msgspec.json.encode(report)
            sys.stdout.buffer.write(line + b"\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
