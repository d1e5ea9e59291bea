"""Nothing that a page says is executed, and nothing is made that does not lie in the file."""

import contextlib
import gzip
import os
import pickle
import struct
import tracemalloc

import joblib
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.pages import PageError, load_page, write_page

MARKER = "executed"


class Runs:
    """Its pickle runs a command when it is loaded."""

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


def text(value):
    return pickle.BINUNICODE + struct.pack("<I", len(value)) + value.encode()


def named(module, name):
    return text(module) + text(name) + pickle.STACK_GLOBAL


def stream(body):
    return pickle.PROTO + b"\4" + body + pickle.STOP


def wrapper(**changed):
    """The bytes of a page whose only array has a changed description."""
    from joblib.numpy_pickle import NumpyArrayWrapper

    state = {"subclass": np.ndarray, "shape": (4,), "order": "C", "dtype": np.dtype("f4")} | changed
    described = NumpyArrayWrapper(*state.values(), allow_mmap=True)
    described.__dict__.update(state)
    return pickle.dumps({0: {"d": described}}, protocol=4) + bytes(64)


def command(folder):
    return Runs(os.system, f"touch {folder / MARKER}")


def joblib_file(folder, value, **options):
    joblib.dump(value, folder / "source.pkl", **options)
    return (folder / "source.pkl").read_bytes()


def object_array(folder):
    array = np.empty(1, dtype=object)
    array[0] = command(folder)
    return array


HOSTILE = {
    "reduce": lambda folder: pickle.dumps({0: {"d": command(folder)}}, protocol=4),
    "reduce, other protocols": lambda folder: pickle.dumps({0: {"d": command(folder)}}, protocol=2),
    "eval": lambda folder: pickle.dumps({0: {"d": Runs(eval, f"open({str(folder / MARKER)!r}, 'w')")}}, protocol=4),
    "GLOBAL": lambda folder: stream(pickle.GLOBAL + b"os\nsystem\n" + text(f"touch {folder / MARKER}") + b"\x85R"),
    "INST": lambda folder: stream(b"(" + text(f"touch {folder / MARKER}") + b"ios\nsystem\n"),
    "EXT1": lambda _: stream(pickle.EXT1 + b"\1"),
    "persistent id": lambda _: stream(text("x") + pickle.BINPERSID),
    "object array": lambda folder: joblib_file(folder, {0: {"d": object_array(folder)}}),
    "structured object array": lambda folder: joblib_file(
        folder, {0: {"d": object_array(folder).astype([("x", "O")])}}
    ),
    "torch tensor": lambda folder: joblib_file(folder, {0: {"d": torch.ones(3)}}),
    "torch load": lambda _: stream(named("torch.storage", "_load_from_bytes") + text("x") + b"\x85R"),
    "NDArrayWrapper": lambda _: stream(named("joblib.numpy_pickle_compat", "NDArrayWrapper") + b")\x81}b"),
    "array made by calling ndarray": lambda _: stream(named("numpy", "ndarray") + b"K\x05\x85\x85R"),
    "array made by ndarray.__new__": lambda _: stream(named("numpy", "ndarray") + b"K\x05\x85\x85\x81"),
    "attribute walk": lambda _: stream(named("numpy", "core.multiarray.scalar")),
    "scalar of object dtype": lambda _: pickle.dumps({0: {"d": np.float64(3)}}, protocol=4),
    "subclass": lambda _: wrapper(subclass=np.matrix),
    "gzip bomb": lambda _: gzip.compress(bytes(50_000_000)),
    "zlib file": lambda folder: joblib_file(folder, {0: {}}, compress=("zlib", 3)),
    "ZF prefix": lambda _: b"ZF0x10" + bytes(100),
    "800 GB declared": lambda _: wrapper(shape=(200_000_000_000,)),
    "overflowing shape": lambda _: wrapper(shape=(2**62, 2**62, 4)),
    "negative shape": lambda _: wrapper(shape=(-1,)),
    "empty with huge axes": lambda _: wrapper(shape=(0, 2**62, 2**62)),
    "shape of float": lambda _: wrapper(shape=(2.0,)),
    "order": lambda _: wrapper(order="K"),
    "object dtype": lambda _: wrapper(dtype=np.dtype("O")),
    "text dtype": lambda _: wrapper(dtype=np.dtype("U100000000")),
    "void dtype": lambda _: wrapper(dtype=np.dtype("V100000000")),
    "long text declared": lambda _: stream(pickle.BINUNICODE8 + struct.pack("<Q", 2**40)),
    "long bytes declared": lambda _: stream(pickle.BINBYTES8 + struct.pack("<Q", 2**40)),
    "long bytearray declared": lambda _: stream(pickle.BYTEARRAY8 + struct.pack("<Q", 2**34)),
    "long frame declared": lambda _: stream(pickle.FRAME + struct.pack("<Q", 2**40)),
    "state for a dict": lambda _: stream(b"}}b"),
    "state for an array class": lambda _: stream(named("numpy", "ndarray") + b"}b"),
    "empty stack": lambda _: stream(b""),
    "build on nothing": lambda _: stream(b"b"),
    "empty": lambda _: b"",
    "text": lambda _: b"not a page",
    "a list": lambda _: pickle.dumps([1, 2], protocol=4),
    "keys of text": lambda _: pickle.dumps({"0": {"d": 1}}, protocol=4),
    "no debuggers": lambda _: pickle.dumps({0: 3}, protocol=4),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_is_refused_by_name_and_runs_nothing(tmp_path, name):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(HOSTILE[name](tmp_path))
    tracemalloc.start()
    try:
        with pytest.raises(PageError, match=r"page_0\.pkl: .*"):
            load_page(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert not (tmp_path / MARKER).exists()


def valid_page(folder):
    write_page(folder, 0, {3: {"d": {"map": np.arange(50.0), "text": "abc", "count": 5}}})
    return (folder / "page_0.pkl").read_bytes()


def test_a_truncated_page_is_refused_at_every_length(tmp_path):
    content, path = valid_page(tmp_path), tmp_path / "page_0.pkl"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(PageError, match=r"page_0\.pkl"):
            load_page(path)


@given(position=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(max_examples=300)
def test_one_changed_byte_is_caught_by_the_checksum_and_harmless_without_it(tmp_path_factory, position, flip):
    folder = tmp_path_factory.mktemp("page")
    record = write_page(folder, 0, {3: {"d": {"map": np.arange(50.0), "text": "abc", "count": 5}}})
    path = folder / "page_0.pkl"
    content = bytearray(path.read_bytes())
    content[int(position * len(content))] ^= flip
    path.write_bytes(content)
    with pytest.raises(PageError, match="checksum"):
        load_page(path, size=record.size, sha256=record.sha256)
    with contextlib.suppress(PageError):
        assert isinstance(load_page(path), dict)


def test_a_page_with_torch_tensors_loads_when_it_is_trusted(tmp_path):
    path = tmp_path / "page_0.pkl"
    joblib.dump({0: {"d": torch.ones(3)}}, path)
    assert load_page(path, trusted=True)[0]["d"].tolist() == [1, 1, 1]


def test_a_missing_page_is_named(tmp_path):
    with pytest.raises(PageError, match=r"page_9\.pkl: cannot be read"):
        load_page(tmp_path / "page_9.pkl")
