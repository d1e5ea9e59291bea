"""Parquet files, by pyarrow."""

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from tracker_adapters.errors import MissingPackageError

from stepscope.export.columns import Chunk, Column, ColumnType, Constant, Names, row_count

GROUP_ROWS = 250_000
"""Rows of a row group; rows wait in memory until there are as many, or ``GROUP_BYTES`` of them."""
GROUP_BYTES = 32 * 1024 * 1024


class ParquetTable:
    """One table as a Parquet file.

    Texts are strings, times are ``timestamp[ns, UTC]``, arrays are lists, pictures are PNG bytes in the column ``png``.
    """

    suffix = ".parquet"
    embeds_images = True

    def __init__(self, stream: BinaryIO, columns: Mapping[str, ColumnType]) -> None:
        """Writes the head of the file.

        Raises:
            MissingPackageError: When pyarrow is not installed.
        """
        self._arrow, parquet = import_pyarrow()
        types = _types(self._arrow)
        self._schema = self._arrow.schema([(name, types[kind]) for name, kind in columns.items()])
        self._columns = columns
        self._stream = stream
        self._writer = parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, chunk: Chunk) -> None:
        """Appends rows."""
        table = self._arrow.Table.from_arrays(
            [self._array(chunk[name], kind) for name, kind in self._columns.items()], schema=self._schema
        )
        self._waiting.append(table)
        self._rows += row_count(chunk)
        self._bytes += table.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Writes the rows that wait, and the end of the file."""
        try:
            if self._waiting:
                self._write_group()
            self._writer.close()
        finally:
            self._stream.close()

    def _write_group(self) -> None:
        # One row group: readers skip whole groups by the lowest and highest value in them.
        self._writer.write_table(self._arrow.concat_tables(self._waiting), row_group_size=GROUP_ROWS)
        self._waiting = []
        self._rows = self._bytes = 0

    def _array(self, column: Column, kind: ColumnType) -> Any:
        arrow = self._arrow
        wanted = _types(arrow)[kind]
        if isinstance(column, Constant):
            return arrow.repeat(arrow.scalar(column.value, wanted), len(column))
        if isinstance(column, Names):
            codes = arrow.array(np.asarray(column.codes, np.int32))
            return arrow.DictionaryArray.from_arrays(codes, arrow.array(column.names, wanted)).dictionary_decode()
        if kind == "float":
            return arrow.array(np.asarray(column, np.float64))  # a list would make NaN and None alike
        if kind == "time":
            return arrow.array(np.asarray(column, np.int64)).view(wanted)
        if kind in ("floats", "ints"):
            ends = np.cumsum([0, *map(len, column)])
            inner = np.concatenate([np.empty(0, np.float64 if kind == "floats" else np.int64), *column])
            return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), arrow.array(inner))
        return arrow.array(column, wanted)


def import_pyarrow() -> tuple[Any, Any]:
    """Returns the modules ``pyarrow`` and ``pyarrow.parquet``.

    Raises:
        MissingPackageError: When pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingPackageError(
            f"Parquet needs the package pyarrow ({error}); pip install 'stepscope[export]', or export to csv or jsonl"
        ) from error
    return arrow, parquet


def _types(arrow: Any) -> Mapping[ColumnType, Any]:
    return {
        "name": arrow.string(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "time": arrow.timestamp("ns", tz="UTC"),
        "text": arrow.string(),
        "bytes": arrow.binary(),
        "floats": arrow.list_(arrow.float64()),
        "ints": arrow.list_(arrow.int64()),
    }
