"""Static files under names that carry their content's hash, so that browsers may keep them for ever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise is not typed
    """Also rewrites the imports between our ES modules.

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
