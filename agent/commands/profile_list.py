"""Output of `bench-agent profiles`."""

from __future__ import annotations

from typing import Any, Iterator

from agent.profiles.needs import Needs
from agent.profiles.profile import Profile
from agent.quantities import format_duration, format_size


def describe_profile(profile: Profile, needs: Needs) -> Iterator[str]:
    """Yield the lines of text; needs: with default parameters."""
    yield f"{profile.name}: {profile.summary}"
    yield f"  good for: {profile.purpose}"
    yield f"  jobs {', '.join(profile.steps)}; {_describe_needs(profile, needs)}"
    for parameter in profile.parameters:
        default = parameter.describe_default()
        yield f"  --set {parameter.name + '=':<20}{parameter.description} (default: {default})"


def dump_profile(profile: Profile, needs: Needs) -> dict[str, Any]:
    """Return the JSON document, in base units; duration_s is null if it depends on the file to read."""
    return {
        "name": profile.name,
        "summary": profile.summary,
        "purpose": profile.purpose,
        "needs_fio": profile.uses_fio,
        "jobs": list(profile.steps),
        "duration_s": None if profile.is_read_only else needs.duration_s,
        "file_size_bytes": needs.space_bytes,
        "memory_bytes": needs.memory_bytes,
        "parameters": {parameter.name: parameter.default for parameter in profile.parameters},
        "parameter_details": [
            {
                "name": parameter.name,
                "default": parameter.default,
                "unit": parameter.unit,
                "description": parameter.description,
            }
            for parameter in profile.parameters
        ],
    }


def _describe_needs(profile: Profile, needs: Needs) -> str:
    if profile.is_read_only:
        return "duration depends on the file; needs no space"
    most = "up to" if profile.is_bounded else "about"
    return f"takes {most} {format_duration(needs.duration_s)} and {format_size(needs.space_bytes)}"
