"""Event files that nobody vouches for: torn, damaged, made to harm; and what becomes of each kind of value."""

import struct
import tracemalloc
from contextlib import contextmanager

import google_crc32c
import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT, DT_STRING
from tracker_adapters.artifacts import Image
from tracker_adapters.errors import RunExistsError

import stepscope
from stepscope.importing import ImportingError, import_runs

FILE = "events.out.tfevents.1.host"


def framed(data):
    def masked(part):
        crc = google_crc32c.value(part)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def event(step=0, wall_time=1.5, **value):
    content = Event(step=step, wall_time=wall_time, summary=Summary(value=[Summary.Value(**value)]))
    return framed(content.SerializeToString())


def scalar_events(count):
    return [event(step, wall_time=step / 4, tag="loss", simple_value=step / 2) for step in range(count)]


def tensor(shape, **content):
    dims = [TensorShapeProto.Dim(size=size) for size in shape]
    return TensorProto(tensor_shape=TensorShapeProto(dim=dims), **content)


def plugin(name, content=b""):
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


@contextmanager
def imported(folder, *records):
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / FILE).write_bytes(b"".join(records))
    (one,) = import_runs(folder / "logs", folder / "runs")
    with stepscope.read_run(one.run) as record:
        yield record, one


def test_old_and_new_scalars_keep_step_time_and_value(tmp_path):
    with imported(
        tmp_path,
        event(3, 1234.25, tag="old", simple_value=0.1),
        event(3, 1234.5, tag="old", simple_value=float("nan")),
        event(1, 2.0, tag="new", tensor=tensor([], dtype=DT_FLOAT, float_val=[2.5]), metadata=plugin("scalars")),
        event(2, 3.0, tag="new", tensor=tensor([], dtype=DT_FLOAT, float_val=[float("inf")])),
    ) as (record, one):
        old, new = record.scalars("old"), record.scalars("new")
    assert old.times_ns.tolist() == [1_234_250_000_000, 1_234_500_000_000]
    np.testing.assert_array_equal(old.values, [np.float32(0.1), np.nan])
    assert (new.steps.tolist(), new.values.tolist()) == ([1, 2], [2.5, float("inf")])
    assert one.counts == {"scalar": 4}
    assert one.skipped.counts == {}
    assert (record.info.name, record.info.status, record.info.tags) == ("logs", "finished", ("imported",))


def test_histograms_become_tables_with_their_own_edges(tmp_path):
    old = HistogramProto(min=-1.0, max=3.0, num=5, bucket_limit=[0.0, 2.0, 1e308], bucket=[1.0, 2.0, 2.0])
    rows = np.array([[-1.0, 0.0, 1.0], [0.0, 2.0, 2.0]], np.float32)
    new = tensor([2, 3], dtype=DT_FLOAT, tensor_content=rows.tobytes())
    with imported(
        tmp_path, event(1, tag="h", histo=old), event(2, tag="n", tensor=new, metadata=plugin("histograms"))
    ) as (record, _):
        (first,), (second,) = record.tables("h"), record.tables("n")
    assert first.columns == second.columns == ("left", "right", "count")
    assert first.rows == ((-1.0, 0.0, 1.0), (0.0, 2.0, 2.0), (2.0, 3.0, 2.0))
    assert second.rows == ((-1.0, 0.0, 1.0), (0.0, 2.0, 2.0))


def test_pictures_texts_sounds_and_tensors_have_their_kinds(tmp_path):
    png = Image.from_array("x", np.zeros((2, 3), np.uint8), step=0, layout="HW").png
    with imported(
        tmp_path,
        event(1, tag="png", image=Summary.Image(encoded_image_string=png)),
        event(
            1,
            tag="new",
            tensor=tensor([4], dtype=DT_STRING, string_val=[b"3", b"2", png, png]),
            metadata=plugin("images"),
        ),
        event(1, tag="gif", image=Summary.Image(encoded_image_string=b"GIF89a...")),
        event(2, tag="text", tensor=tensor([1], dtype=DT_STRING, string_val=[b"hi \xff"]), metadata=plugin("text")),
        event(3, tag="matrix", tensor=tensor([2, 2], dtype=DT_FLOAT, float_val=[1, 2, 3, float("nan")])),
        event(4, tag="sound", audio=Summary.Audio(encoded_audio_string=b"RIFF", content_type="audio/wav")),
    ) as (record, one):
        assert [(image.width, image.height, image.png) for image in record.images("png")] == [(3, 2, png)]
        assert len(record.images("new")) == 2
        assert [text.text for text in record.texts("text")] == ["hi \ufffd"]
        assert repr(record.tables("matrix")[0].rows) == "((1.0, 2.0), (3.0, nan))"
        files = {file.name: (file.media_type, file.path.read_bytes()) for file in record.files()}
    assert files == {"gif": ("image/gif", b"GIF89a..."), "sound": ("audio/wav", b"RIFF")}
    assert one.skipped.counts == {}


