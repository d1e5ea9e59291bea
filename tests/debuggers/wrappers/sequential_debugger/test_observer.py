"""Training with every debugger on is bit-identical to training without."""

import random

import numpy as np
import pytest
import torch
from digit_models import digit_network, digits
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.base_debugger import BaseDebugger, Picture
from debuggers.feature_map import FeatureMapDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger


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


class RunsTheModelAgain(BaseDebugger):
    def __call__(self, datapoint, model):
        with torch.no_grad():
            return {"again": model.head(model.backbone(datapoint["inputs"][:1]).flatten(1))}


CONFIG = [
    {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.conv1"}}},
    {"name": "stats", "debugger_config": {"class": ActivationStatsDebugger, "args": {"layer_name": "backbone.act2"}}},
    {"name": "head", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "head"}}},
    {"name": "noise", "debugger_config": {"class": DrawsInForward, "args": {"layer_name": "dropout"}}},
    {"name": "failing", "debugger_config": {"class": DrawsAndFails}},
    {"name": "pictures", "debugger_config": {"class": DrawsPictures}},
]


def train(folder=None):
    """Twelve steps; returns everything that a debugger must not change."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    model, (images, labels) = digit_network(), digits(96)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sequential = SequentialDebugger(
        CONFIG, model, page_size_mb=0.1, emitter=MemoryEmitter(), keep=("inputs", "outputs")
    )
    if folder is not None:
        sequential.begin_epoch(folder)
    trail = []
    for step in range(12):
        indices = torch.randperm(96)[:16]
        outputs = model(images[indices])
        loss = nn.functional.cross_entropy(outputs, labels[indices])
        optimizer.zero_grad()
        loss.backward()
        sequential({"inputs": images[indices], "outputs": outputs, "meta_info": {"idx": indices}}, model)
        trail += [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]
        optimizer.step()
        model.train(step % 3 != 0)
    sequential.close()
    trail += [*model.state_dict().values(), torch.get_rng_state()]
    return trail, (random.getstate(), np.random.get_state()[1].tolist(), [m.training for m in model.modules()])


@pytest.mark.parametrize("deterministic", [False, True])
def test_training_is_bit_identical(tmp_path, deterministic):
    torch.use_deterministic_algorithms(deterministic)
    try:
        plain, plain_state = train()
        watched, watched_state = train(tmp_path)
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(plain) == len(watched)
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert plain_state == watched_state
    assert (tmp_path / "page_0.pkl").exists()


def test_a_debugger_that_runs_the_model_again_does_not_change_what_others_captured():
    model, (images, _) = digit_network().eval(), digits(2)
    config = [{"name": "again", "debugger_config": {"class": RunsTheModelAgain}}, *CONFIG[:1]]
    with SequentialDebugger(config, model) as sequential:
        sequential.enabled = True
        outputs = sequential_call(sequential, model, images)
    assert outputs["maps"]["feature_map"].shape == (2, 4, 8, 8)
    assert outputs["again"]["again"].shape == (1, 10)


def sequential_call(sequential, model, images):
    outputs = model(images)
    return sequential({"inputs": images, "outputs": outputs, "meta_info": {"idx": [0, 1]}}, model)
