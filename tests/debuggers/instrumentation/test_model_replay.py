"""What runs aside reaches neither the model nor the caller."""

import pytest
import torch
from torch import nn
from torch.distributed import fsdp
from torch.distributed.device_mesh import init_device_mesh

from debuggers.errors import DebuggerConfigError
from debuggers.instrumentation.model_replay import plain_model, replay_arguments, run_aside


class Counts(nn.Module):
    """Changes its buffers in both ways: in place, and by a new tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("total", torch.zeros(()))
        self.inner = nn.Module()
        self.inner.register_buffer("tied", self.calls)

    def forward(self, values):
        self.calls.add_(1)
        self.total = self.total + values.sum()
        return values + self.inner.tied


def test_buffers_stay_whatever_the_model_does_with_them():
    model = Counts()
    calls, total = model.calls, model.total

    results = run_aside(model, lambda: [model(torch.ones(2)) for _ in range(2)], gradients=False)

    assert [result.tolist() for result in results] == [[2, 2], [3, 3]]
    assert model.calls is calls
    assert model.inner.tied is calls
    assert model.total is total
    assert (calls.item(), total.item(), calls._version, total._version) == (0, 0, 0, 0)


def test_buffers_are_put_back_after_an_exception():
    model = Counts()
    calls = model.calls
    with pytest.raises(ZeroDivisionError):
        run_aside(model, lambda: model(torch.ones(2)) / (1 // 0), gradients=True)
    assert model.calls is calls
    assert calls.item() == 0


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("gradients", [False, True])
def test_gradients_are_on_or_off_as_asked(mode, gradients):
    with mode():
        caller = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        inside = run_aside(
            nn.Identity(),
            lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.ones(1).is_inference()),
            gradients=gradients,
        )
        assert inside == (gradients, False, False)
        assert caller == (torch.is_grad_enabled(), torch.is_inference_mode_enabled())


def test_recurrent_networks_give_the_same_afterwards():
    model, values = nn.LSTM(3, 4), torch.randn(5, 3)
    expected = model(values)[0]

    assert torch.equal(expected, run_aside(model, lambda: model(values)[0], gradients=True))
    assert torch.equal(expected, model(values)[0])


def test_inputs_are_copied():
    images = torch.zeros(2)
    args, kwargs = replay_arguments(nn.ReLU(), images)
    args[0].add_(1)
    assert (kwargs, images.tolist()) == ({}, [0, 0])


def test_wrappers_of_wrappers_are_unwrapped():
    model = nn.Linear(2, 2)
    assert plain_model(nn.DataParallel(nn.DataParallel(model))) is model
    assert plain_model(model) is model


def test_a_model_whose_root_alone_is_sharded_is_refused_also_after_it_ran(process_group):
    """Its parameters are whole then, until the backward pass."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    fsdp.fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    model(torch.ones(2, 4))
    with pytest.raises(DebuggerConfigError, match="computes together with other processes"):
        run_aside(model, lambda: model(torch.ones(2, 4)), gradients=False)


def test_a_buffer_that_is_offloaded_stays_so():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False))
    model.register_buffer("mask", torch.ones(100))
    model.mask.untyped_storage().resize_(0)

    assert run_aside(model, lambda: model(torch.ones(2, 2)), gradients=False).shape == (2, 2)
