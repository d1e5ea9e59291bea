"""A training run with every built-in debugger on, and with careless ones, is bit-identical to one without."""

import copy
import io
import pickle
import random
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from debugger_parts import entry
from digit_models import digits
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.attention import AttentionDebugger
from debuggers.base_debugger import BaseDebugger, Picture
from debuggers.eigencam import EigenCAMDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.gradcam_plus_plus import GradCAMPlusPlusDebugger
from debuggers.layer_output import LayerOutputDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger

STEPS, BATCH = 6, 16
MAPS = "features.4"


class Network(nn.Module):
    """All that a careless observer disturbs: running statistics, random masks, values that change in place."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Dropout2d(0.1),
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
        )
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(8, 10)

    def forward(self, images):
        tokens = self.features(images).flatten(2).transpose(1, 2)
        attended, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return self.head(self.dropout(attended.mean(1)))


CONFIG = [
    entry("maps", FeatureMapDebugger, layer_name="features.0"),
    entry("normed", FeatureMapDebugger, layer_name="features.1"),
    entry("stats", ActivationStatsDebugger, layer_name="features.5"),
    entry("raw", LayerOutputDebugger, layer_name=MAPS, downsample_factor=2),
    entry("attention", AttentionDebugger, layer_name="attention"),
    entry("gradcam", GradCAMDebugger, target_layer=MAPS),
    entry("gradcam++", GradCAMPlusPlusDebugger, target_layer=MAPS),
    entry("eigencam", EigenCAMDebugger, target_layer=MAPS),
]


class DrawsInForward(ForwardDebugger):
    def process_forward(self, module, input, output):
        return {"noise": torch.rand(3), "other": random.random() + np.random.rand()}


class DrawsAndFails(BaseDebugger):
    def __call__(self, datapoint, model):
        torch.rand(3)
        raise RuntimeError("on purpose")


class DrawsPictures(BaseDebugger):
    def __call__(self, datapoint, model):
        return {"value": 1.0}

    def pictures(self, outputs, datapoint):
        yield Picture("noise", torch.rand(4, 4))


CARELESS = [
    entry("noise", DrawsInForward, layer_name="dropout"),
    entry("failing", DrawsAndFails),
    entry("pictures", DrawsPictures),
]


def network():
    """The same weights each time; one of them is frozen."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Network()
    model.features[0].bias.requires_grad_(False)
    return model


def random_states():
    """Of torch, Python and NumPy, as values that can be compared."""
    name, keys, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), name, keys.tolist(), rest


def flags_of(model):
    return [module.training for module in model.modules()], [each.requires_grad for each in model.parameters()]


def tensors_of(model):
    """Weights, buffers and gradients; None where there is no gradient."""
    tensors = [*model.state_dict().values(), *(parameter.grad for parameter in model.parameters())]
    return [None if tensor is None else tensor.clone() for tensor in tensors]


def hooks_of(model):
    """Every hook of every module and of all modules, and how many function modes are active."""
    places = [vars(module) for module in model.modules()] + [vars(nn.modules.module)]
    hooks = [value for place in places for key, value in place.items() if key.endswith("_hooks") and value]
    hooks += [place["_compiled_call_impl"] for place in places if place.get("_compiled_call_impl") is not None]
    return hooks, torch._C._len_torch_function_stack()


