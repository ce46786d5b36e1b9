"""Who may import whom: between layers, and between the subpackages of a layer; move the code if an import fails."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "ARCHITECTURE.md"

# Layer → the layers that it may import, besides itself.
LAYERS: dict[str, set[str]] = {
    "agent_archive": set(),
    "csv_export": set(),
    "times": set(),
    "metrics": set(),
    "dimensions": set(),
    "thresholds": {"metrics"},
    "filter_phrases": {"dimensions", "metrics"},
    "grammar": {"dimensions", "filter_phrases"},
    "spelling": {"filter_phrases", "grammar"},
    "analysis": set(),
    "redaction": set(),
    "fio": {"metrics", "redaction"},
    "models": {"metrics", "dimensions", "grammar", "thresholds"},
    "queries": {"models", "metrics", "dimensions", "grammar", "analysis", "thresholds"},
    "pipeline": {
        "models",
        "fio",
        "analysis",
        "env",
        "metrics",
        "dimensions",
        "grammar",
        "redaction",
        "thresholds",
        "times",
    },
    "charts": {"analysis", "queries", "models", "metrics", "dimensions", "grammar", "thresholds", "times"},
    "celery": set(),
    "watched_postgresql": set(),
    "queue": {"celery"},
    "readiness": {"models", "queue", "times"},
    "tasks": {"celery", "charts", "pipeline", "models"},
    "api": {
        "agent_archive",
        "watched_postgresql",
        "charts",
        "queries",
        "pipeline",
        "queue",
        "readiness",
        "models",
        "csv_export",
        "metrics",
        "dimensions",
        "grammar",
        "thresholds",
        "times",
    },
    "web": {
        "agent_archive",
        "charts",
        "queries",
        "pipeline",
        "queue",
        "readiness",
        "models",
        "csv_export",
        "metrics",
        "dimensions",
        "filter_phrases",
        "grammar",
        "spelling",
        "thresholds",
        "times",
    },
    "templatetags": {"metrics", "times"},
}
# May import anything; imported by no layer.
INFRASTRUCTURE = {
    "admin",
    "apps",
    "archive",
    "asgi",
    "checks",
    "configuration",
    "embedded",
    "env",
    "handler",
    "log_masking",
    "management",
    "migrations",
    "settings",
    "sql_views",
    "urls",
}
PURE = {
    "csv_export",
    "metrics",
    "redaction",
    "thresholds",
    "dimensions",
    "filter_phrases",
    "grammar",
    "spelling",
    "analysis",
    "fio",
}
FRAMEWORKS = {"django", "rest_framework", "celery", "kombu"}

# Subpackage → the subpackages and modules of the same layer that it may import. A module that lies directly in a layer
# is named like a subpackage; the modules of a subpackage may import each other, but not in a circle.
SUBPACKAGES: dict[str, dict[str, set[str]]] = {
    "agent": {
        "__main__": {"commands"},
        "commands": {
            "config",
            "console",
            "delivery",
            "exit_codes",
            "files",
            "job_state",
            "measuring",
            "profiles",
            "programs",
            "quantities",
            "requests",
            "running",
            "scheduling",
            "storage",
            "sweeping",
            "trust",
        },
        "config": {"exit_codes", "quantities", "trust"},
        "console": {"quantities"},
        "delivery": {
            "console",
            "exit_codes",
            "files",
            "measuring",
            "programs",
            "quantities",
            "redaction",
            "trust",
        },
        "environment": {"delivery", "storage"},
        "job_state": {"exit_codes", "files", "quantities", "results"},
        "measuring": {
            "exit_codes",
            "files",
            "profiles",
            "programs",
            "quantities",
            "redaction",
            "results",
            "storage",
            "trust",
        },
        "methods": {"exit_codes", "measuring", "profiles", "programs", "quantities", "redaction", "storage"},
        "profiles": {"exit_codes", "quantities"},
        "programs": {"trust"},
        "requests": {
            "delivery",
            "exit_codes",
            "files",
            "measuring",
            "profiles",
            "programs",
            "quantities",
            "running",
            "scheduling",
        },
        "results": {"quantities"},
        "running": {
            "config",
            "console",
            "delivery",
            "environment",
            "exit_codes",
            "files",
            "job_state",
            "measuring",
            "methods",
            "profiles",
            "programs",
            "quantities",
            "results",
            "storage",
            "trust",
        },
        "scheduling": {
            "delivery",
            "exit_codes",
            "files",
            "measuring",
            "profiles",
            "programs",
            "quantities",
            "running",
            "storage",
        },
        "storage": {"programs"},
        "sweeping": {
            "config",
            "console",
            "delivery",
            "exit_codes",
            "job_state",
            "measuring",
            "profiles",
            "programs",
            "quantities",
            "results",
            "running",
            "storage",
        },
        "trust": {"exit_codes"},
    },
    "fio": {
        "": {"output", "unreadable"},
        "__main__": {"logs", "merging", "report", "version"},
        "json": {
            "value_sources",
            "merging",
            "notes",
            "numbers",
            "report",
            "unreadable",
            "version",
            "workload",
        },
        "invariants": {"notes", "report", "workload"},
        "logs": {"version"},
        "merging": {"value_sources", "notes", "numbers", "report", "version", "workload"},
        "notes": {"report"},
        "output": {
            "foreign",
            "invariants",
            "json",
            "merging",
            "notes",
            "report",
            "shell_time",
            "streams",
            "terse",
            "text",
            "text_report",
            "unreadable",
            "wrappers",
        },
        "shell_time": {"merging", "notes", "report", "unreadable"},
        "terse": {"value_sources", "merging", "notes", "numbers", "report", "version", "workload"},
        "text": {"notes"},
        "text_report": {
            "json",
            "merging",
            "notes",
            "numbers",
            "report",
            "unreadable",
            "value_sources",
            "version",
            "workload",
        },
        "workload": {"numbers", "report"},
        "wrappers": {"notes", "text", "streams"},
    },
    "analysis": {
        "detection": {"changepoints"},
    },
    "queries": {
        "audit": {"pagination"},
        "charts": {
            "badges",
            "binary_columns",
            "incidents",
            "limits",
            "maintenance",
            "result_cache",
            "series",
            "series_versions",
            "shapes",
            "titles",
        },
        "dimension_values": {"titles"},
        "exclusions": {"binary_columns", "dimension_values"},
        "experiments": {"charts"},
        "comparison_scopes": {"charts"},
        "hosts": {"binary_columns", "charts", "days", "incidents", "pagination", "series", "titles"},
        "gate": {"days", "incidents", "series"},
        "incidents": {"binary_columns", "pagination", "titles"},
        "layouts": {"badges", "binary_columns", "charts", "incidents", "result_cache", "series", "titles"},
        "maintenance": {"pagination"},
        "notifications": {"series"},
        "personal": {"charts", "pagination", "series", "studies"},
        "totals": {"hosts"},
        "policies": {"pagination"},
        "overview": {"binary_columns", "days", "hosts", "incidents", "result_cache", "runs", "series"},
        "result_cache": {"binary_columns"},
        "runs": {"badges", "binary_columns", "pagination", "shapes", "titles"},
        "search": {"dimension_values", "series"},
        "series": {
            "badges",
            "binary_columns",
            "days",
            "pagination",
            "result_cache",
            "series_versions",
            "shapes",
            "titles",
        },
        "series_grid": {"binary_columns", "charts", "incidents", "result_cache", "series", "titles"},
        "series_versions": {"binary_columns"},
        "studies": {"binary_columns", "pagination"},
    },
    "pipeline": {
        "detection": {"conflicts"},
        "access": {"audit", "conflicts"},
        "exclusions": {"audit", "conflicts"},
        "hosts": {"access", "audit"},
        "importing": {"csv_lines", "exclusions", "hosts", "identity", "intake", "judge", "normalize"},
        "incidents": {"audit", "conflicts", "notifications"},
        "intake": {"audit", "identity"},
        "judge": {"conflicts", "detection", "incidents", "notifications"},
        "layouts": {"audit", "csv_lines"},
        "list_entries": {"audit", "bad_value", "conflicts"},
        "maintenance": {"bad_value", "list_entries"},
        "normalize": {"conflicts", "identity", "intake", "requests"},
        "pools": {"conflicts", "hosts", "identity", "incidents", "normalize"},
        "notifications": {"access", "audit", "bad_value", "conflicts", "notifications/channels"},
        "pinned_charts": {"audit", "studies"},
        "saved_views": {"audit", "studies"},
        "policies": {"audit", "bad_value", "detection", "incidents", "list_entries"},
        "provenance": {"intake", "normalize"},
        "requests": {"audit", "bad_value", "conflicts"},
        "schedules": {"audit", "bad_value", "conflicts"},
        "studies": {"audit", "bad_value"},
    },
    "api": {
        "audit": {"framework"},
        "charts": {"framework", "layouts", "resources"},
        "health": {"framework"},
        "experiments": {"framework"},
        "layouts": {"framework"},
        "ingest": {"framework"},
        "posting": {"framework", "ingest", "resources"},
        "policies": {"framework", "resources"},
        "requests": {"framework", "resources"},
        "resources": {"framework", "ingest"},
        "schedules": {"framework", "requests", "resources"},
        "sharing": {"charts", "framework", "resources"},
        "urls": {
            "audit",
            "charts",
            "experiments",
            "layouts",
            "policies",
            "posting",
            "requests",
            "resources",
            "schedules",
            "sharing",
        },
    },
    "web": {
        "accounts": {"site"},
        "audit": {"site"},
        "charts/comparison": {"site"},
        "charts/history": {"site"},
        "charts/matrix": {"layouts", "site"},
        "charts/scaling": {"layouts", "site"},
        "docs": {"runs", "site"},
        "experiments": {"site"},
        "hosts": {"accounts", "incidents", "maintenance", "requests", "runs", "schedules", "site"},
        "incidents": {"charts/history", "requests", "site"},
        "layouts": {"site"},
        "maintenance": {"site"},
        "overview": {"incidents", "runs", "saved_views", "site", "studies"},
        "policies": {"site"},
        "requests": {"site"},
        "runs": {"requests", "site"},
        "saved_views": {"site", "studies"},
        "schedules": {"site"},
        "search": {"docs", "saved_views", "site"},
        "series": {"charts/history", "incidents", "requests", "site"},
        "studies": {
            "charts/comparison",
            "charts/history",
            "charts/matrix",
            "charts/scaling",
            "layouts",
            "site",
        },
        "subscriptions": {"accounts", "site"},
        "uploads": {"runs", "site"},
        "urls": {
            "accounts",
            "audit",
            "charts/comparison",
            "charts/history",
            "charts/matrix",
            "charts/scaling",
            "docs",
            "experiments",
            "hosts",
            "incidents",
            "layouts",
            "maintenance",
            "overview",
            "policies",
            "requests",
            "runs",
            "saved_views",
            "schedules",
            "search",
            "series",
            "site",
            "studies",
            "subscriptions",
            "uploads",
        },
    },
}

TEMPLATES_MAXIMUM = 25

INGEST = "benchapp.intake.api.posts"
# What the workers and the pages alone import. Accepting a result must not load it.
NOT_IN_INGEST = (
    "benchapp.tasks",
    "benchapp.web",
    "benchapp.judge",
    "benchapp.detection.write",
    "benchapp.incidents.write",
    "benchapp.incidents.write",
    "benchapp.intake.normalize",
    "benchapp.notices.write",
    "benchapp.detection.changepoints",
    "benchapp.detection.rules",
    "benchapp.incidents.rules",
    "numpy",
)


def list_modules(root: Path) -> dict[str, Path]:
    """Return every module of benchapp and agent by its dotted name, migrations apart."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in ("benchapp", "agent")
        for path in sorted((root / package).rglob("*.py"))
        if "migrations" not in path.parts
    }


