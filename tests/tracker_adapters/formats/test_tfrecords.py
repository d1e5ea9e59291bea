"""Event files' records: framed as TensorFlow does, and read where they are torn or damaged."""

import os
import struct

import google_crc32c
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.formats.tfrecords import framed, read_records

RECORDS = [bytes([number]) * (7 * number) for number in range(10)]
ENDS = np.cumsum([len(data) + 16 for data in RECORDS]).tolist()


def read(path, **limits):
    """What a file holds, and what is wrong with it."""
    with path.open("rb") as stream:
        found = list(read_records(stream, **limits))
    return [data for _, data, flaw in found if not flaw], [flaw for _, _, flaw in found if flaw]


def test_a_record_is_framed_as_tensorflow_does():
    """Length, its checksum, data, its checksum; each checksum masked as record_writer.h says."""

    def masked(data):
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", 18)
    expected = length + masked(length) + b"data of the record" + masked(b"data of the record")
    assert framed([b"data of the record"]) == expected


@given(cut=st.integers(0, ENDS[-1]), tail=st.sampled_from([b"", b"\0" * 100, b"\xff" * 7, os.urandom(64)]))
def test_of_a_torn_file_everything_before_is_kept(tmp_path_factory, cut, tail):
    path = tmp_path_factory.mktemp("torn") / "events"
    path.write_bytes(framed(RECORDS)[:cut] + tail)
    complete = sum(end <= cut for end in ENDS)
    found, flaws = read(path)
    assert found == RECORDS[:complete]
    assert bool(flaws) == (bool(tail) or cut not in (0, *ENDS))


@given(place=st.integers(0, ENDS[-1] - 1), flipped=st.integers(1, 255))
def test_a_flipped_byte_costs_its_record_or_in_its_length_the_rest(tmp_path_factory, place, flipped):
    path = tmp_path_factory.mktemp("flipped") / "events"
    content = bytearray(framed(RECORDS))
    content[place] ^= flipped
    path.write_bytes(content)
    damaged = sum(end <= place for end in ENDS)
    in_length = place - (ENDS[damaged - 1] if damaged else 0) < 12
    found, flaws = read(path)
    assert found == RECORDS[:damaged] + ([] if in_length else RECORDS[damaged + 1 :])
    assert len(flaws) == 1


def test_a_record_that_is_too_large_is_passed_over(tmp_path):
    (tmp_path / "events").write_bytes(framed([b"a", b"b" * 1000, b"c"]))
    assert read(tmp_path / "events", max_bytes=999) == ([b"a", b"c"], ["a record of more than 999 bytes"])
