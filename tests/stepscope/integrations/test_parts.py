"""Which module each optimizer trains, and which one of it is called."""

import pytest
import torch
from torch import nn

from stepscope.integrations.parts import parts_of


class Players(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleDict({"first": nn.Sequential(nn.Linear(2, 2)), "second": nn.Linear(2, 2)})


def test_each_optimizer_has_the_smallest_module_that_it_trains():
    model = Players()
    first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in model.nets.values())
    parts = parts_of(model, [first, second], is_called=True)

    assert [part.scope for part in parts] == ["nets/first", "nets/second"]
    assert [part.model for part in parts] == list(model.nets.values())
    assert [part.optimizer for part in parts] == [first, second]


def test_optimizers_of_one_module_are_told_apart_by_number():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    whole, other = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
    parts = parts_of(model, [whole, other], is_called=True)

    assert [(part.scope, part.model) for part in parts] == [("optimizer_0", model), ("optimizer_1", model)]


@pytest.mark.parametrize("is_called", [True, False])
def test_a_model_that_nobody_calls_gives_its_place_to_its_only_child(is_called):
    class Holder(nn.Module):
        def __init__(self, *nets):
            super().__init__()
            self.nets = nn.ModuleList(nets)
            self.metric = nn.Identity()

    one, two = Holder(nn.Linear(2, 2)), Holder(nn.Linear(2, 2), nn.Linear(2, 2))
    for model, child in ((one, one.nets[0]), (two, two)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        (part,) = parts_of(model, [optimizer], is_called=is_called)
        assert part.model is (model if is_called else child)
        assert part.scope == ""
