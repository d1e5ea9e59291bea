"""How far weights have come: which of several optimizers is idle."""

import math

import pytest
import torch

from debuggers.gradients.weight_movement import IdleOptimizers
from debuggers.instrumentation.joined_optimizers import JoinedOptimizers

STILL = 1e-6


@pytest.mark.parametrize(
    ("own", "steps", "moved", "evidence"),
    [
        (25, 25, 0.0, "25 steps of optimizer[1] (SGD) changed them by 0 of their size"),
        (24, 24, 0.0, None),
        (25, 25, 2e-6, None),
        (25, 25, math.nan, None),
        (25, 25, 0.5e-6, "25 steps of optimizer[1] (SGD) changed them by 5e-07 of their size"),
        (0, 100, 0.0, "optimizer[1] (SGD), which holds them, took no step in 100"),
        (0, 99, 0.0, None),
        (2, 100, 0.0, None),  # of its own steps there are few
    ],
)
def test_limits(own, steps, moved, evidence):
    named = {name: torch.nn.Parameter(torch.ones(2)) for name in "ab"}
    members = [torch.optim.SGD([one], 0.1) for one in named.values()]
    joined = JoinedOptimizers(members)
    for place, count in enumerate((steps, own)):
        for _ in range(count):
            joined.rounds.begins(members[place])
            joined.rounds.ends(members[place])
    idle = IdleOptimizers(joined, STILL)
    found = idle.judge(steps, {"a": (0.1, 1.0), "b": (moved, 1.0)}, named)
    assert found == {0: None, 1: evidence}
    assert idle.names == ({} if evidence is None else {1: ["b"]})


def test_none_is_idle_where_all_stand_still_and_none_that_has_moved_before():
    named = {name: torch.nn.Parameter(torch.ones(2)) for name in "ab"}
    joined = JoinedOptimizers([torch.optim.SGD([one], 0.0) for one in named.values()])
    for _ in range(30):
        for member in joined.members:
            joined.rounds.begins(member)
            joined.rounds.ends(member)
    still, far = (0.0, 1.0), (0.1, 1.0)
    idle = IdleOptimizers(joined, STILL)
    assert idle.judge(30, {"a": still, "b": still}, named) == {0: None, 1: None}
    found = idle.judge(30, {"a": far, "b": still}, named)
    assert found[1] is not None
    assert ", with a learning rate of 0," in found[1]
    assert idle.judge(30, {"a": far, "b": far}, named) == {0: None, 1: None}
    assert idle.judge(30, {"a": far, "b": still}, named) == {0: None, 1: None}


def test_a_single_optimizer_is_not_judged():
    parameter = torch.nn.Parameter(torch.ones(2))
    idle = IdleOptimizers(torch.optim.SGD([parameter], 0.1), STILL)
    assert idle.judge(200, {"a": (0.0, 1.0)}, {"a": parameter}) == {}