def test_a_file_after_a_restart_is_a_new_attempt(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "events.out.tfevents.1.a").write_bytes(b"".join(scalar_events(10)))
    again = [event(step, tag="loss", simple_value=100.0) for step in range(6, 8)]
    (logs / "events.out.tfevents.2.a").write_bytes(b"".join([event(tag="other", simple_value=1.0), *again]))
    (one,) = import_runs(logs, tmp_path / "runs")
    with stepscope.read_run(one.run) as record:
        assert record.scalars("loss").values.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 100, 100, 4, 4.5]
        assert record.scalars("other").values.tolist() == [1.0]


def test_each_folder_with_event_files_is_a_run(tmp_path):
    for place in ("", "a", "a/b"):
        (tmp_path / "logs" / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / place / FILE).write_bytes(b"".join(scalar_events(1)))
    assert [one.run.name for one in import_runs(tmp_path / "logs", tmp_path / "runs")] == ["logs", "a", "a-b"]
    with pytest.raises(RunExistsError, match="an import only creates new runs"):
        import_runs(tmp_path / "logs", tmp_path / "runs")


def test_what_is_made_to_harm_is_left_out_and_named(tmp_path):
    length = struct.pack("<Q", 2**62)
    crc = google_crc32c.value(length)
    huge_record = length + struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 2**31, 2**31) + b"\0" * 10
    tracemalloc.start()
    with imported(
        tmp_path,
        event(tag="good", simple_value=1.0),
        event(tag="bomb", tensor=tensor([10**6, 10**6], dtype=DT_FLOAT, float_val=[1.0])),
        event(tag="negative", tensor=tensor([-1], dtype=DT_FLOAT, float_val=[1.0])),
        event(tag="short", tensor=tensor([2], dtype=DT_FLOAT, tensor_content=b"x")),
        event(tag="dtype", tensor=tensor([1], dtype=999)),
        event(tag="texts", tensor=tensor([1001], dtype=DT_STRING, string_val=[b"x"] * 1001)),
        event(tag="cube", tensor=tensor([1, 1, 1], dtype=DT_FLOAT, float_val=[1.0])),
        event(tag="pixels", image=Summary.Image(encoded_image_string=png)),
        event(tag="picture", image=Summary.Image(encoded_image_string=b"<svg onload=...>")),
        event(tag="edges", histo=HistogramProto(bucket_limit=[1.0], bucket=[1.0, 2.0])),
        event(tag="n" * 2000, simple_value=1.0),
        event(tag="", simple_value=1.0),
        event(tag="a\0b", simple_value=1.0),
        event(-5, tag="past", simple_value=1.0),
        event(1, float("nan"), tag="good", simple_value=2.0),
        framed(b"\xff\xff no protobuf"),
        framed(Event(graph_def=b"...").SerializeToString()),
        event(tag="hparams", metadata=plugin("hparams", b"\xff")),
        event(tag="_hparams_/session_start_info", metadata=plugin("hparams", b"\xff")),
        huge_record,
    ) as (record, one):
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert record.scalars("good").values.tolist() == [1.0, 2.0]
        assert record.scalars("good").times_ns.tolist() == [1_500_000_000, 1_500_000_000]
        assert one.counts == {"scalar": 2}
    assert sum(one.skipped.counts.values()) == 19
    text = "\n".join(one.skipped.lines())
    for reason in (
        "10000 elements",
        "1000 texts",
        "pixels",
        "neither PNG",
        "step below 0",
        "truncated record",
        "not an event",
        "hparams",
    ):
        assert reason in text
    assert peak < 64 * 1024 * 1024


def test_an_import_that_is_interrupted_leaves_no_run(tmp_path):
    (tmp_path / "logs" / "a").mkdir(parents=True)
    for place in ("", "a"):
        (tmp_path / "logs" / place / FILE).write_bytes(b"".join(scalar_events(3)))

    def stop(root):
        if root.name == "a":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_runs(tmp_path / "logs", tmp_path / "runs", progress=stop)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["logs"]


def test_a_folder_without_anything_and_a_run_are_named(tmp_path):
    with pytest.raises(ImportingError, match="is not a folder"):
        import_runs(tmp_path / "missing", tmp_path / "runs")
    with pytest.raises(ImportingError, match="holds nothing to import"):
        import_runs(tmp_path, tmp_path / "runs")
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    with pytest.raises(ImportingError, match="is a run already"):
        import_runs(tmp_path / "run", tmp_path / "runs")


def test_a_link_to_an_event_file_is_followed_within_the_folder_only(tmp_path):
    for folder in ("logs/a", "logs/b", "private"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "events.out.tfevents.1").write_bytes(b"".join(scalar_events(2)))
    (tmp_path / "logs" / "a" / "events.out.tfevents.2").symlink_to(tmp_path / "private" / "events.out.tfevents.1")
    (tmp_path / "logs" / "c").mkdir()
    (tmp_path / "logs" / "c" / "events.out.tfevents.1").symlink_to(tmp_path / "logs" / "b" / "events.out.tfevents.1")
    found = {one.source.name: one for one in import_runs(tmp_path / "logs", tmp_path / "runs")}
    assert {name: one.counts for name, one in found.items()} == {name: {"scalar": 2} for name in "abc"}
    assert found["a"].skipped.counts == {"a link that leads out of the folder": 1}