def list_imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Return line and absolute module of every import of a file, also inside functions."""
    return _parse_imports(path.read_text())


@cache
def _parse_imports(text: str) -> tuple[tuple[int, str], ...]:
    # Once for each file: a dozen tests read all of them.
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append((node.lineno, "."))
    return tuple(found)


def find_module(name: str, modules: Mapping[str, Path]) -> str | None:
    """Return the module that an imported name is or lies in; None for a third party's."""
    while name not in modules:
        if "." not in name:
            return None
        name = name.rpartition(".")[0]
    return name


def find_layer(module: str) -> str:
    """Return "agent", or the first part below benchapp."""
    top, _, rest = module.partition(".")
    return top if top == "agent" else rest.partition(".")[0]


def find_unit(module: str, path: Path) -> str:
    """Return the subpackage of a module below its layer, as "charts/scaling"; the module's name directly in a layer.

    Folders below it belong to it: a channel of notices needs no entry.
    """
    parts = module.split(".")[1 if module.startswith("agent") else 2 :]
    if path.name != "__init__.py" and len(parts) > 1:
        parts = parts[:-1]
    return "/".join(parts[:2])


def list_edges(modules: Mapping[str, Path]) -> list[tuple[str, str, int]]:
    """Return importing module, imported module and line, within the project."""
    return [
        (module, imported, line)
        for module, path in modules.items()
        for line, name in list_imports(path)
        if (imported := find_module(name, modules)) and imported != module
    ]


