"""Static files as they are served: one bundle per script and style sheet of a page, content hashes in the names.

In a checkout the modules are served as they are. `collectstatic` replaces each file that a template names by a minified
bundle with everything that it imports, so that a page loads a few files instead of thirty, and omits the other modules.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from whitenoise.storage import CompressedManifestStaticFilesStorage

ESBUILD: Final = settings.BASE_DIR / ".esbuild" / "esbuild"
_ENTRY: Final = re.compile(r"""\{%\s*static\s+["']((?:js|css)/[^"']+)["']""")
_TIMEOUT_S: Final = 60


def find_entries(templates: Path) -> list[str]:
    """Return the scripts and style sheets that the templates name, as paths below `static/`."""
    texts = (path.read_text() for path in templates.rglob("*.html"))
    return sorted({name for text in texts for name in _ENTRY.findall(text)})


class StaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise is not typed
    """Bundles scripts and style sheets with esbuild before names are hashed and contents compressed.

    Source maps of third-party files are not shipped; references to them are not changed.
    """

    patterns = tuple(
        (extension, patterns)
        for extension, patterns in CompressedManifestStaticFilesStorage.patterns
        if extension == "*.css"
    )

    def post_process(
        self, paths: Mapping[str, Any], dry_run: bool = False, **options: Any
    ) -> Iterator[tuple[str, str | None, bool]]:
        """Bundle the entries, then process them and all other files except modules.

        Raises:
            ImproperlyConfigured: esbuild is missing or refused a file.
        """
        if dry_run:
            return
        source, target = settings.BASE_DIR / "static", Path(self.location)
        entries = [name for name in find_entries(settings.BASE_DIR / "templates") if name in paths]
        _bundle(source, target, entries)
        kept = {name: path for name, path in paths.items() if not name.startswith(("js/", "css/"))}
        for name in paths.keys() - kept.keys() - set(entries):
            (target / name).unlink()
        yield from super().post_process(kept | {name: (self, name) for name in entries}, dry_run, **options)


def _bundle(source: Path, target: Path, entries: list[str]) -> None:
    if not ESBUILD.exists():
        raise ImproperlyConfigured(
            f"{ESBUILD} is missing: run `python -m benchapp.operation.embedded.javascript`"
        )
    done = subprocess.run(
        [
            *(str(ESBUILD), *(str(source / name) for name in entries)),
            *("--bundle", "--minify", "--format=esm", "--target=es2022", "--log-level=warning"),
            *(f"--outbase={source}", f"--outdir={target}", "--allow-overwrite"),
        ],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ImproperlyConfigured(f"esbuild cannot bundle the static files:\n{done.stderr.strip()}")
