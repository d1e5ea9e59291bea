"""What is known of a model's parameters at its first step."""

import pytest
import torch
from torch import nn

import stepscope
from debuggers.gradients.parameters import Parameters
from debuggers.observed_training.initial_parameters import InitialParameters


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nothing_is_known_of_weights_that_are_not_finite(value):
    model = nn.Linear(4, 8)
    with torch.no_grad():
        model.weight[2, 1] = value

    weight, bias = InitialParameters(Parameters(model)).facts({})

    assert (weight.is_sampled, weight.mean, weight.std) == (False, 0.0, 0.0)
    assert bias.is_sampled
    assert bias.std == pytest.approx(float(model.bias.std(correction=0)))


def test_frozen_parameters_that_follow_others_are_known():
    """As of a momentum encoder; what nothing changes stays as it is."""
    model = nn.ModuleDict({"query": nn.Linear(4, 2), "key": nn.Linear(4, 2), "old": nn.Linear(4, 2)})
    model["key"].requires_grad_(False)
    model["old"].requires_grad_(False)
    optimizer = torch.optim.SGD(model["query"].parameters(), lr=0.1)
    session = stepscope.watch(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        model["query"](torch.ones(8, 4)).square().mean().backward()
        optimizer.step()
        for key, query in zip(model["key"].parameters(), model["query"].parameters(), strict=True):
            key.data = key.data * 0.9 + query.data * 0.1
    facts = session.evidence().facts
    session.close()
    assert [one.name for one in facts.parameters if one.moves] == ["key.weight", "key.bias"]
    assert [one.name for one in facts.parameters if one.role == "frozen"][2:] == ["old.weight", "old.bias"]


@pytest.mark.parametrize(("rows", "expected"), [
    (torch.eye(8).repeat(8, 1), 8 * 7 / 63),  # 64 rows in 8 directions: of a row's 63 others, 7 are its own
    (torch.ones(64, 8), 8.0),
    (torch.randn(1000, 300, generator=torch.Generator().manual_seed(0)), 1.0),
    (torch.ones(63, 8), None),
])  # fmt: skip
def test_rows_of_frozen_tables_are_compared_with_each_other(rows, expected):
    tables = nn.ModuleList(nn.Embedding.from_pretrained(rows, freeze=freeze) for freeze in (True, False))
    frozen, trained = InitialParameters(Parameters(tables), tables=["0.weight", "1.weight"]).facts({})
    unasked = InitialParameters(Parameters(tables)).facts({})

    assert frozen.likeness == (expected if expected is None else pytest.approx(expected, rel=0.05))
    assert trained.likeness is None
    assert [one.likeness for one in unasked] == [None, None]
