"""Classify a timed shell command: whether it writes or reads files, and how many."""

import re
from typing import Final, Literal

Kind = Literal["write", "read"]

# The word where a command begins: behind a prompt, a path or a bracket.
_TIME: Final = re.compile(r"(?:^|[\s/$#%>;(&|])time\s{1,20}(?:-p\s{1,20})?(?=\S)", re.ASCII)
_LOOP: Final = re.compile(r"\b(?:for|while|until)\b", re.ASCII)
_DONE: Final = re.compile(r"\bdone\b", re.ASCII)
# To a file, not to a descriptor (2>&1), nor nowhere.
_INTO_FILE: Final = re.compile(r"""(?<![0-9&>=-])>{1,2}\|?\s{0,20}(?!/dev/null\b)["'\w$./~{]""", re.ASCII)
_FROM_FILE: Final = re.compile(r"""(?<!<)<\s{0,20}(?!/dev/(?:zero|u?random|null)\b)["'\w$./~{]""", re.ASCII)
# A loop, a program that goes through many files, or names with a wildcard.
_MANY: Final = re.compile(
    r"\b(?:for|while|until|xargs|find|parallel|seq)\b|[*?{]|\$\(|\bsh\s|\.sh\b", re.ASCII
)
_WRITER: Final = re.compile(r"\b(?:touch|tee|truncate|fallocate)\s", re.ASCII)
_READER: Final = re.compile(r"\b(?:cat|head|tail|wc|md5sum|sha\d{1,3}sum|cksum|grep)\s", re.ASCII)
_DD_OUTPUT: Final = re.compile(r"\bof=(?!/dev/null\b)\S", re.ASCII)
_DD_INPUT: Final = re.compile(r"\bif=(?!/dev/(?:zero|u?random)\b)\S", re.ASCII)
_DD: Final = re.compile(r"(?:^|[\s/(;&|])dd\s", re.ASCII)
_FIO: Final = re.compile(r"(?:^|[\s/(;&|])fio\s", re.ASCII)

_BRACES: Final = re.compile(r"\{(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?\}", re.ASCII)
_SEQ: Final = re.compile(
    r"\bseq\s{1,20}(?:-w\s{1,20})?(-?\d{1,9})(?:\s{1,20}(-?\d{1,9}))?(?:\s{1,20}(-?\d{1,9}))?", re.ASCII
)
_COUNTED: Final = re.compile(
    r"\(\(\s{0,9}(\w{1,40})\s{0,9}=\s{0,9}(\d{1,9})\s{0,9};\s{0,9}\1\s{0,9}(<=?)\s{0,9}(\d{1,9})\s{0,9};"
    r"\s{0,9}(?:\1\+\+|\+\+\1)\s{0,9}\)\)",
    re.ASCII,
)


def find_command(line: str) -> str:
    """Return the command after `time` in a line of a terminal; empty if nothing is timed."""
    match = _TIME.search(line)
    return line[match.end() :].strip() if match else ""


def is_unfinished(command: str) -> bool:
    """Return whether a command continues in the next line: an unfinished loop, or a backslash."""
    return command.endswith("\\") or bool(_LOOP.search(command) and not _DONE.search(command))


def is_fio(command: str) -> bool:
    """Return whether fio itself was timed, which reports more than its time."""
    return _FIO.search(command) is not None


def is_dd(command: str) -> bool:
    """Return whether dd was timed, which reads and writes one file."""
    return _DD.search(command) is not None


def find_kind(command: str) -> Kind | None:
    """Return whether a command writes or reads many files; None if neither, for one file, or for fio.

    What goes into a file is written, even if it was read from another.
    """
    if is_fio(command) or not _MANY.search(command):
        return None
    if _DD_OUTPUT.search(command) or _INTO_FILE.search(command) or _WRITER.search(command):
        return "write"
    if _DD_INPUT.search(command) or _FROM_FILE.search(command) or _READER.search(command):
        return "read"
    return None


def count_files(command: str) -> int | None:
    """Return the number of files of a loop, both ends included: {0..1000} is 1001. None if it is not visible."""
    braces = _BRACES.search(command)
    if braces:
        first, last, step = braces.groups()
        return _count(int(first), int(last), int(step or 1))
    sequence = _SEQ.search(command)
    if sequence:
        numbers = [int(number) for number in sequence.groups() if number]
        first_number = numbers[0] if len(numbers) > 1 else 1
        return _count(first_number, numbers[-1], numbers[1] if len(numbers) > 2 else 1)
    counted = _COUNTED.search(command)
    if counted:
        _, first, comparison, last = counted.groups()
        return max(int(last) - int(first) + (comparison == "<="), 0)
    return None


def _count(first: int, last: int, step: int) -> int:
    return abs(last - first) // (abs(step) or 1) + 1
