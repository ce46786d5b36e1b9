"""Files that are replaced atomically."""

import os
import time
from pathlib import Path

from agent.files import replace_file


def test_file_that_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """In a container each agent may have the same process id."""
    same, old, new, other = (
        tmp_path / name for name in (f".x.new-{os.getpid()}", ".x.new-1", ".x.new-2", ".y.new-1")
    )
    for path in (same, old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (time.time() - 3700,) * 2)

    replace_file(str(tmp_path / "x"), "text", mode=0o600)

    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.new-2", ".y.new-1", "x"]
    assert (tmp_path / "x").read_text() == "text"
