"""Whatever a layer returns, pages hold its values as they were, or an error that names the reason; nothing crashes."""

import tempfile
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.tensor
from debugger_parts import entry
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch_parts import Applies
from tracker_adapters.testing import MemoryEmitter
from unusual_outputs import PLAIN, REFUSED, STRANGERS, STRUCTURES

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.attention import AttentionDebugger
from debuggers.eigencam import EigenCAMDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.gradcam_plus_plus import GradCAMPlusPlusDebugger
from debuggers.layer_output import LayerOutputDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class Custom(ForwardDebugger):
    """As the documents describe it."""

    def process_forward(self, module, input, output):
        return {"feature_map": output.detach().cpu()}


class Live(ForwardDebugger):
    """Hands on what the layer returned."""

    def process_forward(self, module, input, output):
        return {"output": output}


class Model(nn.Module):
    """A layer that returns something unusual, and one that does not."""

    def __init__(self, make):
        super().__init__()
        self.layer = Applies(make)
        self.after = nn.Identity()

    def forward(self, rows):
        self.layer(rows)
        return self.after(rows)


BUILT_IN = {"maps": FeatureMapDebugger, "stats": ActivationStatsDebugger, "raw": LayerOutputDebugger}
CAMS = {"gradcam": GradCAMDebugger, "gradcam++": GradCAMPlusPlusDebugger, "eigencam": EigenCAMDebugger}


WITH_TENSORS = {
    "tuple", "list", "dict", "ordered dict", "mapping proxy", "named tuple", "data class", "result of max",
    "packed sequence", "sparse inside",
}  # fmt: skip


@dataclass
class Both:
    first: object
    state: object


CONFIG = [
    *(entry(name, cls, layer_name="layer") for name, cls in BUILT_IN.items()),
    entry("custom", Custom, layer_name="layer"),
    entry("live", Live, layer_name="layer"),
    entry("healthy", FeatureMapDebugger, layer_name="after"),
    entry("attention", AttentionDebugger, layer_name="layer"),
    *(entry(name, cls, target_layer="layer") for name, cls in CAMS.items()),
]


def page_of(make, folder, call=lambda model, rows: model(rows)):
    """Runs a model whose layer returns ``make(rows)``; returns what the page holds.

    What the attention and class activation debuggers make of it depends on its shape; they answer, at least.
    """
    model, rows = Model(make), torch.ones(4, 3)
    with SequentialDebugger(CONFIG, model, emitter=MemoryEmitter()) as sequential:
        sequential.begin_epoch(folder)
        call(model, rows)
        sequential({"inputs": rows, "meta_info": {"idx": 0}}, model)
    assert [place for place, _ in sequential.failures if not place.startswith("debugger ")] == []
    page = PageReader(folder)[0]
    for name, key in (("attention", "attention_map"), *((name, "gradcam") for name in CAMS)):
        assert key in page[name] or (list(page[name]) == ["error"] and isinstance(page[name]["error"], str))
    return page


def assert_kept(expected, kept):
    """Values, dtype and shape are those of an array; of one without dimensions a page keeps a plain number."""
    if expected.ndim == 0:
        assert type(kept) in (bool, int, float)
    else:
        assert (kept.dtype, kept.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(expected.astype(np.float64), np.asarray(kept).astype(np.float64))


def assert_captured(page, expected):
    """Every debugger captured these values."""
    for name, key in (("maps", "feature_map"), ("custom", "feature_map"), ("live", "output")):
        assert_kept(expected, page[name][key])
    wide = torch.tensor(expected.astype(np.float64))
    numbers = [
        wide.mean(),
        wide.std() if wide.numel() > 1 else np.nan,
        *(wide.aminmax() if wide.numel() else [np.nan] * 2),
    ]
    for stats in (page["maps"]["stats"], page["stats"]["activation_stats"]):
        np.testing.assert_allclose([stats[name] for name in ("mean", "std", "min", "max")], numbers, rtol=1e-6)
        assert stats["shape"] == list(expected.shape)
    assert np.array_equal(wide.flatten()[:100], page["stats"]["sample_values"], equal_nan=True)
    assert page["raw"]["original_shape"] == list(expected.shape)
    if page["raw"]["downsampled"]:
        np.testing.assert_allclose(page["raw"]["output"], wide.mean((-2, -1), keepdim=True), rtol=1e-6)
    else:
        assert_kept(expected, page["raw"]["output"])
    if "attention_map" in page["attention"]:
        np.testing.assert_array_equal(wide.flatten(), page["attention"]["attention_map"].astype(np.float64).flatten())
    for name in CAMS:
        assert page[name].get("gradcam", expected).shape[-2:] == expected.shape[-2:]


def assert_refused_by_the_built_in(page, reason):
    for name in BUILT_IN:
        assert list(page[name]) == ["error"]
        assert reason in page[name]["error"]


def assert_refused(page, reason):
    """Every debugger says why it captured nothing."""
    assert_refused_by_the_built_in(page, reason)
    for name, key in (("custom", "feature_map"), ("live", "output")):
        assert list(page[name].get(key, page[name])) == ["error"]


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if place % 2 else ()) for place, case in enumerate(PLAIN)]
)
def test_tensors_with_plain_values_are_captured(tmp_path, case):
    make, expected = PLAIN[case]
    page = page_of(make, tmp_path)
    assert_captured(page, expected)
    assert page["healthy"]["feature_map"].shape == (4, 3)


