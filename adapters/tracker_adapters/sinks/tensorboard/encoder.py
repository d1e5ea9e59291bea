"""Turns a batch into events, in the order in which its artifacts were emitted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from tracker_adapters.artifacts import Artifact, Histogram, Image
from tracker_adapters.sink import Batch, ScalarColumns
from tracker_adapters.sinks.tensorboard.event_file import EventFile
from tracker_adapters.sinks.tensorboard.markdown import to_markdown
from tracker_adapters.sinks.tensorboard.series import Series, SeriesIndex

MAX_BINS = 512
"""Bins of a histogram; a tensor of normally distributed values fills about 300."""


class Encoder:
    """Appends batches to an event file, which ``start`` or ``replay`` has to prepare."""

    def __init__(self, file: EventFile) -> None:
        self._file = file
        self._index = SeriesIndex()
        # One event serves for all: filling it again takes a quarter of the time of making one.
        self._event = Event()
        self._value = self._event.summary.value.add()

    def start(self, created_ns: int) -> None:
        """Writes the event that names the file's version to readers."""
        self._file.append(Event(wall_time=created_ns / 1e9, file_version="brain.Event:2").SerializeToString())

    def replay(self) -> None:
        """Reads what the file holds, and goes on from there."""
        for data in self._file.records():
            self._index.replay(Event.FromString(data))

    def append(self, batch: Batch) -> int:
        """Appends a batch; returns how many artifacts were left out because their step came too late."""
        late = done = 0
        for seq, group in _groups(batch):
            until = int(np.searchsorted(batch.scalars.seqs, seq))
            late += self._append_scalars(batch.scalars, done, until)
            late += self._append_group(group)
            done = until
        return late + self._append_scalars(batch.scalars, done, len(batch.scalars))

    def _append_scalars(self, columns: ScalarColumns, start: int, stop: int) -> int:
        late = 0
        with np.errstate(over="ignore"):
            values = columns.values[start:stop].astype(np.float32).tolist()
        steps, times_ns = columns.steps[start:stop].tolist(), columns.times_ns[start:stop].tolist()
        for name, step, time_ns, value in zip(columns.names[start:stop], steps, times_ns, values, strict=True):
            series = self._index.get("scalar", name)
            if step <= series.last_step:
                late += 1
                continue
            self._value.simple_value = value
            self._append_event(series, step, time_ns)
        return late

    def _append_group(self, group: list[Artifact]) -> int:
        first = group[0]
        series = self._index.get(first.kind, first.name)
        if first.step <= series.last_step:
            return len(group)
        match first:
            case Histogram():
                self._value.histo.CopyFrom(_histogram(first))
            case Image():
                self._value.image.CopyFrom(
                    Summary.Image(height=first.height, width=first.width, encoded_image_string=first.png)
                )
            case _:
                self._value.tensor.CopyFrom(_strings([to_markdown(artifact) for artifact in group]))
        self._append_event(series, first.step, first.time_ns)
        return 0

    def _append_event(self, series: Series, step: int, time_ns: int) -> None:
        event, value = self._event, self._value
        event.wall_time = time_ns / 1e9
        event.step = series.last_step = step
        value.tag = series.tag
        if series.metadata is None:
            self._file.append(event.SerializeToString())
            return
        value.metadata.CopyFrom(series.metadata)
        series.metadata = None
        self._file.append(event.SerializeToString())
        value.ClearField("metadata")


def _groups(batch: Batch) -> Iterator[tuple[int, list[Artifact]]]:
    """Yields what is no scalar, by sequence number; text of one kind, name and step comes together.

    A series shows one event a step, and one event can hold several texts.
    """
    numbered = [row for column in batch.columns() for row in zip(column.seqs, column.artifacts, strict=True)]
    groups: dict[tuple[object, ...], tuple[int, list[Artifact]]] = {}
    for seq, artifact in sorted(numbered, key=lambda row: row[0]):
        alone = seq if isinstance(artifact, (Histogram, Image)) else None
        key = (artifact.kind, artifact.name, artifact.step, alone)
        groups.setdefault(key, (seq, []))[1].append(artifact)
    yield from groups.values()


def _histogram(histogram: Histogram) -> HistogramProto:
    edges, counts = histogram.edges(MAX_BINS)
    finite = histogram.finite_count
    with np.errstate(over="ignore"):
        total = float(np.float64(histogram.mean) * finite) if finite else 0.0
        squares = float(histogram.m2 + np.square(histogram.mean) * finite) if finite else 0.0
    return HistogramProto(
        min=histogram.min,
        max=histogram.max,
        num=finite,
        sum=total,
        sum_squares=squares,
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )


def _strings(texts: list[str]) -> TensorProto:
    """A single text as a rank-0 tensor; several as rank 1, which TensorBoard shows as a table of them."""
    dims = [TensorShapeProto.Dim(size=len(texts))] if len(texts) > 1 else []
    return TensorProto(
        dtype=DT_STRING,
        tensor_shape=TensorShapeProto(dim=dims),
        string_val=[text.encode() for text in texts],
    )
