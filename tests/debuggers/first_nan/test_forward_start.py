"""What a forward pass started from is kept by reference, and a replay starts from the very same."""

import gc
import random
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch_parts import Applies, Graphs

from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.replay import replay_forward
from debuggers.utils import tensors_in


def noisy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))


def test_a_replay_gives_the_same_bits():
    draws = Applies(lambda values: values + random.random() + np.random.random() + torch.rand(()))
    model, inputs = nn.Sequential(noisy(), draws), torch.randn(6, 4)
    with ForwardCapture(model) as capture:
        outputs = model(inputs)
        torch.rand(10)
        start = capture.start
        start.random_states.put_back()
        start.set_buffers(model)
        (again,) = start.forward(model)

    assert torch.equal(outputs, again)


def test_buffers_are_those_from_before_the_pass():
    model = noisy()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with ForwardCapture(model) as capture:
        model(torch.randn(6, 4))
        assert all(torch.equal(value, before[name]) for name, value in capture.start.buffers.items())
        second = {name: buffer.clone() for name, buffer in model.named_buffers()}
        model(torch.randn(6, 4))
        assert all(torch.equal(value, second[name]) for name, value in capture.start.buffers.items())


def test_gradients_of_all_outputs_are_kept_by_their_position():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, values):
            return {"fixed": torch.ones(2), "a": self.layer(values), "b": (values.sum(), self.layer(values) * 2)}

    model = Two()
    with ForwardCapture(model) as capture:
        outputs = model(torch.ones(1, 3))
        (outputs["a"] * 3 + outputs["b"][1]).sum().backward()
        gradients = capture.start.gradients

    assert {position: gradient.tolist() for position, gradient in gradients.items()} == {1: [[3, 3]], 3: [[1, 1]]}


def test_only_the_last_pass_is_kept_and_not_its_graph():
    model = noisy()
    with ForwardCapture(model) as capture:
        outputs = model(torch.randn(6, 4))
        gone = weakref.ref(outputs)
        del outputs
        gc.collect()
        assert gone() is None
        assert capture.start is not None
        assert capture.start.differences(model) == []
        model(torch.randn(6, 4))
        assert capture.start.number == 2
        assert replay_forward(model, capture.start).notes == (
            "of the step's 2 forward passes the last one is repeated",
        )
        capture.release()
        assert capture.start is None


def test_passes_without_gradients_are_not_kept():
    model = noisy()
    with ForwardCapture(model) as capture, torch.no_grad():
        model(torch.randn(6, 4))
        assert capture.start is None


def test_what_differs_is_said():
    model, inputs = noisy(), torch.randn(6, 4)
    with ForwardCapture(model) as capture:
        model(inputs)
        assert capture.start.differences(model) == []
        inputs.mul_(2)
        model.eval()
        assert capture.start.differences(model) == [
            "1 of the model's arguments were changed in place since the forward pass",
            "the model was in training mode",
        ]


def test_autocast_is_as_it_was():
    model = nn.Linear(4, 4)
    with ForwardCapture(model) as capture:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(torch.randn(2, 4))
        (again,) = capture.start.forward(model)
        model(torch.randn(2, 4))
        (plain,) = capture.start.forward(model)

    assert (again.dtype, plain.dtype) == (torch.bfloat16, torch.float32)


def test_a_model_that_changes_its_argument_is_repeated_without_a_trace():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, values):
            return self.layer(values.add_(1)).sqrt()

    model, inputs = InPlace(), torch.zeros(3, 4)
    with ForwardCapture(model) as capture:
        loss = model(inputs).sum()
        loss.backward()
        result = replay_forward(model, capture.start, loss=loss, loss_is_finite=False)

    assert torch.equal(inputs, torch.ones(3, 4))
    assert result.notes == ("1 of the model's arguments were changed in place since the forward pass",)


def test_a_compiled_model_keeps_its_one_graph():
    torch._dynamo.reset()
    graphs = Graphs()
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    compiled = torch.compile(model, backend=graphs, fullgraph=True)
    with ForwardCapture(compiled) as capture:
        for _ in range(3):
            loss = compiled(torch.zeros(3, 4)).log().sum()
            loss.backward()
        (again,) = capture.start.forward(model)
        result = replay_forward(compiled, capture.start, loss=loss, loss_is_finite=False)

    assert len(graphs) == 1
    assert again.shape == (3, 2)
    assert result.origin is None or result.origin.module == "the loss"


def test_nothing_is_kept_of_models_that_take_no_hooks():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 2)))
    in_place = nn.Linear(4, 2)
    in_place.compile(backend="eager")
    for model in (scripted, in_place):
        with ForwardCapture(model) as capture:
            model(torch.zeros(3, 4))
            assert capture.start is None


def test_keyword_arguments_are_repeated():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, values, *, scale):
            return self.layer(values) / scale

    model, scale = Named(), torch.zeros(())
    with ForwardCapture(model) as capture:
        loss = model(torch.ones(3, 4), scale=scale).sum()
        loss.backward()
        origin = replay_forward(model, capture.start, loss=loss, loss_is_finite=False).origin

    assert (origin.module, origin.operator) == ("Named", "aten::div")
    assert "argument scale of the model" in [operand.name for operand in origin.inputs]


@pytest.mark.parametrize("values", [[torch.ones(1), {"a": (torch.ones(2), 3)}], torch.ones(1)])
def test_tensors_are_found_in_nested_structures(values):
    assert [len(tensor) for tensor in tensors_in(values)] == ([1, 2] if isinstance(values, list) else [1])


class Untouchable(dict):
    def values(self):
        raise LookupError("nobody may look")

    items = values


@pytest.mark.parametrize("returns", [False, True])
def test_what_cannot_be_kept_stops_no_forward_pass(returns):
    kind = Untouchable if returns else dict
    with ForwardCapture(Applies(lambda values, settings: kind(result=values * 2))) as capture:
        outputs = capture._model(torch.ones(2, requires_grad=True), None if returns else Untouchable())
        assert capture.start is None
    assert outputs["result"].tolist() == [2.0, 2.0]


def test_buffers_may_be_offloaded_between_the_passes():
    model = noisy()
    model.forward = lambda inputs: inputs * 2
    mean = model[1].running_mean
    with ForwardCapture(model) as capture:
        model(torch.ones(2, 4))
        assert "1.running_mean" in capture.start.buffers
        mean.untyped_storage().resize_(0)
        model(torch.ones(2, 4))
        assert capture.start.buffers.keys() == {"1.running_var", "1.num_batches_tracked"}
        mean.untyped_storage().resize_(32)
        mean.fill_(3.0)
        model(torch.ones(2, 4))
        assert capture.start.buffers["1.running_mean"].tolist() == [3.0] * 8