def find_forbidden(modules: Mapping[str, Path]) -> list[str]:
    """Return every import that LAYERS or SUBPACKAGES does not allow, as a sentence."""
    found = []
    for module, imported, line in list_edges(modules):
        here, there = find_layer(module), find_layer(imported)
        if here == there:
            found += _check_subpackage(module, imported, line, modules=modules)
        elif there == "agent":
            found.append(f"{module}:{line} imports {imported}: nothing imports the agent")
        elif here in LAYERS and there and there not in LAYERS[here]:
            found.append(f"{module}:{line} imports {imported}: {here} may not import {there}")
    return found


def _check_subpackage(module: str, imported: str, line: int, *, modules: Mapping[str, Path]) -> list[str]:
    allowed = SUBPACKAGES.get(find_layer(module))
    here, there = find_unit(module, modules[module]), find_unit(imported, modules[imported])
    if allowed is None or here == there or there == "" or there in allowed.get(here, set()):
        return []
    return [f"{module}:{line} imports {imported}: {find_layer(module)}/{here} may not import {there}"]


def find_cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return one circle for each start that leads back to itself, the shortest first found; empty without circles."""
    found: list[list[str]] = []
    finished: set[str] = set()

    def visit(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name) :], name])
            return
        if name in finished:
            return
        for other in sorted(edges.get(name, set())):
            visit(other, [*way, name])
        finished.add(name)

    for name in sorted(edges):
        visit(name, [])
    return found


def group_edges(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the imports between subpackages within each layer, as "layer: subpackage"."""
    edges: dict[str, set[str]] = {}
    for module, imported, _ in list_edges(modules):
        layer = find_layer(module)
        here, there = find_unit(module, modules[module]), find_unit(imported, modules[imported])
        if layer == find_layer(imported) and here != there and there:
            edges.setdefault(f"{layer}: {here}", set()).add(f"{layer}: {there}")
    return edges


