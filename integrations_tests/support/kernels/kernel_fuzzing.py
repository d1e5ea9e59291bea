"""Random input for the compiled code, compared with what NumPy finds; with sanitizers it is ``make sanitize``.

Run by itself, it compiles the sources with AddressSanitizer and UndefinedBehaviorSanitizer, and gives them random input
in a process of its own: a finding of either ends it. First it plants a defect, which must be found.
"""

import ctypes
import importlib.util
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import sample_fuzzing
import tree_fuzzing
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.histograms.layout import MOMENTS, TALLIES

SOURCES = Path(__file__).parents[3] / "adapters" / "tracker_adapters" / "native"
SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 1.0, -1.0]
SIZES = [0, 1, 2, 3, 15, 16, 17, 31, 33, 2047, 2048, 2049, 4097, 9000]
DTYPES = (np.int64, np.float64, np.int64, np.float64, np.int64, np.uint16, np.int64)
_Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
def _team(work: int, argument: int, size: int, _: int) -> None:
    """Does what ``GOMP_parallel`` does, in threads of Python."""
    threads = [threading.Thread(target=_Work(work), args=(argument,)) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


TEAM = ctypes.cast(_team, ctypes.c_void_p).value or 0


def values(random: np.random.Generator) -> Any:
    """Float32 or float64 of any magnitude, of a length at which loops end differently, perhaps unaligned."""
    dtype = random.choice([np.float32, np.float64])
    size = int(random.choice(SIZES)) if random.random() < 0.7 else int(random.integers(0, 6000))
    made = random.standard_normal(size) * 10.0 ** random.integers(-30, 30) + random.choice([0, 1, 1e6])
    match random.integers(5):
        case 0:
            made[random.random(size) < 0.1] = 0
        case 1:
            rare = random.random(size) < random.choice([0.01, 1])
            made[rare] = random.choice(SPECIAL, rare.sum())
        case 2 if dtype == np.float64:
            made *= 10.0 ** random.integers(-270, 270)
        case 3:
            made = np.abs(made)
    memory = np.zeros(made.nbytes + 1, np.uint8)[int(random.integers(2)) :][: size * np.dtype(dtype).itemsize]
    found = memory.view(dtype)
    with np.errstate(over="ignore", under="ignore"):
        found[:] = made
    return found


def check_measure(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Measures tensors in one to four shares, with each instruction set; some with their difference in one pass."""
    segments, kept, expected, differences = [], [], [], []
    for row in range(random.integers(1, 9)):
        after = values(random)
        pieces = np.array_split(after, random.integers(1, 4))
        before = random.permutation(after) if random.random() < 0.3 else None
        is_pair = before is not None and random.random() < 0.5
        begin = 0
        for piece in pieces:
            address = 0 if before is None else before.ctypes.data + begin * after.itemsize
            segments.append((row, piece.ctypes.data, piece.size, 2 * is_pair + (after.dtype == np.float64), address))
            begin += piece.size
        kept += [after, before]
        with np.errstate(invalid="ignore", over="ignore"):
            expected.append(after if before is None or is_pair else after - before)
            differences += [after - before] if is_pair else []
    table = np.array(segments, np.int64)
    expected += differences
    number = int(random.integers(1, 5))
    results = []
    for name in kernels.instruction_sets():
        kernels.use(name)
        results.append(kernels.measure(table, number, TEAM if random.random() < 0.2 else 0, 3))
    assert all(result == results[0] for result in results), "instruction sets differ"
    done["tensors"] += len(expected)
    done["pairs"] += len(differences)
    if number == 1 and differences:
        assert results[0] == kernels.measure(apart(table), 1, 0, 1), "a pair differs from its two parts"
    tallies, moments, signs, l1, ends, bins, counts = map(np.frombuffer, results[0], DTYPES)
    columns = HistogramColumns(tallies.reshape(-1, 9), moments.reshape(-1, 4), ends, bins, counts)
    for row, array in enumerate(expected):
        compare(columns.histogram(row, "h", step=0, time_ns=0), array)
        finite = array[np.isfinite(array)].astype(np.float64)
        assert signs.reshape(2, -1)[:, row].tolist() == [(finite < 0).sum(), (finite > 0).sum()]
        if np.abs(finite).max(initial=0) < 1e300:
            assert math.isclose(l1[row], math.fsum(np.abs(finite)), rel_tol=1e-12)


def apart(segments: Any) -> Any:
    """The same with the elements of pairs first, and their differences as rows of their own behind all others."""
    pairs = (segments[:, 3] & 2) > 0
    differences = segments[pairs]
    differences[:, 0] = segments[-1, 0] + 1 + np.unique(differences[:, 0], return_inverse=True)[1]
    alone = segments.copy()
    alone[pairs, 4] = 0
    both = np.concatenate([alone, differences])
    both[:, 3] &= 1
    return both


def compare(ours: Histogram, array: Any) -> None:
    """Counts, bins, min and max exactly; mean and m2 as far as squares stay within float64."""
    expected = Histogram.from_values("h", array, step=0, time_ns=0)
    for key in (*TALLIES, "min", "max"):
        np.testing.assert_equal(getattr(ours, key), getattr(expected, key), err_msg=key)
    np.testing.assert_array_equal(ours.bins, expected.bins)
    np.testing.assert_array_equal(ours.counts, expected.counts)
    largest = max(abs(expected.min), abs(expected.max))
    if 1e-140 < largest < 1e140:
        exact = array[np.isfinite(array)].astype(np.float64)
        assert abs(ours.mean - math.fsum(exact) / exact.size) <= 1e-12 * largest
        std = exact.std()
        assert abs(math.sqrt(ours.m2 / exact.size) - std) <= 1e-9 * std + 1e-14 * largest, (ours.m2, std)


def check_spread(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Copies and measures one tensor, with each instruction set."""
    array = values(random)
    if not array.size:
        return
    copy = np.zeros_like(array)
    results = []
    for name in kernels.instruction_sets():
        kernels.use(name)
        target = copy.ctypes.data if random.random() < 0.8 else 0
        results.append(kernels.spread(array.ctypes.data, array.size, array.dtype == np.float64, target, TEAM, 2))
        assert not target or copy.tobytes() == array.tobytes()
    done["spreads"] += 1
    count, mean, m2, low, high = results[0]
    assert all(result == results[0] or result[0] == count == 0 for result in results), "instruction sets differ"
    if not count:
        assert not np.isfinite(array).all() or np.abs(array).max() > (1e16 if array.itemsize == 4 else 1e140)
        return
    exact = array.astype(np.float64)
    assert (count, low, high) == (array.size, exact.min(), exact.max())
    largest, std = np.abs(exact).max(), exact.std()
    assert abs(mean - exact.mean()) <= 1e-6 * std + 1e-7 * largest
    if not largest or largest > 1e-140:  # squares of smaller ones have fewer digits
        assert abs(math.sqrt(m2 / count) - std) <= 1e-6 * std + 1e-7 * largest


def check_samples(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Describes some matrices, and gathers some of their elements."""
    done["samples"] += sample_fuzzing.check(kernels, random, [values(random) for _ in range(random.integers(0, 5))])


def check_columns(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Merges and packs columns that mean nothing: either is refused or stays within the arrays."""
    rows, entries = int(random.integers(0, 6)), int(random.integers(0, 40))
    low, high = (0, 40) if random.random() < 0.9 else (-(2**62), 2**62)
    ends = np.sort(random.integers(0, entries + 1, rows)) if random.random() < 0.9 else random.integers(low, high, rows)
    bins = random.integers(0, 4096 if random.random() < 0.9 else 2**16, entries).astype(np.uint16)
    counts = random.integers(-(2**63), 2**63, entries, dtype=np.int64)
    order = random.integers(0 if random.random() < 0.9 else -1, max(rows, 1), rows)
    starts = np.unique(random.integers(0, max(rows, 1), random.integers(0, rows + 1)))
    tallies = random.integers(-(2**63), 2**63, (rows, 9), dtype=np.int64)
    for call, arrays in ((kernels.merge, (order, starts)), (kernels.pack, (tallies, random.random((rows, 4))))):
        try:
            call(*arrays, ends, bins, counts)
            done["columns"] += 1
        except ValueError:
            done["refused columns"] += 1
    given = [Histogram.from_values("h", values(random), step=0, time_ns=0) for _ in range(rows)]
    columns = HistogramColumns.of(given)
    blobs = kernels.pack(columns.tallies, columns.moments, columns.ends, columns.bins, columns.counts)
    assert [len(blob) >= 8 * len(MOMENTS) + len(TALLIES) for blob in blobs] == [True] * rows


def check_cut(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Cuts tensors of any length, whose memory is never read, some of which make no sense: those are refused."""
    n, number = int(random.integers(1, 30)), int(random.integers(1, 70) if random.random() < 0.9 else 2**16)
    table = np.zeros((n, 5), np.int64)
    table[:, 0] = np.cumsum(random.random(n) < 0.6)
    table[:, 0] -= table[0, 0]
    table[:, 1] = random.integers(1, 2**47, n)
    table[:, 2] = random.integers(0, 2 ** random.integers(1, 29), n)
    table[:, 3] = random.integers(0, 4, n)[table[:, 0]]
    table[:, 4] = random.integers(1, 2**47, n)
    makes_sense = random.random() < 0.8
    if not makes_sense:
        row, column = random.integers(n), random.integers(3)
        table[row, column] = random.choice([-(2**62), -1, 0, 2**33, 2**62])
    try:
        shares, pieces, tensors = kernels.cut(table, number)
    except ValueError:
        assert not makes_sense, table
        done["refused cuts"] += 1
        return
    done["cuts"] += 1
    firsts = np.frombuffer(shares, np.int64).reshape(-1, 3)[:, 0]
    cut, parts = np.frombuffer(pieces, np.int64).reshape(-1, 5), np.frombuffer(tensors, np.int64)
    assert firsts[0] == 0 and firsts[-1] == len(cut) and (np.diff(firsts) >= 0).all() and len(firsts) <= number + 1
    lengths = np.bincount(parts[cut[:, 0]], cut[:, 2], table[-1, 0] + 1)
    np.testing.assert_array_equal(lengths, np.bincount(table[:, 0], table[:, 2]))
    assert set(cut[:, 3]) <= set(table[:, 3])


def check_joining(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Joins mean and m2 of two parts of a tensor, which are then those of the whole."""
    whole = random.standard_normal(int(random.integers(1, 200))) * 10.0 ** random.integers(-100, 100)
    ours, theirs = np.split(whole, [int(random.integers(len(whole)))])
    given = ((len(one), one.mean(), one.var() * len(one)) if len(one) else (0, 0.0, 0.0) for one in (ours, theirs))
    mean, m2 = kernels.join(*next(given), *next(given))
    scale = np.abs(whole).max()
    np.testing.assert_allclose(mean, whole.mean(), rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(m2, whole.var() * len(whole), rtol=1e-9, atol=1e-12 * scale**2)
    done["joined"] += 1


CHECKS = (
    check_measure, check_cut, check_joining, check_spread, check_samples, check_columns, tree_fuzzing.check,
)  # fmt: skip


def fuzz(kernels: Any, rounds: int, seed: int) -> Counter[str]:
    """Checks everything with random input; returns how much of which."""
    random, done = np.random.default_rng(seed), Counter[str]()
    before = kernels.instruction_sets()[-1]
    for _ in range(rounds):
        for check in CHECKS:
            check(kernels, random, done)
    kernels.use(before)
    return done


def main(rounds: int) -> int:
    """Runs it with sanitizers; returns the exit status."""
    compiler = shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        print("skipped: there is no gcc on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="kernel-fuzzing-") as name:
        module = Path(name) / "_kernels.abi3.so"
        flags = ["-std=c11", "-O1", "-g", "-fno-omit-frame-pointer", "-ffp-contract=off", "-DPy_LIMITED_API=0x030B0000"]
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        include = f"-I{sysconfig.get_paths()['include']}"
        sources = sorted(map(str, SOURCES.glob("*.c")))
        subprocess.run([compiler, *flags, *sanitizers, include, "-shared", "-fPIC", "-o", module, *sources], check=True)
        find = [compiler, "-print-file-name=libasan.so"]
        library = subprocess.run(find, check=True, capture_output=True, text=True).stdout.strip()
        options = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
        paths = os.pathsep.join([str(SOURCES.parents[1]), os.environ.get("PYTHONPATH", "")])
        for what, expected in (("planted", "heap-buffer-overflow"), (str(rounds), "")):
            done = subprocess.run(
                [sys.executable, __file__, what, str(module)],
                env=os.environ | options | {"PYTHONPATH": paths},
                capture_output=True,
                text=True,
                check=False,
                timeout=3000,
            )
            if bool(done.returncode) != bool(expected) or expected not in done.stderr:
                print(f"{what}: ended with {done.returncode}\n{done.stdout}{done.stderr[-6000:]}")
                return 1
        print(f"the planted defect was found, and nothing in {done.stdout.strip()}")
    return 0


def work(what: str, module: str) -> None:
    """What runs with the sanitizers preloaded."""
    spec = importlib.util.spec_from_file_location("tracker_adapters.native._kernels", module)
    assert spec and spec.loader
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    if what == "planted":
        array = np.zeros(5000)
        kernels.measure(np.array([[0, array.ctypes.data, array.size + 100, 1, 0]], np.int64), 1, 0, 1)
    else:
        print(dict(fuzz(kernels, int(what), seed=0)))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(*sys.argv[1:])
    else:
        sys.exit(main(int(sys.argv[1])))
