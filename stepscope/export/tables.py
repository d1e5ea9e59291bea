"""Turns rows of the store into chunks of the tidy tables."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from tracker_adapters.artifacts import Artifact, Cell, File, Image, Page, Table
from tracker_adapters.store.reading.columns import Integers, SegmentRows
from tracker_adapters.store.segments.codec import DAMAGED, decode_artifact

from stepscope.export.columns import Chunk, Column, Constant, Names, content_columns
from stepscope.export.histograms import histogram_columns
from stepscope.export.selection import TABLE_OF_KIND

CHUNK_BYTES = 16 * 1024 * 1024
"""Memory that the records of other artifacts may take until they are written."""
_RECORD_BYTES = 700  # of a dictionary with its numbers
_CELL_TYPES = {str: "str", bool: "bool", int: "int", float: "float", type(None): "null"}


class Attachments(Protocol):
    """Takes pictures and files into the export."""

    def keep_image(self, image: Image, rank: int, seq: int) -> dict[str, Any]:
        """Takes a picture with its sequence number; returns the columns of ``images`` behind ``height``."""
        ...

    def keep_file(self, artifact: Page | File, rank: int, seq: int) -> str | None:
        """Takes a file; returns where it is in the export, or None when it is missing in the run."""
        ...

    def miss(self) -> None:
        """Counts an artifact whose content is missing in the run."""
        ...

    def damage(self) -> None:
        """Counts an artifact whose content is damaged."""
        ...


class TableBuilder:
    """Builds chunks from the rows of one run and rank."""

    def __init__(self, run_folder: Path, label: str, rank: int, attachments: Attachments) -> None:
        self._run_folder = run_folder
        self._label = label
        self._rank = rank
        self._attachments = attachments

    def chunks(self, table: str, rows: SegmentRows) -> Iterator[tuple[str, Chunk]]:
        """Yields ``(name of the tidy table, rows)`` of rows of one of a segment's tables."""
        if not len(rows):
            return
        if table == "artifact":
            yield from self._artifact_chunks(rows)
            return
        numbers, codes = np.unique(rows.numbers, return_inverse=True)
        # Attempts ascend with the sequence numbers.
        is_one = rows.attempts[0] == rows.attempts[-1]
        start = self._start(codes, [rows.series[number][1] for number in numbers.tolist()]) | {
            "attempt": Constant(int(rows.attempts[0]), len(rows)) if is_one else rows.attempts,
            "step": rows.steps,
            "time": rows.times_ns,
        }
        if table == "scalar":
            yield "scalars", start | {"value": rows.content}
        else:
            yield "histograms", start | histogram_columns(rows.content)

    def _start(self, codes: Sequence[int] | Integers, names: list[str]) -> dict[str, Column]:
        rank = Constant(self._rank, len(codes))
        # The places of attempt, step and time are kept for the caller.
        return {"run": Constant(self._label, len(codes)), "rank": rank, "attempt": (), "name": Names(codes, names)}

    def _artifact_chunks(self, rows: SegmentRows) -> Iterator[tuple[str, Chunk]]:
        waiting: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
        nbytes = 0
        integers = (rows.seqs, rows.numbers, rows.attempts, rows.steps, rows.times_ns)
        for start, content in zip(
            zip(*(column.tolist() for column in integers), strict=True), rows.content, strict=True
        ):
            seq, number, attempt, step, time_ns = start
            kind, name = rows.series[number]
            artifact = self._decoded(kind, name, (*start, *content))
            if artifact is None:
                continue
            common = {"attempt": attempt, "step": step, "time": time_ns}
            for record in self._records(artifact, seq):
                waiting[TABLE_OF_KIND[kind]].append((name, common | record))
                payload = sum(len(value) for value in record.values() if isinstance(value, (bytes, str)))
                nbytes += _RECORD_BYTES + payload
                if nbytes > CHUNK_BYTES:
                    yield from self._joined(waiting)
                    waiting.clear()
                    nbytes = 0
        yield from self._joined(waiting)

    def _decoded(self, kind: str, name: str, row: Any) -> Artifact | None:
        """The artifact of a row; None, counted, when its content is missing or damaged."""
        try:
            return decode_artifact(kind, name, row, self._run_folder)
        except FileNotFoundError:  # a large one is in a file of its own
            self._attachments.miss()
        except (OSError, *DAMAGED):
            self._attachments.damage()
        return None

    def _joined(self, waiting: dict[str, list[tuple[str, dict[str, Any]]]]) -> Iterator[tuple[str, Chunk]]:
        for table, named in waiting.items():
            names = list(dict.fromkeys(name for name, _ in named))
            codes = {name: code for code, name in enumerate(names)}
            start = self._start([codes[name] for name, _ in named], names)
            records = [record for _, record in named]
            yield table, start | {key: [record[key] for record in records] for key in records[0]}

    def _records(self, artifact: Artifact, seq: int) -> Iterator[dict[str, Any]]:
        match artifact:
            case Image():
                size = {"width": artifact.width, "height": artifact.height}
                yield size | self._attachments.keep_image(artifact, self._rank, seq)
            case Table():
                for number, cells in enumerate(artifact.rows):
                    for column, cell in zip(artifact.columns, cells, strict=True):
                        yield {"row": number, "column": column, "type": _CELL_TYPES[type(cell)], "value": _text(cell)}
            case Page():
                entries = [[entry.datapoint, entry.debugger, entry.summary] for entry in artifact.contents]
                yield self._file(artifact, seq) | {"contents": msgspec.json.encode(entries).decode()}
            case File():
                yield self._file(artifact, seq) | {"media_type": artifact.media_type}
            case _:
                held = {key: getattr(artifact, key) for key in content_columns(type(artifact))}
                arrays = {key: value.tolist() for key, value in held.items() if isinstance(value, np.ndarray)}
                for values in zip(*arrays.values(), strict=True) if arrays else ((),):
                    yield held | dict(zip(arrays, values, strict=True))

    def _file(self, artifact: Page | File, seq: int) -> dict[str, Any]:
        file = self._attachments.keep_file(artifact, self._rank, seq)
        return {"file": file, "filename": artifact.filename, "size": artifact.size, "sha256": artifact.sha256}


def _text(cell: Cell) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return str(cell).lower() if isinstance(cell, bool) else repr(cell)
