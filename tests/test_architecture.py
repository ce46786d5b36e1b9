"""The map of who may import whom: if it refuses your import, move the code, not the map."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "benchapp"

# Room → the rooms that it may import, besides itself.
MAP: dict[str, set[str]] = {
    "csv_export": set(),
    "metrics": set(),
    "dimensions": set(),
    "grammar": {"dimensions"},
    "analysis": set(),
    "fio": {"metrics"},
    "models": {"metrics", "dimensions", "grammar"},
    "queries": {"models", "metrics", "dimensions", "grammar", "analysis"},
    "pipeline": {"models", "fio", "analysis", "metrics", "dimensions", "grammar"},
    "tasks": {"pipeline", "models"},
    "api": {"queries", "pipeline", "tasks", "models", "metrics", "dimensions", "grammar", "csv_export"},
    "web": {"queries", "pipeline", "tasks", "models", "metrics", "dimensions", "grammar", "csv_export"},
    "templatetags": {"metrics"},
}
# Anything may be imported by these, and they by no room.
PLUMBING = {
    "admin",
    "apps",
    "asgi",
    "celery",
    "checks",
    "embedded",
    "env",
    "log_masking",
    "management",
    "migrations",
    "settings",
    "urls",
}
PURE = {"csv_export", "metrics", "dimensions", "grammar", "analysis", "fio"}
FRAMEWORKS = {"django", "rest_framework", "celery", "kombu"}


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Give line and absolute module of every import of a file, also inside functions."""
    package = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level]) if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "benchapp" and len(parts) > 1 else None


def room_files(room: str) -> list[Path]:
    single = PACKAGE / f"{room}.py"
    return [single] if single.exists() else sorted((PACKAGE / room).rglob("*.py"))


def known_rooms() -> set[str]:
    return set(MAP) | PLUMBING


def violations(room: str) -> list[str]:
    found = []
    for path in room_files(room):
        for line, module in imports_of(path):
            other = room_of(module)
            if other and other in known_rooms() and other != room and other not in MAP[room]:
                found.append(
                    f"{path.relative_to(ROOT)}:{line} imports {module}: {room} may not import {other}"
                )
            if room in PURE and module.split(".")[0] in FRAMEWORKS:
                found.append(f"{path.relative_to(ROOT)}:{line} imports {module}: {room} is pure")
            if module.split(".")[0] == "agent":
                found.append(
                    f"{path.relative_to(ROOT)}:{line} imports {module}: the agent is imported by nobody"
                )
    return found


@pytest.mark.parametrize("room", sorted(MAP))
def test_room_imports_only_what_the_map_allows(room: str) -> None:
    assert room_files(room), f"room {room} has no files"
    assert violations(room) == []


def test_every_module_belongs_to_a_room() -> None:
    names = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()
    }

    assert names - known_rooms() - {"__init__"} == set()


def test_agent_imports_nothing_of_benchapp_and_no_third_party() -> None:
    import sys

    allowed = set(sys.stdlib_module_names) | {"agent", "__future__"}
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in sorted((ROOT / "agent").rglob("*.py"))
        for line, module in imports_of(path)
        if module and module.split(".")[0] not in allowed
    ]

    assert found == []


def test_map_finds_a_forbidden_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: a pure room that imports Django inside a function is found."""
    room = tmp_path / "benchapp" / "analysis"
    room.mkdir(parents=True)
    (room / "drift.py").write_text(
        "def f():\n    from django.db import models\n    import benchapp.models.run\n"
    )
    monkeypatch.setattr("tests.test_architecture.ROOT", tmp_path)
    monkeypatch.setattr("tests.test_architecture.PACKAGE", tmp_path / "benchapp")

    assert len(violations("analysis")) >= 2
