"""Static files as they are served: bundles with hashed names, compressed."""

import json
import re
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from benchapp.framework.pages import static_files
from benchapp.framework.pages.static_files import find_entries
from tests.servers import ROOT

STYLES = ROOT / "static" / "css"
# A style sheet of its own, within <noscript>.
SEPARATE = {"site/no_script.css"}


def read_names(collected: Path) -> dict[str, str]:
    names: dict[str, str] = json.loads((collected / "staticfiles.json").read_text())["paths"]
    return names


def test_what_templates_name_is_bundled_and_nothing_else_is_shipped(collected: Path) -> None:
    names = read_names(collected)
    entries = find_entries(ROOT / "templates")
    bundles = {name: (collected / names[name]).read_text() for name in entries}

    assert {name for name in names if name.startswith(("js/", "css/"))} == set(entries)
    assert "js/charts/history/page.js" in entries
    assert [name for name, text in bundles.items() if re.search(r"\b(import|@import)\b\s*[\"'{]", text)] == []
    assert [name for name, text in bundles.items() if re.search(r"\bimport\(", text)] == []


def test_names_have_hashes_and_the_file_is_compressed_twice(collected: Path) -> None:
    stored = collected / read_names(collected)["js/charts/history/page.js"]

    assert re.fullmatch(r"page\.[0-9a-f]{12}\.js", stored.name)
    assert stored.with_name(f"{stored.name}.br").stat().st_size < 0.4 * stored.stat().st_size
    assert stored.with_name(f"{stored.name}.gz").stat().st_size < 0.45 * stored.stat().st_size
    assert not (stored.parent / "page.js").exists()


def test_one_style_sheet_imports_all_others() -> None:
    imported = re.findall(r'@import "([^"]+)"', (STYLES / "benchapp.css").read_text())
    present = {str(path.relative_to(STYLES)) for path in STYLES.rglob("*.css")}

    assert sorted(imported) == sorted(present - SEPARATE - {"benchapp.css"})


def test_missing_bundler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(static_files, "ESBUILD", tmp_path / "esbuild")

    with pytest.raises(ImproperlyConfigured, match="esbuild is missing: run"):
        static_files._bundle(tmp_path, tmp_path, [])


def test_script_with_an_error_stops_the_collection(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text('import { nothing } from "./other.js";')

    with pytest.raises(ImproperlyConfigured, match=r"Could not resolve \"\./other\.js\""):
        static_files._bundle(tmp_path, tmp_path / "out", ["page.js"])
