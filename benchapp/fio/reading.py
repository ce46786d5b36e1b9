"""The result of reading one format from a text with any other content."""

from msgspec import Struct

from benchapp.fio.report import Document


class FoundReport(Struct, frozen=True, gc=False):
    """One parsed report; at: its offset in the text that the reader received, in characters."""

    at: int
    document: Document


class Reading(Struct, frozen=True, gc=False):
    """The reports that a reader found and the other lines, both in order."""

    found: tuple[FoundReport, ...]
    rest: str
