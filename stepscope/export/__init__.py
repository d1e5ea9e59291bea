"""Exports runs as tidy tables: CSV, Parquet or JSON lines."""

from stepscope.export.exporter import Exported, Format, export_runs
from stepscope.export.selection import ExportError

__all__ = ["ExportError", "Exported", "Format", "export_runs"]
