"""The archive of the agent for tests."""

from functools import cache
from pathlib import Path

from benchapp.storage.agent_archive import build_agent_archive


@cache
def build_archive() -> bytes:
    """Return the archive that the server sends."""
    return build_agent_archive(Path(__file__).parents[2] / "agent")
