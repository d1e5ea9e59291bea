"""Grad-CAM runs what wrappers and torch.compile wrap, and leaves them as they are."""

import pytest
import torch
from digit_models import digit_network, digits
from torch import nn

from debuggers.gradcam import GradCAMDebugger


def gradcam(model, inputs):
    return GradCAMDebugger("backbone.act2", 3)({"inputs": inputs}, model)["gradcam"]


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda model: torch.compile(model, backend="eager")])
def test_wrapped_models_run_as_what_they_wrap(wrap):
    model, (images, _) = digit_network().eval(), digits(3)

    assert torch.equal(gradcam(model, images), gradcam(wrap(model), images))


def test_compiled_parts_run_eagerly_and_stay_compiled():
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    model, (images, _) = digit_network().eval(), digits(3)
    expected = gradcam(model, images)
    model.backbone = torch.compile(model.backbone, backend=backend)
    with torch.no_grad():
        model(images)
        assert len(compiled) == 1
        assert torch.equal(expected, gradcam(model, images))
        model(images)
    assert len(compiled) == 1


def test_distributed_data_parallel_is_unwrapped_and_its_gradients_stay(process_group):
    model, (images, labels) = digit_network(), digits(3)
    wrapped = nn.parallel.DistributedDataParallel(model)
    loss = nn.functional.cross_entropy(wrapped(images), labels)

    assert torch.equal(gradcam(model, images), gradcam(wrapped, images))
    loss.backward()
    assert model.head.weight.grad is not None
