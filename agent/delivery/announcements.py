"""What a server announces in each of its answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Announcements:
    """What the answers to one command announced.

    shipped_version: version of the agent that the server ships; None before an answer that names it.
    """

    shipped_version: str | None = None
