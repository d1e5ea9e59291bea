"""Events that are put together by hand are the bytes that protobuf makes and reads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tracker_adapters.errors import StartOver
from tracker_adapters.formats.protobuf import delimited
from tracker_adapters.sinks.tensorboard import wire
from tracker_adapters.sinks.tensorboard.event_file import EventFile

TAGS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)
TIMES = st.integers(1, 2**63 - 1)
STEPS = st.integers(1, 2**63 - 1)


def protobuf_event(time_ns, step, tag):
    seconds = float(np.array([time_ns], np.int64)[0] / 1e9)
    return Event(wall_time=seconds, step=step, summary=Summary(value=[Summary.Value(tag=tag)]))


def fields(time_ns, step, tag):
    (wall,) = wire.wall_times(np.array([time_ns], np.int64))
    return wall, wire.step_fields([step])[step], wire.tag_field(tag)


@given(TIMES, STEPS, TAGS, st.floats(width=32))
def test_a_scalar_is_the_event_that_protobuf_writes(time_ns, step, tag, value):
    expected = protobuf_event(time_ns, step, tag)
    expected.summary.value[0].simple_value = value
    wall, step_field, tag_field = fields(time_ns, step, tag)
    (number,) = wire.simple_values(np.array([value]))
    assert wall + step_field + wire.scalar_head(tag_field) + number == expected.SerializeToString()
    assert wire.event(wall, step_field, tag_field, number) == expected.SerializeToString()


@given(TIMES, STEPS, TAGS, st.binary(max_size=20_000), TAGS)
def test_images_and_metadata_are_what_protobuf_writes(time_ns, step, tag, png, name):
    expected = protobuf_event(time_ns, step, tag)
    expected.summary.value[0].image.CopyFrom(Summary.Image(height=3, width=5, encoded_image_string=png or b"x"))
    expected.summary.value[0].metadata.CopyFrom(SummaryMetadata(display_name=name))
    size = Summary.Image(height=3, width=5).SerializeToString()
    image = delimited(wire.IMAGE, size, delimited(wire.ENCODED_IMAGE, png or b"x"))
    metadata = delimited(wire.METADATA, SummaryMetadata(display_name=name).SerializeToString())
    wall, step_field, tag_field = fields(time_ns, step, tag)
    assert wire.event(wall, step_field, tag_field, image, metadata) == expected.SerializeToString()


def test_zero_and_infinity_keep_their_meaning():
    wall, step_field, tag_field = fields(0, 0, "loss")
    for value in (0.0, -0.0, math.nan, math.inf, -math.inf, 1e300):
        (number,) = wire.simple_values(np.array([value]))
        event = Event.FromString(wall + step_field + wire.scalar_head(tag_field) + number)
        with np.errstate(over="ignore"):
            assert repr(event.summary.value[0].simple_value) == repr(float(np.float32(value)))
        assert (event.wall_time, event.step, event.summary.value[0].tag) == (0.0, 0, "loss")


def test_a_histogram_and_a_tensor_go_where_readers_look():
    fields_ = fields(1, 1, "h")
    numbers = HistogramProto(min=1, max=2, num=3, bucket_limit=[2.0], bucket=[3.0])
    event = Event.FromString(wire.event(*fields_, delimited(wire.HISTOGRAM, numbers.SerializeToString())))
    assert event.summary.value[0].histo == numbers
    event = Event.FromString(wire.event(*fields_, delimited(wire.TENSOR, b"")))
    assert event.summary.value[0].WhichOneof("value") == "tensor"


# The frames around them.


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_records_read_back_with_their_places(tmp_path_factory, records):
    file = EventFile.create(tmp_path_factory.mktemp("records") / "events")
    file.append(records)
    found = list(file.records())
    assert [data for _, data in found] == records
    assert [offset for offset, _ in found] == [sum(len(data) + 16 for data in records[:n]) for n in range(len(records))]
    assert file.sync() == file.size == file.path.stat().st_size
    file.close()


def cut(content, place):
    return content[:place]


def filled_with_nul(content, place):
    return content[:place] + bytes(len(content) - place)


@pytest.mark.parametrize("damage", [cut, filled_with_nul])
@given(data=st.data(), records=st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4))
def test_damage_before_the_place_of_the_token_is_found(tmp_path_factory, damage, data, records):
    file = EventFile.create(tmp_path_factory.mktemp("damage") / "events")
    file.append(records)
    size = file.sync()
    file.close()
    whole = file.path.read_bytes()
    damaged = damage(whole, data.draw(st.integers(0, size - 1)))
    file.path.write_bytes(damaged)
    if damaged == whole:  # the last bytes were NUL already
        return
    with pytest.raises(StartOver):
        list(EventFile.reopen(file.path.parent, file.path.name, size).records())
