"""Read small files of /proc and /sys; missing or unreadable files give None or an empty value."""

from __future__ import annotations

import os
from typing import Any

# The kernel writes a file of sysfs in one page; only mountinfo and cpuinfo are longer.
_PIECE_BYTES = 65536


def read_text(*parts: str) -> str:
    """Return a small file's text without NULs and surrounding whitespace; "" if missing or unreadable."""
    return read_bytes(*parts).decode("utf-8", "replace").replace("\x00", "").strip()


def read_line(*parts: str) -> str | None:
    """Return a file's value; None if missing, unreadable or empty."""
    return read_text(*parts) or None


def read_number(*parts: str) -> int | None:
    """Return a file's non-negative integer; None for other content or a missing file."""
    text = read_text(*parts)
    return int(text) if text.isascii() and text.isdigit() else None


def read_choice(*parts: str) -> str | None:
    """Return the selected value of a list such as "always [madvise] never"; else the whole text."""
    text = read_text(*parts)
    chosen = text.partition("[")[2].partition("]")[0]
    return chosen or text or None


def read_bytes(*parts: str) -> bytes:
    """Return a small file's bytes; b"" if missing or unreadable."""
    # A run reads about a thousand files: open() and its buffers would take twice as long.
    try:
        descriptor = os.open("/".join(parts), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        read = b""
        while piece := os.read(descriptor, _PIECE_BYTES):
            read += piece
        return read
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_link(*parts: str) -> str:
    """Return where a symbolic link leads; "" if missing or no link."""
    try:
        return os.readlink(os.path.join(*parts))
    except OSError:
        return ""


def keep_known(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def list_directory(*parts: str) -> list[str]:
    """Return the names in a directory, sorted; [] if missing or unreadable."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []
