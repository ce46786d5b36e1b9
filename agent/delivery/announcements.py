"""What a server announces in each of its answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent import __version__

_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}", re.ASCII)


@dataclass
class Announcements:
    """What the answers to one command announced.

    shipped_version: version of the agent that the server ships; None before an answer that names it.
    """

    shipped_version: str | None = None

    def describe_newer(self, url: str) -> str | None:
        """Return which newer version the server at a URL ships, and where the command is; None without a newer one."""
        shipped = self.shipped_version
        if shipped is None or not is_newer(shipped, __version__):
            return None
        return (
            f"bench-agent {__version__} is installed, the server ships {shipped}; "
            f"the page of this host at {url}/hosts/ has the command that updates it"
        )


def is_newer(version: str, installed: str) -> bool:
    """Return whether a version of numbers and dots is newer; False for anything else."""
    if not (_VERSION.fullmatch(version) and _VERSION.fullmatch(installed)):
        return False
    return [int(part) for part in version.split(".")] > [int(part) for part in installed.split(".")]
