"""Static files as they are served: hashed names, imports of the same names, compressed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT

SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("static")
    environment = os.environ | {
        "BENCHAPP_STATIC_ROOT": str(directory),
        "BENCHAPP_SECRET_KEY": "tests-only-" + "k" * 50,
    }
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    return directory


def read_names(collected: Path) -> dict[str, str]:
    names: dict[str, str] = json.loads((collected / "staticfiles.json").read_text())["paths"]
    return names


def test_scripts_import_each_other_by_hashed_names(collected: Path) -> None:
    names = read_names(collected)
    stored = {(collected / names[name]).resolve() for name in names if name.startswith("js/")}

    imports = [
        (path.parent / found).resolve()
        for path in stored
        for found in re.findall(r"^import [^;]*?from \"(\.[^\"]+)\"", path.read_text(), re.MULTILINE)
    ]

    assert len(stored) == len(SCRIPTS)
    assert len(imports) > len(SCRIPTS)
    assert set(imports) <= stored


def test_all_scripts_together_are_sent_in_170_kb(collected: Path) -> None:
    names = read_names(collected)
    scripts = [
        collected / stored
        for name, stored in names.items()
        if name.startswith(("js/", "vendor/")) and name.endswith(".js")
    ]
    packed = [path.with_name(f"{path.name}.gz") for path in scripts]
    sizes = [(gz if gz.exists() else path).stat().st_size for path, gz in zip(scripts, packed, strict=True)]

    assert len(scripts) == len(SCRIPTS) + 1
    assert sum(sizes) < 170_000
