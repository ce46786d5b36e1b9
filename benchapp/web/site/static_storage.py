"""Static files under names that carry their content's hash, so that browsers may keep them for ever."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from whitenoise.storage import CompressedManifestStaticFilesStorage

_OWN_SCRIPTS: Final = "js/"


class StaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise is not typed
    """Also rewrites the imports between our ES modules, and leaves their comments out.

    The source maps of third-party files are not shipped, so references to them stay as they are.
    """

    support_js_module_import_aggregation = True
    # A pass for each module of the longest chain of imports, ten of them today; Django's five are for style sheets.
    max_post_process_passes = 30
    patterns = tuple(
        (extension, patterns)
        for extension, patterns in CompressedManifestStaticFilesStorage.patterns
        if extension == "*.css"
    )

    def post_process(
        self, paths: dict[str, tuple[Any, str]], dry_run: bool = False, **options: Any
    ) -> Iterator[Any]:
        """Give the collected files their names; paths: file → its storage and its path there."""
        if not dry_run:
            for name, (storage, path) in paths.items():
                if name.startswith(_OWN_SCRIPTS) and name.endswith(".js"):
                    with storage.open(path) as source:
                        Path(self.path(name)).write_text(strip_script(source.read().decode()))
                    paths[name] = (self, name)
        yield from super().post_process(paths, dry_run, **options)


def strip_script(text: str) -> str:
    """Return a script of ours without the lines that are comments, without blank lines and indentation.

    Comments that begin behind code stay. No template literal may run over more than one line, as its indentation would
    be lost. A fifth less to send, compressed; and no tool that knows JavaScript is needed.
    """
    kept = []
    is_comment = False
    for line in map(str.strip, text.splitlines()):
        is_comment = is_comment or line.startswith("/*")
        if line and not is_comment and not line.startswith("//"):
            kept.append(line)
        is_comment = is_comment and not line.endswith("*/")
    return "\n".join([*kept, ""])
