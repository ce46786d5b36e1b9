"""The blocks of code of README.md, CONTRIBUTING.md and docs/, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "ARCHITECTURE")),
    *sorted((ROOT / "docs").glob("*.md")),
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Shell variables before a command.
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


@dataclass(frozen=True)
class Block:
    """A block of code. file: relative to the checkout; line: of its first line."""

    file: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a block in a shell, with its pipe, without comments. words: of its first part."""

    block: Block
    text: str

    def __str__(self) -> str:
        return f"{self.block}: {self.text}"

    @property
    def parts(self) -> list[list[str]]:
        """Return the words of each program of the command: between |, ||, && and ;."""
        words = shlex.split(self.text.replace("…", "1"), comments=True)
        found: list[list[str]] = [[]]
        for word in words:
            if word in ("|", "||", "&&", ";", "do", "done"):
                found.append([])
            elif found[-1] or not _ASSIGNMENT.fullmatch(word):
                found[-1].append(word)
        return [part for part in found if part]


def list_blocks(*languages: str) -> list[Block]:
    """Return the blocks in these languages, or all."""
    return [
        Block(
            path.relative_to(ROOT).as_posix(),
            text.count("\n", 0, found.start()) + 2,
            found[1],
            found[2],
        )
        for path in FILES
        for text in [path.read_text()]
        for found in _BLOCK.finditer(text)
        if not languages or found[1] in languages
    ]


def list_commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block, lines joined that end with a backslash."""
    for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
        if line.strip() and not line.startswith("#"):
            yield Command(block, line.strip())
