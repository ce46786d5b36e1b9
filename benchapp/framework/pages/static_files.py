"""Static files: their names with a digest, and their delivery.

In a checkout the modules are served as they are. `collectstatic` replaces each file that a template names by a minified
bundle with everything that it imports, so that a page loads a few files instead of thirty, and omits the other modules.
"""

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Request headers used by whitenoise, with their WSGI names.
_REQUEST_HEADERS: Final = {
    b"accept-encoding": "HTTP_ACCEPT_ENCODING",
    b"if-modified-since": "HTTP_IF_MODIFIED_SINCE",
    b"if-none-match": "HTTP_IF_NONE_MATCH",
    b"range": "HTTP_RANGE",
}


async def answer_static_file(scope: Scope, send: Send) -> bool:
    """Send a static file, collected or, in a checkout, from the source tree; False if there is none."""
    whitenoise = _read_index()
    path = scope["path"]
    file = (
        await asyncio.to_thread(whitenoise.find_file, path)
        if whitenoise.autorefresh
        else whitenoise.files.get(path)
    )
    if file is None:
        return False
    headers_read = {
        _REQUEST_HEADERS[name]: value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _REQUEST_HEADERS
    }
    answer = file.get_response(scope["method"], headers_read)
    content = b""
    if answer.file is not None:
        with answer.file:
            content = answer.file.read()
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"x-content-type-options", b"nosniff"))
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    await send({"type": "http.response.body", "body": content})
    return True


@cache
def _read_index() -> Any:
    """Return whitenoise with its index of the files, set up as Django's middleware does."""

    def find_nothing(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=404)

    return WhiteNoiseMiddleware(find_nothing)


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
