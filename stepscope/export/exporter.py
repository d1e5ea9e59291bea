"""Exports runs: reads them once, and writes a tidy table for each kind."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias, get_args

from tracker_adapters.artifacts import File, Image, Page
from tracker_adapters.errors import RunError
from tracker_adapters.remote.place import is_url
from tracker_adapters.store.reading.columns import extent, read_rows
from tracker_adapters.store.reading.replaced import LatestAttempts

from stepscope.export.columns import TABLES, Chunk, ColumnType, row_count
from stepscope.export.output import MANIFEST, OutputFolder, safe_part
from stepscope.export.parquet_format import ParquetTable, import_pyarrow
from stepscope.export.remote_output import output_at
from stepscope.export.selection import ExportError, Ranks, Selection
from stepscope.export.tables import TableBuilder
from stepscope.export.text_formats import CsvTable, JsonLinesTable
from stepscope.runs.folders import find_runs, readable, run_labels
from stepscope.runs.opening import read_run

Format: TypeAlias = Literal["csv", "parquet", "jsonl"]
Table: TypeAlias = CsvTable | JsonLinesTable | ParquetTable
_TABLES: Mapping[str, type[Table]] = {"csv": CsvTable, "parquet": ParquetTable, "jsonl": JsonLinesTable}
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Attributes:
        output: The folder, absolute, or its URL.
        rows: Rows of each table that has any.
        runs: How many runs.
        unmatched: Names and patterns that matched nothing.
        missing: Artifacts whose content is missing in the run's folder: files and pages have no ``file``, others
            are omitted.
        damaged: Artifacts whose content is no longer what was written: likewise.
    """

    output: Path | str
    rows: dict[str, int]
    runs: int
    unmatched: tuple[str, ...]
    missing: int
    damaged: int = 0


