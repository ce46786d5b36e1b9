"""Static files with content hashes in their names, so that browsers can cache them forever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise is not typed
    """Also rewrites imports between ES modules.

    Source maps of third-party files are not shipped; references to them are not changed.
    """

    support_js_module_import_aggregation = True
    # One pass per module of the longest import chain (currently ten); Django's default of five is for style sheets.
    max_post_process_passes = 30
    patterns = tuple(
        (extension, patterns)
        for extension, patterns in CompressedManifestStaticFilesStorage.patterns
        if extension == "*.css"
    )
