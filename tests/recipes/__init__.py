"""Recipes of CONTRIBUTING.md, performed in a copy of the tree: which files each needs, and what its steps give."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read_recipe(title: str) -> str:
    """Return the text of a recipe: from its bold title to the next."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (recipe,) = re.findall(rf"^\*\*{re.escape(title)}\.\*\*$(.*?)(?=^\*\*|^## )", text, re.M | re.S)
    return str(recipe)


class Tree:
    """A copy of the code, and what a recipe changed in it.

    changed, created: paths from the top of the tree. The recipe must name each changed one, and the folder of each
    created one.
    """

    def __init__(self, path: Path, *, recipe: str, parts: tuple[str, ...] = ("benchapp",)) -> None:
        self.path = path
        self.recipe = read_recipe(recipe)
        self.changed: set[str] = set()
        self.created: set[str] = set()
        # With the times of the sources, by which Python accepts the compiled modules beside them.
        for part in (*parts, "manage.py"):
            (path / part).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            copy(ROOT / part, path / part)

    def insert(self, name: str, text: str, *, before: str) -> None:
        """Insert a text before an anchor, which occurs once in the file."""
        assert f"`{name}`" in self.recipe
        source = (self.path / name).read_text()
        assert source.count(before) == 1, f"{name} has {before!r} {source.count(before)} times"
        (self.path / name).write_text(source.replace(before, text + before))
        self.changed.add(name)

    def create(self, name: str, text: str) -> None:
        """Create a file."""
        assert any(f"`{folder}/" in self.recipe for folder in map(str, Path(name).parents))
        assert not (self.path / name).exists()
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)
        self.created.add(name)

    def run(self, *arguments: str, **settings: str) -> str:
        """Run Python in the copy and return what it prints; without a database."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCHAPP_")}
        environment |= {"PYTHONPATH": str(self.path), "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
        environment |= {"BENCHAPP_ROLE": "command", "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env=environment | settings,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_script(self, script: str, *arguments: str, **settings: str) -> str:
        """Run a script after Django is set up and return what it prints."""
        return self.run("-c", f"import django\ndjango.setup()\n{script}", *arguments, **settings)

    def make_migration(self, name: str) -> str:
        """Have Django write the migration that the recipe names, and return its text."""
        assert "makemigrations benchapp --name NAME" in self.recipe
        self.run("-W", "ignore", "manage.py", "makemigrations", "benchapp", "--name", name)
        (migration,) = (self.path / "benchapp" / "migrations").glob(f"*_{name}.py")
        return migration.read_text()