def export_runs(
    runs: Sequence[str | PathLike[str]],
    output: str | PathLike[str],
    *,
    format: Format = "csv",
    kinds: Iterable[str] = (),
    names: Iterable[str] = (),
    ranks: Ranks = "all",
    steps: str | tuple[int | None, int | None] | None = None,
    all_attempts: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Writes runs as one tidy table per kind, in constant memory.

    The folder has ``runs.csv``, ``scalars.csv``, ``histograms.csv`` and so on, or the same as ``.parquet`` or
    ``.jsonl``, and ``export.json``; see ``docs/data.md`` for the columns. Images, pages and files are in
    subfolders; in Parquet, images are in the table. The folder appears under its name when it is complete.

    Args:
        runs: Folders of runs, folders that contain runs, or patterns of such folders.
        output: The export's folder, or any URL that fsspec supports, to which the complete export is uploaded.
        format: ``csv``, ``parquet`` or ``jsonl``.
        kinds: Only these kinds, such as ``scalar``; all by default.
        names: Only these names; shell patterns are allowed, where ``*`` also matches slashes.
        ranks: ``"all"``, or numbers.
        steps: ``"FIRST:LAST"``, either end may be missing, both are included; or a tuple of two.
        all_attempts: Also what a later attempt recorded again at the same step.
        overwrite: Replaces an existing export.
        progress: Called regularly with the number of the current run, from 1, and of the rows so far.

    Raises:
        NotARunError: When there is no run at one of the places.
        ExportError: For a wrong argument, when nothing matches, or when the folder cannot be written.
        MissingPackageError: When a package that the format needs is not installed.
        RunError: When a run's store cannot be read.
    """
    if format not in get_args(Format):
        raise ExportError(f"format is {format!r}; expected csv, parquet or jsonl")
    selection = Selection.checked(kinds=kinds, names=names, ranks=ranks, steps=steps, all_attempts=all_attempts)
    if format == "parquet":
        import_pyarrow()
    folders = find_runs(runs)
    with output_at(output, overwrite=overwrite) as folder, ExitStack() as stack:
        export = _Export(folder, _TABLES[format], selection)
        stack.callback(export.close)
        for number, (run, label) in enumerate(zip(folders, run_labels(folders), strict=True), start=1):
            for _ in export.add_run(run, label, number):
                if progress is not None:
                    progress(number, export.row_count)
        if not export.row_count:
            if export.damaged:
                raise ExportError(f"nothing to export: all {export.damaged} artifacts are damaged")
            raise ExportError(f"nothing to export: {_nothing(selection, len(folders))}")
        export.finish(folders)
    return Exported(
        str(output) if is_url(output) else Path(output).absolute(),
        dict(sorted(export.rows.items())),
        len(folders),
        selection.unused(),
        export.missing,
        export.damaged,
    )


class _Export:
    """An export that is being written."""

    def __init__(self, folder: OutputFolder, table: type[Table], selection: Selection) -> None:
        self.rows: Counter[str] = Counter()
        self.missing = self.damaged = 0
        self._folder = folder
        self._table = table
        self._selection = selection
        self._tables: dict[str, Table] = {}

    @property
    def row_count(self) -> int:
        """Rows of artifacts so far."""
        return self.rows.total() - self.rows["runs"]

    def add_run(self, run: Path, label: str, number: int) -> Iterator[None]:
        """Adds a run, and yields after each part of it."""
        with read_run(run) as record:
            self._write("runs", _run_row(record.info, label, run))
            ranks = self._selection.ranks_of(record.ranks)
        attachments = _Attachments(self, self._folder, run, f"{number}-{safe_part(label)}", self._table.embeds_images)
        try:
            for rank in ranks:
                until = extent(run, rank)
                latest = LatestAttempts(run, rank, self._selection, until)
                builder = TableBuilder(run, label, rank, attachments)
                for table, rows in read_rows(run, rank, self._selection, until, self._damage):
                    for name, chunk in builder.chunks(table, latest.kept(rows)):
                        self._write(name, chunk)
                    yield
        except sqlite3.Error as error:
            raise RunError(f"cannot read the run {run}: {error}") from error

    def _damage(self, count: int) -> None:
        self.damaged += count

    def finish(self, runs: Sequence[Path]) -> None:
        self.close()
        content = {
            "format": "stepscope-export",
            "version": FORMAT_VERSION,
            "tables": {
                name: {"file": name + self._table.suffix, "rows": rows} for name, rows in sorted(self.rows.items())
            },
            "runs": len(runs),
            "selection": self._selection.describe(),
            "missing": self.missing,
            "damaged": self.damaged,
        }
        self._folder.write_bytes(MANIFEST, json.dumps(content, indent=2, ensure_ascii=False).encode())

    def close(self) -> None:
        while self._tables:
            self._tables.popitem()[1].close()

    def _write(self, name: str, chunk: Chunk) -> None:
        table = self._tables.get(name)
        if table is None:
            stream = self._folder.open(name + self._table.suffix)
            table = self._tables[name] = self._table(stream, self._columns(name))
        table.write(chunk)
        self.rows[name] += row_count(chunk)

    def _columns(self, name: str) -> Mapping[str, ColumnType]:
        columns = dict(TABLES[name])
        if name == "images" and self._table.embeds_images:
            del columns["file"]
            columns["png"] = "bytes"
        return columns


class _Attachments:
    """The pictures and files of one run in the export."""

    def __init__(self, export: _Export, folder: OutputFolder, run_folder: Path, run: str, embeds_images: bool) -> None:
        self._export = export
        self._folder = folder
        self._folder_of_run = run_folder
        self._run = run
        self._embeds_images = embeds_images

    def keep_image(self, image: Image, rank: int, seq: int) -> dict[str, Any]:
        if self._embeds_images:
            return {"png": image.png}
        relative = self._relative("images", image, rank, seq, ".png")
        self._folder.write_bytes(relative, image.png)
        return {"file": relative}

    def keep_file(self, artifact: Page | File, rank: int, seq: int) -> str | None:
        suffix = safe_part(PurePath(artifact.filename).suffix)
        relative = self._relative(f"{artifact.kind}s", artifact, rank, seq, f".{suffix}" if suffix != "_" else "")
        try:
            self._folder.copy(self._folder_of_run, artifact.sha256, artifact.size, relative)
        except FileNotFoundError:
            self.miss()
            return None
        except (RunError, ValueError):
            self.damage()
            return None
        return relative

    def miss(self) -> None:
        self._export.missing += 1

    def damage(self) -> None:
        self._export.damaged += 1

    def _relative(self, folder: str, artifact: Image | Page | File, rank: int, seq: int, suffix: str) -> str:
        # The sequence number keeps files apart, also where a file system ignores case.
        return f"{folder}/{self._run}/{safe_part(artifact.name)}-{artifact.step:09d}-{rank}.{seq}{suffix}"


def _run_row(info: Any, label: str, run: Path) -> Chunk:
    return {
        "run": [label],
        "id": [info.id],
        "title": [info.name],
        "status": [info.status],
        "created": [info.created_ns],
        "tags": [json.dumps(list(info.tags), ensure_ascii=False)],
        "config": [json.dumps(info.config, ensure_ascii=False)],
        "environment": [json.dumps(dict(info.environment), ensure_ascii=False)],
        "path": [readable(run)],
    }


def _nothing(selection: Selection, runs: int) -> str:
    if unused := selection.unused():
        return f"no name in {runs} runs matches {' or '.join(map(repr, unused))}; stepscope ls RUN lists the names"
    return f"{runs} runs hold nothing of these kinds, ranks and steps"
