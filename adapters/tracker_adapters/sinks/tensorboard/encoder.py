"""Turns a batch into events, in the order in which its artifacts were emitted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from tracker_adapters.artifacts import Artifact, Image
from tracker_adapters.formats.protobuf import delimited
from tracker_adapters.sink import Batch, HistogramRows, RunInfo, RunStatus, ScalarColumns
from tracker_adapters.sinks.tensorboard import wire
from tracker_adapters.sinks.tensorboard.dashboards import first_events, last_events
from tracker_adapters.sinks.tensorboard.event_file import EventFile
from tracker_adapters.sinks.tensorboard.histograms import histogram_protos
from tracker_adapters.sinks.tensorboard.markdown import to_markdown
from tracker_adapters.sinks.tensorboard.series import PICTURES, Series, SeriesIndex

_COPIED_AT_ONCE = 1000
_READ_AT_ONCE = 100_000


class Encoder:
    """Appends batches to an event file, which ``start`` or ``replay`` has to prepare.

    Each artifact is an event of its own, so the bytes do not depend on where batches end; only texts of one kind, name
    and step share one, since a series shows one event a step.

    Args:
        file: The event file.
        attempt: The run's attempt that wrote last.
        began: Where in the file its events begin.
        progressed: Called now and then while a long file is read.
        view_command: Opens the run in the viewer; alerts end with it.
    """

    def __init__(
        self,
        file: EventFile,
        progressed: Callable[[], object],
        *,
        attempt: int = 1,
        began: int = 0,
        view_command: str = "",
    ) -> None:
        self.file = file
        self.attempt = attempt
        self.began = began
        self._progressed = progressed
        self._view_command = view_command
        self._index = SeriesIndex()
        self._last_s = 0.0
        """The time of the last event, in seconds since the epoch."""

    def start(self, info: RunInfo) -> None:
        """Writes the events that begin a file: its version, that what readers had of this run is void, its dashboards.

        TensorBoard's Python loader forgets the run at the second ``START`` that it sees, so when it moves on to a file
        that takes the place of another one. Its data server goes by the steps alone.
        """
        wall_time = info.created_ns / 1e9
        version = Event(wall_time=wall_time, file_version="brain.Event:2")
        session = Event(wall_time=wall_time, session_log=SessionLog(status=SessionLog.START))
        self.file.append([version.SerializeToString(), session.SerializeToString(), *first_events(info)])

    def finish(self, info: RunInfo, status: RunStatus) -> None:
        """Writes the events that end a file; they lie behind what a token stands for, and go when the run goes on."""
        tags = [series.tag for series in self._index.of_kind("scalar").values()]
        self.file.append(last_events(info, status, self._last_s or info.created_ns / 1e9, tags))
        self.file.sync()

    def replay(self) -> None:
        """Reads what the file holds, and goes on from there."""
        for offset, data in self._records():
            event = Event.FromString(data)
            self._last_s = max(self._last_s, event.wall_time)
            self._index.replay(event, of_this_attempt=offset >= self.began)

    def begin_attempt(self, attempt: int) -> None:
        """From here on the events are those of a later attempt."""
        if attempt > self.attempt:
            self.attempt, self.began = attempt, self.file.size
            self._index.begin_attempt()

    def superseded_by(self, batch: Batch) -> dict[str, int]:
        """Returns what a batch of a later attempt takes the place of: tags, and the step from which on they go.

        Each name goes back on its own, to the step that it has first in the later attempt.
        """
        found: dict[str, int] = {}
        for _, kind, name, step in self._newcomers(batch):
            series = self._index.of_kind(kind).get(name)
            if series is not None and step <= series.last_step:
                found |= dict.fromkeys((series.tag, *(further.tag for further in series.further)), step)
        return found

    def moved_to(self, file: EventFile, superseded: Mapping[str, int]) -> Encoder:
        """Copies everything but what is superseded to an empty file; returns an encoder that goes on there."""
        moved = Encoder(file, self._progressed, attempt=self.attempt, view_command=self._view_command)
        moved._index, moved._last_s = self._index.emptied(), self._last_s
        began: int | None = None
        kept: list[bytes] = []
        for offset, data in self._records():
            event = Event.FromString(data)
            of_this_attempt = offset >= self.began
            if not of_this_attempt and any(event.step >= superseded.get(v.tag, math.inf) for v in event.summary.value):
                continue
            if len(kept) == _COPIED_AT_ONCE or (of_this_attempt and began is None):
                file.append(kept)
                kept.clear()
            if of_this_attempt and began is None:
                began = file.size
            kept.append(data)
            moved._index.replay(event, of_this_attempt=of_this_attempt)
        file.append(kept)
        moved.began = file.size if began is None else began
        return moved

    def append(self, batch: Batch) -> int:
        """Appends a batch; returns how many artifacts were left out because their step came too late."""
        groups, histograms = _groups(batch), HistogramRows.of(batch.histograms.artifacts)
        for _, kind, name, _ in self._newcomers(batch):
            self._index.add(kind, name)
        events = [*self._scalars(batch.scalars), *self._histograms(histograms), *self._others(groups)]
        group_seqs = np.array([seq for seq, _ in groups], np.int64)
        seqs = np.concatenate([batch.scalars.seqs, np.asarray(batch.histograms.seqs, np.int64), group_seqs])
        order = np.argsort(seqs, kind="stable").tolist()
        times = (batch.scalars.times_ns, histograms.times_ns, [group[0].time_ns for _, group in groups])
        self._last_s = max([self._last_s, *(int(max(some)) / 1e9 for some in times if len(some))])
        self.file.append([data for place in order if (data := events[place])])
        sizes = [*[1] * (len(events) - len(groups)), *(len(group) for _, group in groups)]
        return sum(size for data, size in zip(events, sizes, strict=True) if not data)

    def _records(self) -> Iterator[tuple[int, bytes]]:
        for number, record in enumerate(self.file.records()):
            if number % _READ_AT_ONCE == 0:
                self._progressed()
            yield record

    def _newcomers(self, batch: Batch) -> list[tuple[int, str, str, int]]:
        """The sequence number, kind, name and step of what each name that this attempt has not written begins with."""
        found = []
        for kind, seqs, names, steps in _names(batch):
            known = self._index.of_kind(kind)
            new = {name for name in set(names) if (one := known.get(name)) is None or not one.of_this_attempt}
            for seq, name, step in zip(seqs, names, steps, strict=True) if new else ():
                if name in new:
                    new.remove(name)
                    found.append((int(seq), kind, name, int(step)))
        return sorted(found)

    def _scalars(self, columns: ScalarColumns) -> Iterator[bytes]:
        """The event of each scalar, empty where its step comes too late."""
        known, steps = self._index.of_kind("scalar"), columns.steps.tolist()
        step_fields = wire.step_fields(steps)
        walls, values = wire.wall_times(columns.times_ns), wire.simple_values(columns.values)
        for name, step, wall, value in zip(columns.names, steps, walls, values, strict=True):
            series = known[name]
            if step <= series.last_step:
                yield b""
            elif series.metadata:
                yield _event(series, wall, step, value)
            else:
                series.last_step = step
                yield b"".join((wall, step_fields[step], series.scalar_head, value))

    def _histograms(self, rows: HistogramRows) -> Iterator[bytes]:
        known, walls = self._index.of_kind("histogram"), wire.wall_times(rows.times_ns)
        protos = histogram_protos(rows.columns)
        for name, step, wall, proto in zip(rows.names, rows.steps.tolist(), walls, protos, strict=True):
            series = known[name]
            late = step <= series.last_step
            yield b"" if late else _event(series, wall, step, delimited(wire.HISTOGRAM, proto))

    def _others(self, groups: Sequence[tuple[int, list[Artifact]]]) -> Iterator[bytes]:
        walls = wire.wall_times(np.array([group[0].time_ns for _, group in groups], np.int64))
        for wall, (_, group) in zip(walls, groups, strict=True):
            first = group[0]
            if first.kind in PICTURES:
                series = self._index.of_kind(first.kind)[first.name]
                late = first.step <= series.last_step
                yield b"" if late else _event(series, wall, first.step, _image(PICTURES[first.kind](first)))
            else:
                room = self._index.with_room(first.kind, first.name, first.step)
                texts = [to_markdown(one, self._view_command) for one in group]
                yield _event(room, wall, first.step, _strings(texts)) if room else b""


def _event(series: Series, wall: bytes, step: int, content: bytes) -> bytes:
    """The next event of a series, with its metadata if it is the first one."""
    series.last_step = step
    metadata, series.metadata = series.metadata, b""
    return wire.event(wall, wire.step_field(step), series.tag_field, content, metadata)


def _names(batch: Batch) -> Iterator[tuple[str, Iterable[int], Sequence[str], Iterable[int]]]:
    """The kind, sequence numbers, names and steps of each column."""
    scalars, histograms = batch.scalars, HistogramRows.of(batch.histograms.artifacts)
    yield "scalar", scalars.seqs, scalars.names, scalars.steps
    yield "histogram", batch.histograms.seqs, histograms.names, histograms.steps
    for column in batch.columns():
        if column and column is not batch.histograms:
            found = column.artifacts
            yield found[0].kind, column.seqs, [one.name for one in found], [one.step for one in found]


def _groups(batch: Batch) -> list[tuple[int, list[Artifact]]]:
    """What is neither scalar nor histogram, by sequence number; text of one kind, name and step comes together."""
    groups: dict[tuple[object, ...], tuple[int, list[Artifact]]] = {}
    for seq, artifact in batch.singles():
        alone = seq if artifact.kind in PICTURES else None
        key = (artifact.kind, artifact.name, artifact.step, alone)
        groups.setdefault(key, (seq, []))[1].append(artifact)
    return list(groups.values())


def _image(image: Image) -> bytes:
    numbers = Summary.Image(height=image.height, width=image.width).SerializeToString()
    return delimited(wire.IMAGE, numbers, delimited(wire.ENCODED_IMAGE, image.png))


def _strings(texts: list[str]) -> bytes:
    """A single text as a rank-0 tensor; several as rank 1, which TensorBoard shows as a table of them."""
    dims = [TensorShapeProto.Dim(size=len(texts))] if len(texts) > 1 else []
    tensor = TensorProto(
        dtype=DT_STRING,
        tensor_shape=TensorShapeProto(dim=dims),
        string_val=[text.encode() for text in texts],
    )
    return delimited(wire.TENSOR, tensor.SerializeToString())
