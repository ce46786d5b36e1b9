"""What is sent of our scripts: without their comments, and doing the same."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchapp.web.site.static_storage import strip_script
from tests.servers import ROOT

SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))


def test_comments_and_indentation_are_left_out() -> None:
    text = """// What this does.
import { a } from "./a.js";

/**
 * Return twice a.
 */
export function twice(b) {
  // a * 2 would do.
  /* or this */
  return b + a; // stays
}
"""

    assert strip_script(text) == (
        'import { a } from "./a.js";\nexport function twice(b) {\nreturn b + a; // stays\n}\n'
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_has_what_cannot_be_left_out_line_by_line(path: Path) -> None:
    lines = path.read_text().splitlines()

    assert [line for line in lines if line.count("`") % 2] == [], "a template literal of several lines"
    ends = [line.strip().partition("*/")[2] for line in lines if line.strip().startswith(("/*", "*"))]
    assert [end for end in ends if end] == [], "code behind a comment"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_scripts_without_comments_pass_the_tests_of_the_scripts(tmp_path: Path) -> None:
    for name in ("static/js", "tests/js"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "tests" / "data", tmp_path / "tests" / "data")
    shutil.copy(ROOT / "package.json", tmp_path)
    for path in (tmp_path / "static" / "js").rglob("*.js"):
        path.write_text(strip_script(path.read_text()))
        checked = subprocess.run(["node", "--check", path], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr

    tests = sorted((tmp_path / "tests" / "js").glob("*.js"))
    done = subprocess.run(["node", "--test", *tests], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_all_scripts_together_are_sent_in_150_kb(tmp_path: Path) -> None:
    environment = os.environ | {
        "BENCHAPP_STATIC_ROOT": str(tmp_path),
        "BENCHAPP_SECRET_KEY": "tests-only-" + "k" * 50,
    }
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
        cwd=ROOT,
        env=environment,
        check=True,
    )

    names = json.loads((tmp_path / "staticfiles.json").read_text())["paths"]
    ours = {name: stored for name, stored in names.items() if name.startswith(("js/", "vendor/"))}
    scripts = [tmp_path / stored for name, stored in ours.items() if name.endswith(".js")]
    packed = [path.with_name(f"{path.name}.gz") for path in scripts]
    sizes = [(gz if gz.exists() else path).stat().st_size for path, gz in zip(scripts, packed, strict=True)]

    assert len(scripts) == len(SCRIPTS) + 1
    assert sum(sizes) < 150_000
    frame = (tmp_path / names["js/site/frame.js"]).read_text()
    assert "//" not in frame.replace("://", "")
