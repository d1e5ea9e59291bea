"""The architecture of a model, read from its modules."""

import pytest
import torch
from torch import nn

import stepscope
from debuggers import ModelArchitectureInfo
from debuggers.errors import DebuggerConfigError


def model():
    net = nn.Sequential(
        nn.Linear(16, 64), nn.Sequential(nn.Linear(64, 8), nn.ReLU()), nn.Linear(8, 64), nn.Linear(64, 2)
    )
    net[0].weight.requires_grad_(False)
    return net


def test_a_session_reads_the_architecture_of_its_model():
    net = model()
    found = stepscope.DebugSession(net).model_diagnostics.architecture()

    by_module = {"0": 16 * 64 + 64, "1.0": 64 * 8 + 8, "2": 8 * 64 + 64, "3": 64 * 2 + 2}
    assert found.parameters_by_module == by_module
    assert found.total_parameters == sum(by_module.values())
    assert found.trainable_parameters == found.total_parameters - 16 * 64
    assert found.model_size_mb == found.total_parameters * 4 / 2**20
    assert (found.layer_count, found.depth) == (5, 2)
    assert found.widths == {"0": 64, "1.0": 8, "2": 64, "3": 2}
    assert found.bottlenecks == ("1.0",)


def test_a_quarter_of_the_neighbours_is_no_bottleneck():
    net = nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 16), nn.Linear(16, 64))

    assert stepscope.DebugSession(net).model_diagnostics.architecture().bottlenecks == ()


def test_a_shared_parameter_counts_once_and_a_lazy_one_not_yet():
    net = nn.ModuleDict(
        {"embedding": nn.Embedding(10, 4), "head": nn.Linear(4, 10, bias=False), "lazy": nn.LazyLinear(3)}
    )
    net["head"].weight = net["embedding"].weight

    assert stepscope.DebugSession(net).model_diagnostics.architecture().total_parameters == 40


def test_operations_are_counted_on_request_and_leave_no_trace():
    net = model()
    before = torch.get_rng_state()

    assert stepscope.DebugSession(net).model_diagnostics.flops(torch.ones(3, 16)) == 2 * 3 * (
        16 * 64 + 64 * 8 + 8 * 64 + 64 * 2
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in net.parameters())


def test_counting_operations_during_training_changes_neither_buffers_nor_random_numbers():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    inputs = torch.ones(6, 4)
    before, random_state = {name: value.clone() for name, value in net.state_dict().items()}, torch.get_rng_state()
    with stepscope.DebugSession(net, torch.optim.SGD(net.parameters(), lr=0.1)) as session:
        loss = net(inputs).sum()
        after_forward = {name: value.clone() for name, value in net.state_dict().items()}
        random_after = torch.get_rng_state()
        assert session.model_diagnostics.flops(inputs) == 2 * 6 * (4 * 8 + 8)
        loss.backward()

    assert not torch.equal(random_state, random_after)
    assert torch.equal(torch.get_rng_state(), random_after)
    assert not torch.equal(before["1.running_mean"], after_forward["1.running_mean"])
    assert all(torch.equal(value, after_forward[name]) for name, value in net.state_dict().items())


def test_a_wrong_value_is_one_clear_error():
    with pytest.raises(DebuggerConfigError, match="layer_count is 'many'; expected an integer of at least 0"):
        ModelArchitectureInfo(total_parameters=1, trainable_parameters=1, model_size_mb=1.0, layer_count="many")
    with pytest.raises(DebuggerConfigError, match="trainable_parameters is 2; expected at most"):
        ModelArchitectureInfo(total_parameters=1, trainable_parameters=2, model_size_mb=1.0, layer_count=1)
