"""The example debuggers run as they are written, and their configuration runs with the project's own debuggers too."""

import numpy as np
import pytest
import torch

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.attention import AttentionDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.layer_output import LayerOutputDebugger
from debuggers.pages import PageReader

BLOCKS = [
    ("python", "from typing import Any, Dict", "62c2d454", "as it is"),
    ("python", "from typing import Any, Dict", "a20a2919", "as it is"),
    ("python", "from typing import Any, Dict", "8420aed9", "as it is"),
    ("python", "from typing import Any, Dict", "018fba92", "as it is"),
    ("python", "from typing import Any, Dict", "af8b4965", "as it is"),
    ("python", "from debuggers.wrappers.sequential_debugger import SequentialDebugger", "1f020411", "as it is"),
]
BUILT_IN = [FeatureMapDebugger, AttentionDebugger, ActivationStatsDebugger, LayerOutputDebugger, GradCAMDebugger]
KEYS = {
    "backbone_features": {"feature_map", "stats", "layer_name"},
    "attention_analysis": {"attention_map", "attention_stats", "layer_name"},
    "activation_stats": {"layer_name", "module_type", "activation_stats", "sample_values"},
    "raw_outputs": {"layer_name", "original_shape", "output", "downsampled", "downsample_factor"},
    "gradcam_analysis": {"gradcam", "target_layer", "target_class", "gradcam_stats"},
}


@pytest.fixture
def document(open_document):
    return open_document("002_debugger_examples.md", BLOCKS)


@pytest.fixture(params=["written", "built in"])
def classes(request, document):
    """The debuggers' classes by name: those of the document, or the project's of the same names."""
    if request.param == "built in":
        return {each.__name__: each for each in BUILT_IN}
    return {each.__name__: document.run(index)[each.__name__] for index, each in enumerate(BUILT_IN)}


@pytest.fixture
def watched(document, classes, model, batch, tmp_path):
    """Runs the document's configuration on a batch; returns what the debuggers returned, and their pages."""
    config = document.run(5, **classes)["config"]["debugger"]
    with config["class"](**config["args"], model=model) as sequential:
        sequential.begin_epoch(tmp_path)
        batch["outputs"] = model(batch["inputs"])
        state = torch.get_rng_state()
        returned = sequential(batch, model)
        assert torch.equal(state, torch.get_rng_state())
    assert sequential.failures == {}
    return returned, PageReader(tmp_path)


@pytest.fixture
def activations(model, batch):
    """What the layers make of the batch, as arrays."""
    return {name: values.detach().numpy() for name, values in model.activations(batch["inputs"]).items()}


def test_every_block_is_listed(document):
    document.check_table()


def test_every_debugger_has_its_keys(watched):
    returned, _ = watched
    assert list(returned) == list(KEYS)
    for name, keys in KEYS.items():
        assert keys <= set(returned[name]), name


def test_feature_maps(watched, activations):
    returned, pages = watched
    expected, outputs = activations["backbone.layer4"], returned["backbone_features"]
    np.testing.assert_array_equal(expected, outputs["feature_map"])
    assert outputs["layer_name"] == "backbone.layer4"
    assert outputs["stats"]["shape"] == [3, 4, 8, 8]
    wide = expected.astype(np.float64)
    numbers = {"mean": wide.mean(), "std": wide.std(ddof=1), "min": wide.min(), "max": wide.max()}
    assert {name: outputs["stats"][name] for name in numbers} == pytest.approx(numbers, rel=1e-5, abs=1e-6)
    np.testing.assert_array_equal(expected[1], pages[6]["backbone_features"]["feature_map"])


def test_attention(watched, activations):
    returned, pages = watched
    expected, outputs = activations["head.attention"], returned["attention_analysis"]
    np.testing.assert_array_equal(expected, outputs["attention_map"])
    assert outputs["layer_name"] == "head.attention"
    wide = expected.astype(np.float64)
    stats = outputs["attention_stats"]
    # The document adds 1e-8 inside of the logarithm.
    assert stats["entropy"] == pytest.approx(-(wide * np.log(wide)).sum(-1).mean(), abs=1e-4)
    assert stats["max_attention"] == pytest.approx(wide.max())
    assert "attention_distribution" in stats
    np.testing.assert_array_equal(expected[2], pages[7]["attention_analysis"]["attention_map"])


def test_activation_stats(watched, activations):
    returned, pages = watched
    wide, outputs = activations["backbone.layer3"].astype(np.float64), returned["activation_stats"]
    assert (outputs["layer_name"], outputs["module_type"]) == ("backbone.layer3", "Conv2d")
    stats = dict(outputs["activation_stats"])
    assert stats.pop("shape") == [3, 4, 8, 8]
    by_channel = np.moveaxis(wide, 1, 0).reshape(4, -1)
    expected = {
        "mean": wide.mean(),
        "std": wide.std(ddof=1),
        "min": wide.min(),
        "max": wide.max(),
        "l1_norm": np.abs(wide).mean(),
        "l2_norm": np.sqrt((wide**2).sum()),
        "sparsity": (wide == 0).mean(),
        "positive_ratio": (wide > 0).mean(),
        "saturation_low": (wide <= -1).mean(),
        "saturation_high": (wide >= 1).mean(),
        "channel_means": by_channel.mean(1),
        "channel_stds": by_channel.std(1, ddof=1),
    }
    assert set(expected) <= set(stats)
    for name, value in expected.items():
        np.testing.assert_allclose(stats[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert outputs["sample_values"] == wide.flatten()[:100].tolist()
    assert pages[5]["activation_stats"] == outputs


def test_raw_outputs(watched, activations):
    returned, pages = watched
    wide, outputs = activations["backbone.layer2"].astype(np.float64), returned["raw_outputs"]
    assert (outputs["layer_name"], outputs["original_shape"]) == ("backbone.layer2", [3, 4, 8, 8])
    assert (outputs["downsampled"], outputs["downsample_factor"]) == (True, 2)
    means = wide.reshape(3, 4, 4, 2, 4, 2).mean((3, 5))
    np.testing.assert_allclose(outputs["output"], means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pages[6]["raw_outputs"]["output"], means[1], rtol=1e-5, atol=1e-6)


def test_gradcam(watched):
    returned, pages = watched
    outputs = returned["gradcam_analysis"]
    assert (outputs["target_layer"], outputs["target_class"]) == ("backbone.layer4", None)
    gradcam = np.asarray(outputs["gradcam"], np.float64)
    assert gradcam.shape == (3, 8, 8)
    assert gradcam.min() >= 0
    stats = outputs["gradcam_stats"]
    assert stats["shape"] == [3, 8, 8]
    np.testing.assert_allclose([stats["mean"], stats["std"]], [gradcam.mean(), gradcam.std(ddof=1)], rtol=1e-4)
    np.testing.assert_array_equal(outputs["gradcam"][0], pages[5]["gradcam_analysis"]["gradcam"])
