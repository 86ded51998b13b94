"""Static files as they are built: named by their content, so that browsers may keep them."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class BuiltFiles(CompressedManifestStaticFilesStorage):
    # Else a module that a page names and another module imports would be loaded twice.
    support_js_module_import_aggregation = True
    # Nobody asks for the others: pages name the hashed ones.
    keep_only_hashed_files = True
