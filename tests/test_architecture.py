"""Who may import whom is written as contracts in pyproject.toml (`make lint`); here is what they cannot express."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
# What is no part of the order of subjects: read by Django by name, or without code of its own.
UNORDERED = {"", "apps", "migrations", "samples", "sql_views", "watched_postgresql"}

TEMPLATES_MAXIMUM = 25

INGEST = "benchapp.intake.api.posts"
# What the workers and the pages alone import. Accepting a result must not load it.
NOT_IN_INGEST = (
    "benchapp.tasks",
    "benchapp.judge",
    "benchapp.overview.pages",
    "benchapp.detection",
    "benchapp.incidents",
    "benchapp.intake.normalize",
    "benchapp.notices",
    "numpy",
)


def list_modules(package: str) -> dict[str, Path]:
    """Return every module of a package by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def select_below(names: Iterable[str], packages: tuple[str, ...]) -> list[str]:
    """Return the names that are one of the packages or lie in one."""
    return sorted(name for name in names if any(f"{name}.".startswith(f"{package}.") for package in packages))


def test_every_module_has_a_place_in_the_order_of_subjects() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["benchapp"])
    places = tuple(place for layer in layers for place in layer.split(" : "))
    modules = [
        name.partition(".")[2] for name, path in list_modules("benchapp").items() if path.stat().st_size
    ]

    assert [
        name
        for name in modules
        if name.partition(".")[0] not in UNORDERED and not select_below([name], places)
    ] == []


def test_process_that_accepts_a_result_and_publishes_it_loads_no_code_of_workers_and_pages() -> None:
    """Also what is loaded by name, as Celery loads tasks and Django loads apps."""
    program = (
        "import sys, django; django.setup()\n"
        f"import {INGEST}, benchapp.framework.queue\n"
        "benchapp.framework.queue.wake_up()\n"
        "print(*sys.modules)"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "benchapp.settings", "BENCHAPP_ROLE": "web"}
    environment["BROKER_URL"] = "redis://127.0.0.1:1"

    loaded = run_and_list_modules(program, environment)

    assert {INGEST, "benchapp.framework.queue"} <= loaded
    assert select_below(loaded, NOT_IN_INGEST) == []


def test_worker_loads_no_page_and_no_endpoint() -> None:
    program = (
        "import sys\n"
        "from benchapp.celery import app\n"
        "app.loader.import_default_modules()\n"
        "print(*sys.modules)"
    )

    loaded = run_and_list_modules(program, os.environ | {"BENCHAPP_ROLE": "worker"})

    assert "benchapp.tasks" in loaded
    assert [name for name in loaded if re.match(r"benchapp\.(urls|\w+\.(api|pages))\b", name)] == []


def run_and_list_modules(program: str, environment: Mapping[str, str]) -> set[str]:
    """Return the modules that a program in a process of its own has loaded; it prints them."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_agent_imports_only_itself_and_the_standard_library() -> None:
    allowed = set(sys.stdlib_module_names) | {"agent", "__future__"}
    imported = {
        (module, name)
        for module, path in list_modules("agent").items()
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert len(imported) > 100
    assert [pair for pair in sorted(imported) if pair[1].split(".")[0] not in allowed] == []


def test_no_folder_has_more_templates_than_a_reader_takes_in() -> None:
    counts = Counter(path.parent for path in (ROOT / "templates").rglob("*.html"))

    assert len(counts) > 20
    assert [folder.name for folder, count in counts.items() if count > TEMPLATES_MAXIMUM] == []


def test_documentation_lists_every_package() -> None:
    documented = re.findall(r"^\| `((?:agent|benchapp)/\w+)/?` \|", ARCHITECTURE.read_text(), re.MULTILINE)
    packages = {
        path.parent.relative_to(ROOT).as_posix()
        for package in ("agent", "benchapp")
        for path in (ROOT / package).glob("*/__init__.py")
        if path.parent.name not in UNORDERED
    }

    assert sorted(documented) == sorted(packages)
