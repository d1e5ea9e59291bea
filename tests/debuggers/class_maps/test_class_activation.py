"""Class activation maps leave the training as it is, and take models as they come."""

import random

import numpy as np
import pytest
import torch
from debugger_parts import entry, gradcam
from digit_models import digit_network, digits
from module_hooks import hook_count
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.eigencam import EigenCAMDebugger
from debuggers.errors import DebuggerConfigError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.gradcam_plus_plus import GradCAMPlusPlusDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger

DEBUGGERS = [GradCAMDebugger, GradCAMPlusPlusDebugger, EigenCAMDebugger]
MODES = {"with gradients": torch.enable_grad, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


def state_of(model, *tensors):
    """Everything that a debugger must not change, as values that can be compared."""
    kept = [*model.parameters(), *model.buffers(), *tensors]
    gradients = [parameter.grad for parameter in model.parameters()]
    return (
        [(tensor.tolist(), tensor.requires_grad, id(tensor)) for tensor in kept],
        [tensor._version for tensor in kept if not tensor.is_inference()],
        [None if gradient is None else (gradient.tolist(), gradient._version) for gradient in gradients],
        [module.training for module in model.modules()],
        hook_count(model),
        [sorted(vars(module)) for module in model.modules()],
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.backends.mha.get_fastpath_enabled()),
    )


def trained_a_little(training):
    model, (images, labels) = digit_network(), digits(8)
    nn.functional.cross_entropy(model(images), labels).backward()
    return model.train(training), images


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("debugger", DEBUGGERS)
def test_a_call_changes_nothing(debugger, training, mode):
    model, images = trained_a_little(training)
    with MODES[mode]():
        images = images.clone()
        before = state_of(model, images)
        result = debugger("backbone.act2")({"inputs": images}, model)
        assert before == state_of(model, images)
    assert result["gradcam"].shape == (8, 4, 4)
    assert result["gradcam"].max() > 0
    assert not result["gradcam"].is_inference()


@pytest.mark.parametrize("training", [False, True])
def test_a_call_that_fails_changes_nothing(training):
    model, images = trained_a_little(training)
    before = state_of(model, images)
    with pytest.raises(DebuggerConfigError):
        gradcam(model, images, target_class=10)
    with pytest.raises(RuntimeError):
        gradcam(model, images[:, :, :3])
    assert before == state_of(model, images)


@pytest.mark.parametrize("training", [False, True])
def test_a_backward_pass_that_is_still_to_come_is_the_same(training):
    """Also through batch norm, whose backward pass reads the running statistics in eval mode."""

    def gradients(watched):
        model, (images, labels) = digit_network().train(training), digits(8)
        torch.manual_seed(3)
        loss = nn.functional.cross_entropy(model(images), labels)
        if watched:
            gradcam(model, images)
        loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    assert all(torch.equal(one, other) for one, other in zip(gradients(False), gradients(True), strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_the_map_is_the_same_in_each_mode_of_the_caller(mode):
    model, (images, _) = digit_network().eval(), digits(3)
    expected = gradcam(model, images)
    with MODES[mode]():
        assert torch.equal(expected, gradcam(model, images * 1))


def test_training_mode_uses_the_statistics_of_the_batch():
    model, (images, _) = digit_network(), digits(6)
    model.dropout.p = 0.0
    changed = images.clone()
    changed[1:] *= 3

    first, other = gradcam(model, images)[0], gradcam(model, changed)[0]
    assert not torch.allclose(first, other)
    model.eval()
    torch.testing.assert_close(gradcam(model, images)[0], gradcam(model, changed)[0])


def test_dropout_in_training_mode_draws_what_the_caller_draws_next():
    model, (images, _) = digit_network(), digits(6)
    seen = []
    gradcam(model, images, logits=lambda scores: seen.append(scores.detach()) or scores)

    assert torch.equal(seen[0], model(images).detach())


def test_other_debuggers_do_not_see_the_run_and_hooks_of_users_do():
    model, (images, _) = digit_network().eval(), digits(3)
    seen_by_user = []
    model.head.register_forward_hook(lambda module, inputs, output: seen_by_user.append(len(output)))
    with SequentialDebugger([entry("maps", FeatureMapDebugger, layer_name="head")], model) as watching:
        watching.enabled = True
        model(images)
        captured = watching.debuggers["maps"].last_capture
        gradcam(model, images[:1])
        assert watching.debuggers["maps"].last_capture is captured
    assert seen_by_user == [3, 1]


def test_it_works_in_a_sequential_debugger(tmp_path):
    model, (images, _) = digit_network().eval(), digits(4)
    emitter = MemoryEmitter()
    config = [entry(cls.__name__, cls, target_layer="backbone.act2") for cls in DEBUGGERS]
    with SequentialDebugger(config, model, emitter=emitter, on_error="raise") as sequential, torch.inference_mode():
        sequential.begin_epoch(tmp_path)
        outputs = model(images)
        sequential({"inputs": images, "outputs": outputs, "meta_info": {"idx": [10, 11, 12, 13]}}, model)

    page = PageReader(tmp_path)
    for debugger in DEBUGGERS:
        slot = page[12][debugger.__name__]
        expected = debugger("backbone.act2")({"inputs": images}, model)
        assert np.array_equal(expected["gradcam"][2].numpy(), slot["gradcam"])
        if debugger is not EigenCAMDebugger:
            assert slot["classes"] == outputs[2].argmax().item()
    emitted = {artifact.name for artifact in emitter.artifacts}
    assert {"GradCAMDebugger/gradcam_stats/mean", "GradCAMDebugger/gradcam"} <= emitted
