"""Collect warnings while reading; the number is limited, so that a hostile text cannot create millions."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from benchapp.catalog.metrics import cut_text
from benchapp.fio.report import Note

# More than a person reads; the raw text is stored anyway.
NOTES_MAXIMUM: Final = 100
# A warning may quote names that the text chose.
_LENGTH_MAXIMUM: Final = 500
_LISTED_MAXIMUM: Final = 20
# Of a server that cannot be reached, or that went away.
_MISSING_CLIENT: Final = re.compile(
    r"fio: (?:failed to connect to ([^\s,]{1,255})|client ([^\s,]{1,255}) timed out)"
)


class Notes:
    """The warnings of one text, in the order in which they were found, each one once."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}
        self._left_out = 0

    def add(self, code: str, where: str, message: str) -> None:
        """Add a warning, or count it above the limit."""
        note = Note(code, cut_text(where, _LENGTH_MAXIMUM), cut_text(message, _LENGTH_MAXIMUM))
        if len(self._notes) < NOTES_MAXIMUM:
            self._notes[note] = None
        elif note not in self._notes:
            self._left_out += 1

    def add_snapshots(self, numbers: Sequence[int], *, kind: str = "reports", place: str = "") -> None:
        """Add a warning that reports of these numbers are snapshots; none for no number."""
        if numbers:
            listed = ", ".join(map(str, numbers[:_LISTED_MAXIMUM]))
            more = ", …" if len(numbers) > _LISTED_MAXIMUM else ""
            message = f"{len(numbers)} {kind} ({place}{listed}{more}) are snapshots of an execution and were skipped"
            self.add("cumulative-snapshots", "", f"{message}; its last complete report was read")

    def add_missing_clients(self, hosts: Iterable[str], where: str = "") -> None:
        """Add a warning for each fio server without results."""
        for host in dict.fromkeys(hosts):
            self.add("client-missing", where, f"the report has no results of the client {host}")

    def add_all(self, others: "Notes") -> None:
        """Add the warnings of a part of the text."""
        for note in others._notes:
            self.add(note.code, note.where, note.message)
        self._left_out += others._left_out

    def list_all(self) -> tuple[Note, ...]:
        """Return the warnings; above the limit the last one gives the number of those omitted."""
        notes = tuple(self._notes)
        if not self._left_out:
            return notes
        return (*notes, Note("more-warnings", "", f"{self._left_out} more warnings were omitted"))


def list_missing_clients(messages: str) -> list[str]:
    """Return the fio servers that fio complains about, by its messages."""
    return [match[1] or match[2] for match in _MISSING_CLIENT.finditer(messages)]