def find_closure(start: str, modules: Mapping[str, Path]) -> set[str]:
    """Return what importing a module imports, of the project and of third parties, with the packages around it."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        if name in modules:
            waiting += [find_module(other, modules) or other for _, other in list_imports(modules[name])]
    return found


def select_below(names: Iterable[str], packages: tuple[str, ...]) -> list[str]:
    """Return the names that are one of the packages or lie in one."""
    return sorted(name for name in names if any(f"{name}.".startswith(f"{package}.") for package in packages))


MODULES = list_modules(ROOT)


def test_imports_between_layers_and_subpackages_are_allowed() -> None:
    assert find_forbidden(MODULES) == []


def test_every_allowed_import_between_subpackages_is_used() -> None:
    edges = group_edges(MODULES)
    unused = [
        f"{layer}: {here} → {there}"
        for layer, allowed in SUBPACKAGES.items()
        for here, others in allowed.items()
        for there in sorted(
            others - {name.partition(": ")[2] for name in edges.get(f"{layer}: {here}", set())}
        )
    ]

    assert unused == []


def test_no_module_imports_itself_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for module, imported, _ in list_edges(MODULES):
        edges.setdefault(module, set()).add(imported)

    assert find_cycles(edges) == []


def test_no_subpackage_imports_itself_in_a_circle() -> None:
    assert find_cycles(group_edges(MODULES)) == []


def test_ingest_imports_no_code_of_workers_and_pages() -> None:
    closure = find_closure(INGEST, MODULES)

    assert {"benchapp.framework.queue", "benchapp.intake.posts.submissions"} <= closure
    assert select_below(closure, NOT_IN_INGEST) == []


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
    assert select_below(loaded, ("benchapp.api", "benchapp.web", "benchapp.urls")) == []
    # Of what declares the fields of a list, the worker needs the model alone: serializers take 7 MiB.
    assert "rest_framework.serializers" not in loaded


def run_and_list_modules(program: str, environment: Mapping[str, str]) -> set[str]:
    """Return the modules that a program in a process of its own has loaded; it prints them."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("layer", sorted(PURE))