def test_a_forward_in_inference_mode_is_captured(tmp_path):
    def call(model, rows):
        with torch.inference_mode():
            model(rows)

    assert_captured(page_of(lambda rows: rows * 2, tmp_path, call), np.full((4, 3), 2, np.float32))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_tensors_without_plain_values_are_reported(tmp_path, case):
    make, reason = REFUSED[case]
    page = page_of(make, tmp_path)
    assert_refused(page, reason)
    assert page["healthy"]["feature_map"].shape == (4, 3)


def test_a_forward_under_fake_tensors_is_reported(tmp_path):
    def call(model, rows):
        with FakeTensorMode(allow_non_fake_inputs=True):
            model(rows)

    assert_refused(page_of(lambda rows: rows * 2, tmp_path, call), "FakeTensor")


@pytest.mark.parametrize("transform", [torch.vmap, lambda model: torch.func.grad(lambda rows: model(rows).sum())])
def test_a_forward_inside_a_transformation_is_reported(tmp_path, transform):
    page = page_of(lambda rows: rows * 2, tmp_path, lambda model, rows: transform(model)(rows))
    assert_refused(page, "torch.func transformation")


def test_complex_values_are_kept_where_no_statistics_are_asked_for(tmp_path):
    values = np.array([[1 - 2j, 3 + 4j]], np.complex64)
    page = page_of(lambda rows: torch.tensor(values).conj(), tmp_path)
    for kept in (page["custom"]["feature_map"], page["live"]["output"]):
        assert kept.dtype == np.complex64
        np.testing.assert_array_equal(values.conj(), kept)
    assert all("complex64" in page[name]["error"] for name in BUILT_IN)


@pytest.fixture
def mesh(process_group):
    return init_device_mesh("cpu", (1,))


@pytest.mark.parametrize("placement", [("Shard", 0), ("Shard", 1), ("Replicate",)])
def test_of_a_distributed_tensor_the_shard_of_this_rank_is_captured(tmp_path, mesh, placement):
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    kind, *dimension = placement
    placed = getattr(dist.tensor, kind)(*dimension)
    page = page_of(lambda rows: dist.tensor.DTensor.from_local(torch.tensor(expected), mesh, [placed]), tmp_path)
    assert_captured(page, expected)


def test_a_summand_of_a_distributed_tensor_is_not_taken_for_its_value(tmp_path, mesh):
    page = page_of(lambda rows: dist.tensor.DTensor.from_local(rows, mesh, [dist.tensor.Partial()]), tmp_path)
    assert_refused_by_the_built_in(page, "sums still to be formed")


def as_lists(kept):
    """What a page holds, with lists for arrays."""
    if isinstance(kept, (np.ndarray, torch.Tensor)):
        return kept.tolist()
    if isinstance(kept, dict):
        return {key: as_lists(item) for key, item in kept.items()}
    return type(kept)(map(as_lists, kept)) if isinstance(kept, (list, tuple)) else kept


@pytest.mark.parametrize("case", STRUCTURES)
def test_structures_of_tensors_are_kept_whole(tmp_path, case):
    make, expected = STRUCTURES[case]
    page = page_of(make, tmp_path)
    kept = as_lists(page["live"]["output"])
    assert (type(expected), expected) == (type(kept), kept)


@pytest.mark.parametrize("case", STRANGERS)
def test_what_cannot_be_kept_is_reported(tmp_path, case):
    make, reason = STRANGERS[case]
    page = page_of(make, tmp_path)
    assert "'error': " in str(page["live"])
    assert reason in str(page["live"])
    assert page["healthy"]["feature_map"].shape == (4, 3)


@pytest.mark.parametrize("case", STRUCTURES | STRANGERS)
def test_debuggers_that_want_a_tensor_name_what_they_got(tmp_path, case):
    make, _ = (STRUCTURES | STRANGERS)[case]
    page = page_of(make, tmp_path)
    output = make(torch.ones(4, 3))
    got = type(output).__name__
    assert got in page["custom"]["error"]
    if case in WITH_TENSORS:
        assert all("error" not in page[name] for name in BUILT_IN)
        return
    assert [page[name] for name in BUILT_IN] == [{"error": f"Output is not a tensor: got {got}"}] * len(BUILT_IN)


def test_the_first_of_several_tensors_counts_and_the_others_are_counted(tmp_path):
    page = page_of(lambda rows: Both(first=None, state={"h": rows + 1, "c": (rows, rows)}), tmp_path)
    for name in BUILT_IN:
        assert page[name]["tensors_left_out"] == 2
    assert page["maps"]["feature_map"].tolist() == [[2.0] * 3] * 4


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
TENSORS = st.lists(st.integers(-9, 9), max_size=3).map(lambda values: torch.tensor(values, dtype=torch.int64))
NESTED = st.recursive(
    LEAVES | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(25), deadline=None)
@given(NESTED)
def test_any_nesting_of_tensors_and_plain_values_comes_back(value):
    with tempfile.TemporaryDirectory() as folder:
        assert as_lists(page_of(lambda rows: value, folder)["live"]["output"]) == as_lists(value)
