"""Many artifacts at once: the same as one by one, checked at the caller's line."""

import time

import numpy as np
import pytest
import torch
from tracker_adapters.artifacts import Artifact, Histogram, Scalar
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.testing import MemoryEmitter

ARRAYS = ([1.0, 2.0, -3.0], [], [np.nan, 0.0, 1e300], [5.0] * 4)
NAMES = ["a", "b/c", "d", "e"]


@pytest.fixture
def emitter():
    return MemoryEmitter()


def columns(**changes):
    made = HistogramColumns.of([Histogram.from_values("h", array, step=0) for array in ARRAYS])
    parts = {key: getattr(made, key).copy() for key in ("tallies", "moments", "ends", "bins", "counts")}
    return HistogramColumns(**(parts | changes))


def test_a_block_stands_for_single_artifacts(emitter):
    inner = emitter.scoped("grad").at(7)
    inner.histograms(NAMES, columns(), time_ns=3)
    inner.scalars(tuple(NAMES), torch.arange(4), time_ns=3)
    wanted: list[Artifact] = [
        Histogram.from_values(f"grad/{name}", array, step=7, time_ns=3)
        for name, array in zip(NAMES, ARRAYS, strict=True)
    ]
    wanted += [Scalar(name=f"grad/{name}", value=row, step=7, time_ns=3) for row, name in enumerate(NAMES)]
    assert emitter.artifacts == wanted


def test_the_time_is_now_by_default(emitter):
    before = time.time_ns()
    emitter.scalars(["a"], [1], step=0)
    emitter.histograms(NAMES, columns(), step=0)
    assert all(before <= artifact.time_ns <= time.time_ns() for artifact in emitter.artifacts)


def test_nothing_is_emitted_for_no_names(emitter):
    emitter.scalars([], [], step=0)
    emitter.histograms([], HistogramColumns.of([]), step=0)
    assert emitter.artifacts == []


def test_values_are_copied(emitter):
    values = np.array([1.0, 2.0])
    emitter.scalars(["a", "b"], values, step=0)
    values[:] = 9
    assert [artifact.value for artifact in emitter.artifacts if isinstance(artifact, Scalar)] == [1, 2]


def test_a_list_of_names_that_changes_is_looked_at_again(emitter):
    names = ["a", "b"]
    for scope in ("x", "y"):
        emitter.scoped(scope).scalars(names, [1, 2], step=0)
    names[0] = "z"
    emitter.scoped("x").scalars(names, [1, 2], step=0)
    assert [artifact.name for artifact in emitter.artifacts] == ["x/a", "x/b", "y/a", "y/b", "x/z", "x/b"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", ""], "has 0 characters"),
        (["a", 3], "the name is int 3"),
        (["a", ["b"]], "the name is list"),
        ("ab", "the names are 'ab'; expected a sequence of str"),
        (["a"], r"values of shape \(2,\); expected \(1,\)"),
    ],
)
def test_wrong_names_of_scalars(emitter, names, message):
    for _ in range(2):  # what was refused is not remembered
        with pytest.raises(ArtifactError, match=message):
            emitter.scalars(names, [1, 2], step=0)
    assert emitter.artifacts == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [[1, 2]]}, r"shape \(1, 2\)"),
        ({"values": [1j, 2]}, "complex"),
        ({"values": ["x", "y"]}, "expected bool, integer or floating-point"),
        ({"values": torch.zeros(2, device="meta")}, "meta tensor"),
        ({"values": [1, 2], "step": -1}, "step is -1"),
        ({"values": [1, 2], "step": None}, "no step given"),
        ({"values": [1, 2], "time_ns": 1.5}, "time_ns is float 1.5"),
    ],
)
def test_wrong_scalars(emitter, arguments, message):
    with pytest.raises(ArtifactError, match=message):
        emitter.scalars(["a", "b"], **({"step": 0} | arguments))
    assert emitter.artifacts == []


ONE_MORE = columns().tallies.copy()
ONE_MORE[2, 0] += 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": columns().bins.astype(np.int64)}, "bins are int64; expected an array of uint16"),
        ({"counts": columns().counts.tolist()}, "counts are list; expected an array of int64"),
        ({"ends": np.array([3, 2, 4, 5])}, "ends must be one-dimensional and ascending"),
        ({"moments": np.zeros((4, 3))}, r"moments have shape \(4, 3\); expected \(4, 4\)"),
        ({"counts": np.ones(9, np.int64)}, r"counts have shape \(9,\)"),
        ({"bins": np.array([1, 2, 3, 4096], np.uint16)}, "histogram 'e': bins must be below 4096"),
        ({"bins": np.array([1, 3, 3, 7], np.uint16)}, "histogram 'a': bins must be ascending and distinct"),
        ({"counts": np.array([1, 1, 0, 4])}, "histogram 'a': counts must be at least 1"),
        ({"tallies": -columns().tallies}, "histogram 'a': counts must not be negative"),
        ({"tallies": ONE_MORE}, "histogram 'c': .* hold 2 elements; expected .*, 3"),
    ],
)
def test_wrong_columns(emitter, change, message):
    with pytest.raises(ArtifactError, match=message):
        emitter.histograms(["a", "b", "c", "e"], columns(**change), step=0)
    assert emitter.artifacts == []


def test_as_many_names_as_histograms(emitter):
    with pytest.raises(ArtifactError, match="got 3 names for 4 histograms"):
        emitter.histograms(NAMES[:3], columns(), step=0)
