"""What a rank records of itself, in a group of one, where plain parameters count as copies."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.diagnosis.rank_facts import RANK_NAME, decode_rank
from debuggers.diagnosis.signals import PREFIX
from debuggers.ranks.recorder import RankRecorder


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def recorded(model, steps, first_step=0):
    """What a recorder emits in so many steps."""
    emitter = MemoryEmitter()
    recorder = RankRecorder(model, emitter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(first_step, first_step + steps):
        optimizer.zero_grad()
        inputs = torch.randn(4, 3)
        model(inputs).sum().backward()
        recorder.step(step, inputs, (None, None, None))
        optimizer.step()
        recorder.after_step()
    recorder.close()
    return emitter.artifacts


def steps_of(artifacts, name):
    return [one.step for one in artifacts if one.name == PREFIX + name]


def test_the_first_ten_steps_and_every_tenth_are_checked(group):
    found = recorded(nn.Linear(3, 2), 25)
    expected = [*range(10), 10, 20]
    for name in ("weight_checksum", "gradient_checksum", "batch_checksum", "weight_bits/weight", "gradient_bits/bias"):
        assert steps_of(found, name) == expected
    (text,) = (one for one in found if one.name == RANK_NAME)
    facts = decode_rank(text.text)
    assert (facts.rank, facts.world_size, facts.strategy) == (0, 1, "")
    assert facts.parameters == {"weight": 6, "bias": 2}
    names = {one.name.removeprefix(PREFIX) for one in found} - {RANK_NAME}
    checked = {"weight_checksum", "gradient_checksum", "batch_checksum", "weight_bits", "gradient_bits"}
    assert {name.partition("/")[0] for name in names} == checked


def test_a_training_that_goes_on_checks_the_steps_that_were_checked_before(group):
    """Else checks of the start that was cut off would stay between its own."""
    found = recorded(nn.Linear(3, 2), 30, first_step=35)
    assert steps_of(found, "weight_checksum") == [*range(35, 45), 50, 60]


def test_frozen_weights_are_left_out_and_those_without_a_gradient_are_not(group):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.zeros(2)))
    found = recorded(model, 1)
    assert steps_of(found, "weight_bits/0.weight") == []
    assert (steps_of(found, "weight_bits/unused"), steps_of(found, "gradient_bits/unused")) == ([0], [])


def test_parameters_that_ddp_is_told_to_ignore_are_left_out(group):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["0.weight", "0.bias"])
    found = recorded(nn.parallel.DistributedDataParallel(model), 1)
    assert steps_of(found, "weight_bits/0.weight") == []
    assert steps_of(found, "weight_bits/1.weight") == [0]


def test_equal_values_have_equal_checksums_and_a_change_shows(group):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    numbers = []
    for change in (0.0, 0.0, 1e-7):
        torch.manual_seed(1)
        other = nn.Linear(3, 2)
        other.load_state_dict(model.state_dict())
        other.bias.data[0] += change
        values = [one.value for one in recorded(other, 1) if one.name == f"{PREFIX}weight_checksum"]
        numbers += values
    assert numbers[0] == numbers[1] != numbers[2]