def train(watching):
    """Trains with a validation after each step; returns the model and all that an observer must leave alone."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    model, (images, labels) = network(), digits(96)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    values, tensors = [], []
    with watching(model) as watch:
        for step in range(STEPS):
            model.train()
            chosen = torch.randperm(len(images))[:BATCH]
            outputs = model(images[chosen])
            loss = nn.functional.cross_entropy(outputs, labels[chosen])
            # Before the backward pass in one step, with fresh gradients in the next.
            if step % 2:
                watch(images[chosen], outputs, chosen)
            optimizer.zero_grad()
            loss.backward()
            if not step % 2:
                watch(images[chosen], outputs, chosen)
            values += [loss.item(), random_states(), flags_of(model)]
            tensors += [outputs, *tensors_of(model)]
            optimizer.step()
            model.eval()
            with torch.inference_mode() if step % 2 else torch.no_grad():
                outputs = model(images[:BATCH])
                watch(images[:BATCH], outputs, range(BATCH))
            values += [random.random(), np.random.rand(), torch.rand(1).item(), random_states(), flags_of(model)]
            tensors += [outputs, *tensors_of(model)]
    return model, values, tensors


@contextmanager
def unwatched(model):
    yield lambda images, outputs, indices: None


@contextmanager
def watched(folder, model):
    options = {"page_size_mb": 0.1, "emitter": MemoryEmitter(), "keep": ["inputs", "outputs"]}
    with SequentialDebugger([*CONFIG, *CARELESS], model, **options) as sequential:
        sequential.begin_epoch(folder)

        def watch(images, outputs, indices):
            returned = sequential({"inputs": images, "outputs": outputs, "meta_info": {"idx": indices}}, model)
            assert [name for name, slot in returned.items() if "error" in slot] == ["failing"]

        yield watch
    assert list(sequential.failures) == [("debugger 'failing'", "RuntimeError")]


def is_same(one, other):
    return one is other if one is None or other is None else torch.equal(one, other)


@pytest.fixture(
    params=[
        pytest.param(False, id="as usual"),
        pytest.param(True, id="deterministic algorithms", marks=pytest.mark.slow),
    ]
)
def deterministic(request):
    torch.use_deterministic_algorithms(request.param)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
def test_every_number_of_a_run_is_the_same(tmp_path):
    _, plain_values, plain_tensors = train(unwatched)
    model, values, tensors = train(partial(watched, tmp_path))
    assert plain_values == values
    assert all(map(is_same, plain_tensors, tensors))
    assert len(plain_tensors) == len(tensors)
    assert hooks_of(model) == ([], 0)
    assert len(PageReader(tmp_path)) > BATCH


@pytest.fixture(scope="module")
def undisturbed():
    return train(unwatched)


@pytest.mark.parametrize(
    "disturb",
    [
        lambda model: torch.rand(1),
        lambda model: random.random(),
        lambda model: np.random.rand(),
        lambda model: model.features[1](torch.ones(2, 8, 4, 4)),
        lambda model: model.train(),
        lambda model: model.zero_grad(),
        lambda model: model.head.bias.requires_grad_(False),
    ],
)
def test_a_disturbed_run_is_told_from_an_undisturbed_one(undisturbed, disturb):
    """Or else the test above would say nothing."""

    @contextmanager
    def careless(model):
        def watch(images, outputs, indices):
            disturb(model)

        yield watch

    _, plain_values, plain_tensors = undisturbed
    _, values, tensors = train(careless)
    assert plain_values != values or not all(map(is_same, plain_tensors, tensors))


@pytest.fixture
def sequential():
    model = network().eval()
    with SequentialDebugger(CONFIG, model) as debugger:
        debugger.enabled = True
        yield debugger, model
        debugger.reset_buffer()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_watched_model_can_be_copied_and_the_copy_is_not_watched(sequential, copied):
    debugger, model = sequential
    datapoint = {"inputs": digits(4)[0], "meta_info": {"idx": range(4)}}
    expected = model(datapoint["inputs"])
    other = copied(model)
    assert debugger(datapoint, model)["maps"]["feature_map"].shape == (4, 8, 8, 8)
    assert torch.equal(expected, other(datapoint["inputs"]))
    assert "did not run" in debugger(datapoint, model)["maps"]["error"]


def test_a_watched_model_saves_its_weights_and_nothing_else(sequential):
    _, model = sequential
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    saved = torch.load(stream, weights_only=True)
    assert list(saved) == list(network().state_dict())
    assert all(torch.equal(value, saved[name]) for name, value in network().state_dict().items())


def test_no_hook_remains_after_an_exception():
    model = network()
    with pytest.raises(KeyboardInterrupt), SequentialDebugger(CONFIG, model) as debugger:
        debugger.enabled = True
        assert hooks_of(model) != ([], 0)
        raise KeyboardInterrupt
    assert hooks_of(model) == ([], 0)
