"""A page's checksum and size are known when it is written, whatever the pieces that it was written in."""

import hashlib
import os
import threading

import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.page_files import stream as page_stream
from debuggers.page_files.stream import Checksum, PageStream

pieces = st.lists(st.binary(max_size=300) | st.integers(1, 2**21).map(bytes), max_size=10)


@given(pieces)
@settings(max_examples=examples(50))
def test_checksum_and_size_are_those_of_the_file(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("stream") / "file"
    with Checksum() as checksum, path.open("wb") as file:
        stream = PageStream(file, checksum)
        for piece in written:
            assert stream.tell() == stream.size
            assert stream.write(memoryview(piece)) == len(piece)
    content = path.read_bytes()
    assert (b"".join(written), len(content)) == (content, stream.size)
    assert checksum.sha256 == hashlib.sha256(content).hexdigest()


def test_what_is_on_its_way_to_the_disk_stays_readable(tmp_path, monkeypatch):
    monkeypatch.setattr(page_stream, "AHEAD_BYTES", 10_000)
    content = os.urandom(1_000_003)
    with Checksum() as checksum, (tmp_path / "file").open("wb") as file:
        stream = PageStream(file, checksum)
        for start in range(0, len(content), 777):
            stream.write(content[start : start + 777])
    assert (tmp_path / "file").read_bytes() == content
    assert checksum.sha256 == hashlib.sha256(content).hexdigest()


def test_an_exception_ends_the_thread_that_hashes():
    with pytest.raises(OSError, match="no space left"), Checksum() as checksum:
        checksum.update(b"x" * 2_000_000)
        raise OSError("no space left")
    assert not [thread for thread in threading.enumerate() if thread.name == "stepscope-page-checksum"]


def test_without_a_thread_the_checksum_is_the_same(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Checksum() as checksum:
        checksum.update(b"ab")
        checksum.update(b"c")
    assert checksum.sha256 == hashlib.sha256(b"abc").hexdigest()
