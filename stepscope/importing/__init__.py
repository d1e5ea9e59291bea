"""Imports what other programs recorded: TensorBoard's event files and folders of pages."""

from stepscope.importing.importer import Imported, import_runs
from stepscope.importing.skipped import ImportingError, Skipped

__all__ = ["Imported", "ImportingError", "Skipped", "import_runs"]
