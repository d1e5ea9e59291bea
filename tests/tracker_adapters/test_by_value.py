"""``log`` finds what a value is; pictures and frames are taken as people have them."""

import datetime
import io
import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def kinds(values, **options):
    emitter = MemoryEmitter()
    emitter.log(values, step=3, **options)  # type: ignore[arg-type]
    assert {artifact.step for artifact in emitter.artifacts} <= {3}
    return {artifact.name: artifact.kind for artifact in emitter.artifacts}


def figure():
    made, axes = plt.subplots(figsize=(3, 2), dpi=50)
    axes.plot([1, 2])
    return made


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "scalar"),
        (float("nan"), "scalar"),
        (True, "scalar"),
        (np.float32(0.5), "scalar"),
        (np.array(2), "scalar"),
        (torch.tensor(0.5, requires_grad=True), "scalar"),
        (torch.tensor(3, dtype=torch.uint8), "scalar"),
        (torch.zeros(1), "histogram"),
        (torch.zeros(3, 4, dtype=torch.bfloat16), "histogram"),
        (np.arange(4), "histogram"),
        ([0.5, 1], "histogram"),
        (torch.zeros(3, 32, 32), "histogram"),
        (torch.zeros(3, 8, 9, dtype=torch.uint8), "image"),
        (np.zeros((8, 9, 4), np.uint8), "image"),
        (np.zeros((8, 9), np.uint8), "image"),
        (np.zeros((8, 9, 5), np.uint8), "histogram"),
        (np.zeros((2, 3, 8, 9), np.uint8), "histogram"),
        ("a *text*", "text"),
        (Image.new("P", (4, 5)), "image"),
        (figure(), "image"),
        (pd.DataFrame({"a": [1]}), "table"),
        (pd.Series([1.0, 2.0], name="a"), "table"),
    ],
    ids=lambda value: f"{type(value).__name__}{getattr(value, 'shape', '')}",
)
def test_a_value_tells_what_it_becomes(value, kind):
    assert kinds({"x": value}) == {"x": kind}


def test_mappings_nest_and_files_are_named(tmp_path):
    path = tmp_path / "confusion.bin"
    path.write_bytes(b"x")
    found = kinds({"loss": 1.0, "val": {"loss": 2, "acc": {"top1": 0.5}}, "raw": path, "empty": {}})
    assert found == {"loss": "scalar", "val/loss": "scalar", "val/acc/top1": "scalar", "raw": "file"}


def test_a_bound_step_counts():
    emitter = MemoryEmitter()
    emitter.scoped("val").at(7).log({"loss": 1})
    assert [(artifact.name, artifact.step) for artifact in emitter.artifacts] == [("val/loss", 7)]
    with pytest.raises(ArtifactError, match="no step given"):
        MemoryEmitter().log({"loss": 1})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": None}, "'a' is NoneType None; expected a number, a tensor"),
        ({"a": object()}, "'a' is object"),
        ({"a": [[1], [2, 3]]}, "of no shape"),
        ({1: 2.0}, "name 1 is int; expected str"),
        ([1], "log got list"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_is_emitted(values, message):
    emitter = MemoryEmitter()
    with pytest.raises(ArtifactError, match=message):
        emitter.log({"first": 1, **values} if isinstance(values, dict) else values, step=0)  # type: ignore[arg-type]
    assert emitter.artifacts == []


def test_a_mapping_in_itself_ends():
    values: dict[str, object] = {}
    values["again"] = values
    with pytest.raises(ArtifactError, match="nested more than"):
        MemoryEmitter().log(values, step=0)


def test_the_channels_are_the_last_axis_where_both_ends_could_be():
    emitter = MemoryEmitter()
    emitter.log({"x": np.zeros((3, 9, 4), np.uint8)}, step=0)
    assert (emitter.artifacts[0].height, emitter.artifacts[0].width) == (3, 9)


def test_a_figure_is_drawn_as_it_looks_and_left_as_it_was():
    made = figure()
    before = io.BytesIO()
    made.savefig(before, format="png", dpi="figure")  # type: ignore[attr-defined]
    emitter = MemoryEmitter()
    emitter.image("plot", made, step=0)
    emitter.image("axes", made.axes[0], step=0)  # type: ignore[attr-defined]
    expected = np.asarray(Image.open(before).convert("RGB"))
    for artifact in emitter.artifacts:
        assert (np.asarray(Image.open(io.BytesIO(artifact.png))) == expected).all()
    assert plt.fignum_exists(made.number)  # type: ignore[attr-defined]


def test_an_image_of_pillow_keeps_its_transparency():
    emitter = MemoryEmitter()
    emitter.image("x", Image.new("RGBA", (2, 1), (1, 2, 3, 4)), step=0)
    emitter.image("y", Image.new("CMYK", (2, 1)), step=0)
    drawn = [np.asarray(Image.open(io.BytesIO(artifact.png))) for artifact in emitter.artifacts]
    assert drawn[0].tolist() == [[[1, 2, 3, 4]] * 2]
    assert drawn[1].shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 8, 8), "shape (3, 8, 8) allows layout='CHW'"),
        ((8, 8, 3), "shape (8, 8, 3) allows layout='HWC'"),
        ((3, 8, 3), "allows layout='CHW' or layout='HWC'"),
        ((8, 8), "allows layout='HW'"),
        ((2, 3, 8, 8), "of a batch give one picture, such as images[0]"),
        ((8,), "is not a picture"),
        ((8, 8, 5), "3 with 1, 3 or 4 channels"),
    ],
)
def test_a_missing_layout_is_told_with_what_the_shape_allows(shape, message):
    for values in (np.zeros(shape, np.uint8), torch.zeros(shape, dtype=torch.uint8)):
        with pytest.raises(ArtifactError) as caught:
            MemoryEmitter().image("x", values, step=0)
        assert message in str(caught.value)


def test_a_frame_becomes_plain_cells():
    frame = pd.DataFrame(
        {
            "n": np.array([1, 2], np.int8),
            "when": [pd.Timestamp("2026-01-31"), pd.NaT],
            "what": ["a", None],
            "big": [2**70, datetime.date(2026, 1, 31)],
        },
        index=pd.Index(["x", "y"], name="layer"),
    )
    emitter = MemoryEmitter()
    emitter.table("t", frame, step=0)
    table = emitter.artifacts[0]
    assert table.columns == ("layer", "n", "when", "what", "big")
    assert table.rows == (
        ("x", 1, "2026-01-31 00:00:00", "a", str(2**70)), ("y", 2, None, None, "2026-01-31"),
    )  # fmt: skip


def test_nothing_heavy_is_imported_for_it():
    code = (
        "import sys; from tracker_adapters.testing import MemoryEmitter; "
        "MemoryEmitter().log({'a': 1.0, 'b': [1, 2], 'c': 'x'}, step=0); "
        "print([name for name in ('torch', 'matplotlib', 'pandas', 'polars') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_cells_that_hold_several_numbers_become_their_text():
    emitter = MemoryEmitter()
    emitter.table("t", pd.DataFrame({"a": [np.arange(2), torch.zeros(2), [1, 2], float("nan"), "x"]}), step=0)
    assert emitter.artifacts[0].rows == (("[0 1]",), ("tensor([0., 0.])",), ("[1, 2]",), (None,), ("x",))  # type: ignore[attr-defined]
