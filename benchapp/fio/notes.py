"""Collect warnings while reading, bounded, so that a hostile text cannot make millions of them."""

from typing import Final

from benchapp.fio.report import Note

# More than a person reads; the raw text is kept anyway.
NOTES_MAXIMUM: Final = 100


class Notes:
    """The warnings of one text, in the order in which they came up; the same one is kept once."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}
        self._left_out = 0

    def add(self, code: str, where: str, message: str) -> None:
        """Keep a warning, or count it where there are too many."""
        note = Note(code, where, message)
        if len(self._notes) < NOTES_MAXIMUM:
            self._notes[note] = None
        elif note not in self._notes:
            self._left_out += 1

    def add_all(self, others: "Notes") -> None:
        """Keep the warnings of a part of the text."""
        for note in others._notes:
            self.add(note.code, note.where, note.message)
        self._left_out += others._left_out

    def list_all(self) -> tuple[Note, ...]:
        """Return what was kept; the last one says how many were left out."""
        notes = tuple(self._notes)
        if not self._left_out:
            return notes
        return (*notes, Note("more-warnings", "", f"{self._left_out} more warnings were left out"))
