"""What adopting the schedule of the server resulted in, as a part of a poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from agent.exit_codes import ExitCode


@dataclass(frozen=True)
class AdoptionResult:
    """The result of one adoption. installed: profiles; refused: [{profile, reason}].

    problem: why the server was not asked, or nothing installed; "" without one.
    """

    installed: Sequence[str] = ()
    refused: Sequence[Mapping[str, str]] = ()
    problem: str = ""
    exit_code: ExitCode = ExitCode.OK
    was_asked: bool = False

    def dump(self) -> dict[str, Any]:
        """Return the result for --json."""
        return {
            "installed": list(self.installed),
            "refused": [dict(each) for each in self.refused],
            "problem": self.problem or None,
        }