def test_pure_layer_imports_no_framework(layer: str) -> None:
    found = [
        f"{module}:{line} imports {name}"
        for module, path in MODULES.items()
        if find_layer(module) == layer
        for line, name in list_imports(path)
        if name.split(".")[0] in FRAMEWORKS
    ]

    assert any(find_layer(module) == layer for module in MODULES)
    assert found == []


def test_every_module_belongs_to_a_layer_or_to_infrastructure() -> None:
    layers = {find_layer(module) for module in MODULES} - {"", "agent"}

    assert layers - set(LAYERS) - INFRASTRUCTURE == set()


def test_agent_imports_only_itself_and_the_standard_library() -> None:
    allowed = set(sys.stdlib_module_names) | {"agent", "__future__"}
    found = [
        f"{module}:{line} imports {name}"
        for module, path in MODULES.items()
        if find_layer(module) == "agent"
        for line, name in list_imports(path)
        if name.split(".")[0] not in allowed
    ]

    assert found == []


def test_no_folder_has_more_templates_than_a_reader_takes_in() -> None:
    counts = Counter(path.parent for path in (ROOT / "templates").rglob("*.html"))

    assert len(counts) > 20
    assert [folder.name for folder, count in counts.items() if count > TEMPLATES_MAXIMUM] == []


def test_documentation_lists_every_package() -> None:
    documented = set(
        re.findall(r"^\| `((?:benchapp|agent)[\w/]*)/?` \|", ARCHITECTURE.read_text(), re.MULTILINE)
    )
    folders = {path.parent.relative_to(ROOT) for path in MODULES.values() if path.name == "__init__.py"}
    packages = {folder.as_posix() for folder in folders if len(folder.parts) <= 4} - {"benchapp"}

    assert documented == packages


def test_forbidden_imports_and_circles_are_found(tmp_path: Path) -> None:
    """The checks can fail: Django in a pure layer, the agent, a subpackage, a circle."""
    for folder in ("benchapp/analysis", "benchapp/series/read", "benchapp/series/read/runs", "agent"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "benchapp/__init__.py").touch()
    (tmp_path / "agent/spool.py").touch()
    (tmp_path / "benchapp/analysis/drift.py").write_text(
        "def f():\n    from benchapp.series.read.runs import rows\n    import agent.spool\n"
    )
    (tmp_path / "benchapp/queries/runs/rows.py").write_text("from benchapp.series.read import rows\n")
    (tmp_path / "benchapp/queries/series/rows.py").write_text("from benchapp.series.read.runs import rows\n")
    modules = list_modules(tmp_path)

    found = find_forbidden(modules)

    assert [sentence.partition(": ")[2] for sentence in found] == [
        "analysis may not import queries",
        "nothing imports the agent",
        "queries/runs may not import series",
        "queries/series may not import runs",
    ]
    assert find_cycles(group_edges(modules)) == [["queries: runs", "queries: series", "queries: runs"]]
