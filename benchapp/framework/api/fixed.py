"""The parameter `fix` of answers that may fix dimensions."""

from collections.abc import Sequence
from typing import Final

from msgspec import Meta

from benchapp.framework.api.parameters import ChoiceParameter, Parameters
from benchapp.framework.api.problems import bad_parameter

SETTINGS: Final = Meta(
    description="its values of the fixed dimensions, and of those in which combinations differ, as a filter"
)


class FixParameters(Parameters):
    """Whether dimensions may be fixed."""

    fix = ChoiceParameter(
        choices=("auto", "none"),
        required=False,
        default="auto",
        help_text="none: no dimension is fixed; if one would be, the answer is 400 and names it",
    )


def check_fix(fix: str, dimensions: Sequence[str]) -> None:
    """Raise Problem 400 for fix=none where dimensions are fixed."""
    if fix == "none" and dimensions:
        names = ", ".join(dimensions)
        raise bad_parameter("fix", f"combinations have several values of {names}; filter each by one value")
