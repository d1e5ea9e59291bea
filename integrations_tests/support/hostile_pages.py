"""Pages that try to execute something, to take memory or time, or to break their reader."""

import bz2
import gzip
import lzma
import os
import pickle
import pickletools
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from joblib.numpy_pickle import NumpyArrayWrapper

MARKER = "executed"
EXTENSION = 0x51
DEEP = 20_000


@dataclass(frozen=True)
class Attack:
    """Makes the bytes of a page; commands in them would make the file ``MARKER`` in the folder.

    ``reason`` is a regular expression of why the page is refused.
    """

    make: Callable[[Path], bytes]
    reason: str


class Runs:
    """Its pickle calls a function when it is loaded."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function, self.args = function, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.args


def text(value: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(value)) + value.encode()


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + pickle.STACK_GLOBAL


def stream(body: bytes) -> bytes:
    return pickle.PROTO + b"\4" + body + pickle.STOP


def page(outputs: bytes) -> bytes:
    """A page of one datapoint with one debugger, whose outputs the operations make."""
    return stream(b"}K\0}" + text("d") + outputs + b"ss")


def pickled(value: Any, protocol: int = 4) -> bytes:
    return pickle.dumps({0: {"d": value}}, protocol=protocol)


def array(**changed: Any) -> bytes:
    """A page whose only array has a changed description."""
    state = {"subclass": np.ndarray, "shape": (4,), "order": "C", "dtype": np.dtype("f4")} | changed
    described = NumpyArrayWrapper(np.ndarray, (4,), "C", np.dtype("f4"), allow_mmap=True)
    described.__dict__.update(state)
    return pickled(described) + bytes(64)


def described(*, shape: bytes = b"K\4\x85", code: bytes = text("f4"), made: bytes = b")\x81") -> bytes:
    """The operations that describe an array, up to the one that would read it."""
    fields = {
        "subclass": named("numpy", "ndarray"),
        "dtype": named("numpy", "dtype") + code + b"\x85R",
        "order": text("C"),
        "shape": shape,
    }
    items = b"".join(text(name) + value for name, value in fields.items())
    return named("joblib.numpy_pickle", "NumpyArrayWrapper") + made + b"}(" + items + b"u"


def laughs() -> bytes:
    """Ten tuples of ten references to the one before: 10**10 values in a few hundred bytes."""
    levels = b"".join(b"(" + (b"h" + bytes([level])) * 10 + b"t\x94" for level in range(10))
    return b"()\x94" + levels + b"t"


def command(folder: Path) -> str:
    return f"touch {folder / MARKER}"


def object_array(folder: Path) -> np.ndarray:
    values = np.empty(1, dtype=object)
    values[0] = Runs(os.system, command(folder))
    return values


def joblib_file(folder: Path, value: Any, **options: Any) -> bytes:
    joblib.dump(value, folder / "source", **options)
    return (folder / "source").read_bytes()


def torch_storage(folder: Path) -> bytes:
    code = pickle.dumps(Runs(os.system, command(folder)))
    return named("torch.storage", "_load_from_bytes") + pickle.BINBYTES + struct.pack("<I", len(code)) + code + b"\x85R"


def operation(code: str) -> bytes:
    """A page that uses an operation, with an argument and a stack that suit it."""
    argument = pickletools.code2op[code].arg
    until_newline = argument is not None and argument.n == pickletools.UP_TO_NEWLINE
    return page(b"](K\1(K\2" + code.encode("latin-1") + (b"os\nsystem\n" if until_newline else b"\1" * 8))


EXECUTING = {
    "reduce": Attack(lambda folder: pickled(Runs(os.system, command(folder))), r"names \w+\.system"),
    "reduce, protocol 2": Attack(lambda folder: pickled(Runs(os.system, command(folder)), 2), "has BINPUT"),
    "reduce, protocol 5": Attack(lambda folder: pickled(Runs(os.system, command(folder)), 5), r"names \w+\.system"),
    "eval": Attack(lambda folder: pickled(Runs(eval, f"open({str(folder / MARKER)!r}, 'w')")), r"names builtins\.eval"),
    "GLOBAL": Attack(
        lambda folder: page(pickle.GLOBAL + b"os\nsystem\n" + text(command(folder)) + b"\x85R"), "has GLOBAL"
    ),
    "INST": Attack(lambda folder: page(b"(" + text(command(folder)) + b"ios\nsystem\n"), "has INST"),
    "extension code": Attack(
        lambda folder: page(pickle.EXT1 + bytes([EXTENSION]) + text(command(folder)) + b"\x85R"), "has EXT1"
    ),
    "persistent id": Attack(lambda folder: page(text(command(folder)) + pickle.BINPERSID), "has BINPERSID"),
    "object array": Attack(lambda folder: joblib_file(folder, {0: {"d": object_array(folder)}}), "dtype 'O8'"),
    "structured object array": Attack(
        lambda folder: joblib_file(folder, {0: {"d": object_array(folder).astype([("x", "O")])}}), "dtype 'V8'"
    ),
    "torch tensor": Attack(lambda folder: joblib_file(folder, {0: {"d": torch.ones(3)}}), r"names torch\."),
    "torch storage": Attack(lambda folder: page(torch_storage(folder)), r"names torch\.storage\._load_from_bytes"),
    "NDArrayWrapper": Attack(
        lambda folder: page(
            named("joblib.numpy_pickle", "NDArrayWrapper")
            + b")\x81}("
            + text("filename")
            + text(str(folder / "source"))
            + b"ub"
        ),
        r"names joblib\.numpy_pickle\.NDArrayWrapper",
    ),
    "attribute walk": Attack(lambda _: page(named("numpy", "f2py.os.system")), r"names numpy\.f2py\.os\.system"),
    "joblib itself": Attack(lambda _: page(named("joblib.numpy_pickle", "load")), r"names joblib\.numpy_pickle\.load"),
    "an instance called": Attack(lambda folder: page(text("x") + text(command(folder)) + b"\x85R"), "calls 'x'"),
}
COMPRESSED = {
    "old joblib": Attack(lambda _: b"ZF0x10               " + zlib.compress(pickled(1)), "start like a page"),
    "gzip bomb": Attack(lambda _: gzip.compress(bytes(50_000_000)), "start like a page"),
    "bz2 bomb": Attack(lambda _: bz2.compress(bytes(5_000_000)), "start like a page"),
    "xz bomb": Attack(lambda _: lzma.compress(bytes(5_000_000)), "start like a page"),
    "lz4": Attack(lambda _: b"\x04\x22\x4d\x18" + bytes(64), "start like a page"),
} | {
    name: Attack(lambda folder, name=name: joblib_file(folder, {0: {}}, compress=(name, 3)), "start like a page")
    for name in ("zlib", "gzip", "bz2", "lzma", "xz")
}
DECLARING = {
    "800 GB": Attack(lambda _: array(shape=(200_000_000_000,)), r"shape \(200000000000,?\).* bytes left"),
    "one value too many": Attack(lambda _: array(shape=(17,)), r"shape \(17,?\).* the file has \d+ bytes left"),
    "overflowing shape": Attack(lambda _: array(shape=(2**62, 2**62, 4)), "bytes left"),
    "negative shape": Attack(lambda _: array(shape=(-1,)), r"shape \(-1\)"),
    "size beyond 64 bits": Attack(lambda _: array(shape=(2**200,)), "shape .*201 bits"),
    "empty with huge axes": Attack(lambda _: array(shape=(0, 2**62, 2**62)), "ValueError"),
    "too many dimensions": Attack(lambda _: array(shape=(1,) * 33), "shape a tuple"),
    "shape of float": Attack(lambda _: array(shape=(2.0,)), "shape a tuple"),
    "shape of bool": Attack(lambda _: array(shape=(True, True)), "shape a tuple"),
    "shape as a list": Attack(lambda _: array(shape=[4]), "shape a list"),
    "order": Attack(lambda _: array(order="K"), "order 'K'"),
    "subclass": Attack(lambda _: array(subclass=np.matrix), "numpy.*matrix"),
    "object dtype": Attack(lambda _: array(dtype=np.dtype("O")), "dtype 'O8'"),
    "text dtype": Attack(lambda _: array(dtype=np.dtype("U100000000")), "dtype 'U"),
    "void dtype": Attack(lambda _: array(dtype=np.dtype("V100000000")), "dtype 'V"),
    "structured dtype": Attack(lambda _: array(dtype=np.dtype([("a", "f4"), ("b", "i4")])), "dtype 'V8'"),
    "date dtype": Attack(lambda _: array(dtype=np.dtype("M8[s]")), "dtype 'M8'"),
    "no dtype": Attack(lambda _: array(dtype="f4"), "dtype 'f4'"),
    "text": Attack(
        lambda _: page(pickle.BINUNICODE8 + struct.pack("<Q", 2**40)), "text or bytes object of 1099511627776"
    ),
    "bytes": Attack(
        lambda _: page(pickle.BINBYTES8 + struct.pack("<Q", 2**40)), "text or bytes object of 1099511627776"
    ),
    "text beyond 64 bits": Attack(
        lambda _: page(pickle.BINUNICODE8 + b"\xff" * 8), "text or bytes object of 18446744073709551615"
    ),
    "bytearray": Attack(lambda _: page(pickle.BYTEARRAY8 + struct.pack("<Q", 2**34)), "has BYTEARRAY8"),
    "frame": Attack(lambda _: stream(pickle.FRAME + struct.pack("<Q", 2**40) + b"}"), "a frame of 1099511627776 bytes"),
    "integer of 100 MB": Attack(lambda _: page(pickle.LONG4 + struct.pack("<i", 100_000_000)), "integer of 100000000"),
    "integer of 64 kB": Attack(lambda _: pickled(1 << 524_288), "integer of 65537 bytes"),
    "negative integer length": Attack(lambda _: page(pickle.LONG4 + struct.pack("<i", -1)), "integer of -1 bytes"),
}
NESTED = {
    "lists": Attack(lambda _: page(b"]" * DEEP + b"a" * (DEEP - 1)), "levels deep"),
    "dicts": Attack(lambda _: page(b"}K\0" * DEEP + b"N" + b"s" * DEEP), "levels deep"),
    "tuples": Attack(lambda _: page(b")" + b"\x85" * DEEP), "levels deep"),
    "a tuple for a key": Attack(lambda _: page(b"})" + b"\x85" * DEEP + b"Ns"), "has a tuple for a key"),
    "marks": Attack(lambda _: page(b"(" * DEEP), r"a page|Error"),
    "a list in itself": Attack(lambda _: page(b"]\x94h\0a"), "contains itself"),
    "a dict in itself": Attack(lambda _: page(b"}\x94K\0h\0s"), "contains itself"),
    "a tuple in itself": Attack(lambda _: page(b"]\x94h\0\x85a"), "contains itself"),
    "a datapoint in itself": Attack(lambda _: stream(b"}K\0}\x94" + text("d") + b"h\0ss"), "contains itself"),
    "a page in itself": Attack(lambda _: stream(b"}\x94K\0}" + text("d") + b"h\0ss"), "contains itself"),
    "laughs": Attack(lambda _: page(laughs()), "unfolds to more"),
    "laughs for a shape": Attack(lambda _: page(described(shape=laughs()) + b"b") + bytes(64), "shape a tuple"),
    "laughs for a dtype": Attack(lambda _: page(described(code=laughs()) + b"b"), "dtype a tuple"),
    "laughs for a name": Attack(lambda _: page(laughs() + text("x") + pickle.STACK_GLOBAL), "requires str"),
    "laughs in an integer's place": Attack(lambda _: stream(b"}" + laughs() + b"}s"), "has a tuple for a key"),
    "keys of one hash": Attack(
        lambda _: pickled({(2**61 - 1) * (2**64 + number): 0 for number in range(2000)}), "1000 integers of .* for keys"
    ),
}
MALFORMED = {
    "made by calling ndarray": Attack(
        lambda _: page(named("numpy", "ndarray") + b"K\5\x85\x85R"), "calls numpy.ndarray"
    ),
    "made by ndarray.__new__": Attack(
        lambda _: page(named("numpy", "ndarray") + b"K\5\x85\x85\x81"), "makes an object of numpy.ndarray"
    ),
    "made with arguments": Attack(lambda _: page(described(made=b"K\1\x85\x81") + b"b"), "makes an object"),
    "a dtype without a code": Attack(
        lambda _: page(named("numpy", "dtype") + b")R"), "expected numpy.dtype with a code"
    ),
    "scalar of NumPy": Attack(lambda _: pickled(np.float64(3)), r"names numpy.*\.scalar"),
    "a description for a value": Attack(
        lambda _: page(named("joblib.numpy_pickle", "NumpyArrayWrapper") + b")\x81"), "holds a StoredArray"
    ),
    "a dtype for a value": Attack(lambda _: page(named("numpy", "dtype") + text("f4") + b"\x85R"), "holds a StoredDt"),
    "a class for a value": Attack(lambda _: page(named("numpy", "dtype")), "holds a type"),
    "a state for a dict": Attack(lambda _: page(b"}}b"), "gives a state to a dict"),
    "a state for a class": Attack(lambda _: page(named("numpy", "ndarray") + b"}b"), "gives a state to numpy.ndarray"),
    "items for a list": Attack(lambda _: page(b"]K\0K\0s"), "sets an item of a list"),
    "values for a dict": Attack(lambda _: page(b"}K\0a"), "appends to a dict"),
    "half an item": Attack(lambda _: page(b"}(K\0u"), "ValueError"),
    "no such memo": Attack(lambda _: page(b"h\7"), "Memo value not found"),
    "no text": Attack(lambda _: page(pickle.SHORT_BINUNICODE + b"\1\xff"), "UnicodeDecodeError"),
    "unknown operation": Attack(lambda _: page(b"\xff"), "has the byte 255"),
    "empty stack": Attack(lambda _: stream(b""), "IndexError"),
    "build on nothing": Attack(lambda _: stream(b"b"), "IndexError"),
    "protocol 99": Attack(lambda _: b"\x80\x63}.", "unsupported pickle protocol"),
    "more behind the end": Attack(lambda _: pickled(1) + b"more", "has 4 bytes behind its end"),
    "empty": Attack(lambda _: b"", "empty file"),
    "no pickle": Attack(lambda _: b"not a page", "start like a page"),
    "a list": Attack(lambda _: pickle.dumps([1, 2], protocol=4), "holds no page"),
    "keys of text": Attack(lambda _: pickle.dumps({"0": {"d": 1}}, protocol=4), "holds no page"),
    "no debuggers": Attack(lambda _: pickle.dumps({0: 3}, protocol=4), "holds no page"),
}
ATTACKS = {
    f"{group}: {name}": attack
    for group, attacks in {
        "executes": EXECUTING,
        "is compressed": COMPRESSED,
        "declares": DECLARING,
        "nests": NESTED,
        "is malformed": MALFORMED,
    }.items()
    for name, attack in attacks.items()
}
