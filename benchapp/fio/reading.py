"""What a reader of one format found in a text that may hold anything."""

from msgspec import Struct

from benchapp.fio.report import Document


class FoundReport(Struct, frozen=True, gc=False):
    """One report as understood; at: where it begins, in characters of the text that the reader was given."""

    at: int
    document: Document


class Reading(Struct, frozen=True, gc=False):
    """What a reader found, in order, and the lines that are none of its own, in order."""

    found: tuple[FoundReport, ...]
    rest: str
