"""Turns a batch into events, in the order in which its artifacts were emitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from tracker_adapters.artifacts import Artifact, Image
from tracker_adapters.sink import Batch, HistogramRows, ScalarColumns
from tracker_adapters.sinks.tensorboard.event_file import EventFile
from tracker_adapters.sinks.tensorboard.histograms import histogram_protos
from tracker_adapters.sinks.tensorboard.markdown import to_markdown
from tracker_adapters.sinks.tensorboard.series import Series, SeriesIndex


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
        groups, histograms = _groups(batch), HistogramRows.of(batch.histograms.artifacts)
        late = 0
        for stream, start, stop in _runs(batch.scalars.seqs, batch.histograms.seqs, [seq for seq, _ in groups]):
            if stream == 0:
                late += self._append_scalars(batch.scalars, start, stop)
            elif stream == 1:
                late += self._append_histograms(histograms, start, stop)
            else:
                late += sum(self._append_group(group) for _, group in groups[start:stop])
        return late

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

    def _append_histograms(self, rows: HistogramRows, start: int, stop: int) -> int:
        late = 0
        steps, times_ns = rows.steps[start:stop].tolist(), rows.times_ns[start:stop].tolist()
        protos = histogram_protos(rows.columns.rows(start, stop))
        for name, step, time_ns, proto in zip(rows.names[start:stop], steps, times_ns, protos, strict=True):
            series = self._index.get("histogram", name)
            if step <= series.last_step:
                late += 1
                continue
            self._value.histo.ParseFromString(proto)
            self._append_event(series, step, time_ns)
        return late

    def _append_group(self, group: list[Artifact]) -> int:
        first = group[0]
        series = self._index.get(first.kind, first.name)
        if first.step <= series.last_step:
            return len(group)
        match first:
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


def _runs(*streams: Sequence[int] | npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yields ``(stream, start, stop)`` of what follows each other, from streams of ascending sequence numbers."""
    places = [0] * len(streams)
    order = np.repeat(np.arange(len(streams)), [len(seqs) for seqs in streams])
    order = order[np.argsort(np.concatenate([np.asarray(seqs, np.int64) for seqs in streams]), kind="stable")]
    starts = np.flatnonzero(np.diff(order, prepend=-1))
    for stream, length in zip(order[starts].tolist(), np.diff(starts, append=order.size).tolist(), strict=True):
        yield stream, places[stream], places[stream] + length
        places[stream] += length


def _groups(batch: Batch) -> list[tuple[int, list[Artifact]]]:
    """What is neither scalar nor histogram, by sequence number; text of one kind, name and step comes together.

    A series shows one event a step, and one event can hold several texts.
    """
    columns = [column for column in batch.columns() if column is not batch.histograms]
    numbered = [row for column in columns for row in zip(column.seqs, column.artifacts, strict=True)]
    groups: dict[tuple[object, ...], tuple[int, list[Artifact]]] = {}
    for seq, artifact in sorted(numbered, key=lambda row: row[0]):
        alone = seq if isinstance(artifact, Image) else None
        key = (artifact.kind, artifact.name, artifact.step, alone)
        groups.setdefault(key, (seq, []))[1].append(artifact)
    return list(groups.values())


def _strings(texts: list[str]) -> TensorProto:
    """A single text as a rank-0 tensor; several as rank 1, which TensorBoard shows as a table of them."""
    dims = [TensorShapeProto.Dim(size=len(texts))] if len(texts) > 1 else []
    return TensorProto(
        dtype=DT_STRING,
        tensor_shape=TensorShapeProto(dim=dims),
        string_val=[text.encode() for text in texts],
    )
