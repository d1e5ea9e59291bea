"""Several optimizers as one: groups, state, names."""

import torch

from debuggers.instrumentation.joined_optimizers import JoinedOptimizers, learning_rates, members_of, optimizer_name


def optimizers():
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    groups = [{"params": [second.weight], "lr": 0.3}, {"params": [second.bias], "lr": 0.4}]
    return torch.optim.SGD(first.parameters(), 0.1), torch.optim.AdamW(groups), second


def test_groups_and_rates_in_the_given_order():
    sgd, adamw, _ = optimizers()
    joined = JoinedOptimizers([sgd, adamw])
    assert [len(group["params"]) for group in joined.param_groups] == [2, 1, 1]
    assert joined.param_groups[0] is sgd.param_groups[0]
    assert members_of(joined) == (sgd, adamw)
    assert optimizer_name(joined) == "SGD + AdamW"
    assert learning_rates(joined) == [
        ("learning_rate/sgd", 0.1), ("learning_rate/adamw/0", 0.3), ("learning_rate/adamw/1", 0.4)
    ]  # fmt: skip


def test_names_of_a_single_one_and_of_two_of_a_class():
    sgd, adamw, second = optimizers()
    assert learning_rates(sgd) == [("learning_rate", 0.1)]
    assert learning_rates(adamw) == [("learning_rate/0", 0.3), ("learning_rate/1", 0.4)]
    other = torch.optim.SGD(second.parameters(), 0.2)
    names = [name for name, _ in learning_rates(JoinedOptimizers([sgd, adamw, other]))]
    assert names == ["learning_rate/sgd_0", "learning_rate/adamw/0", "learning_rate/adamw/1", "learning_rate/sgd_2"]
    assert learning_rates(None) == []


def test_asking_for_state_makes_none():
    sgd, adamw, second = optimizers()
    joined = JoinedOptimizers([sgd, adamw])
    assert joined.state.get(second.weight, {}) == {}
    assert len(adamw.state) == 0
    second.weight.grad = torch.ones(2, 2)
    adamw.step()
    assert joined.state[second.weight] is adamw.state[second.weight]
    assert list(joined.state) == [second.weight]
