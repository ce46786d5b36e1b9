"""Versions of the agent: which hosts have an older one than this server ships."""


def is_outdated(version: str, shipped: str) -> bool:
    """Return whether a version of numbers and dots is older than the one that the server ships; False for others."""
    try:
        return [int(part) for part in version.split(".")] < [int(part) for part in shipped.split(".")]
    except ValueError:
        return False
