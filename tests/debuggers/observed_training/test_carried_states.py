"""A state that a loop over positions detaches at each of them, and those that go back, or are cut on purpose."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope

POSITIONS = 9


class Reader(nn.Module):
    """Reads numbers one after the other by a cell, or by a layer that is given one position a call."""

    def __init__(self, make, cut):
        super().__init__()
        self.make, self.cut = make, cut
        self.cell, self.last = make(), nn.Linear(8, 2)

    def forward(self, rows):
        state = None
        for place in range(POSITIONS):
            now = rows[:, place, None]
            if isinstance(self.cell, nn.RNNBase):
                outputs, state = self.cell(now[:, None], state)
                outputs = outputs[:, 0]
            else:
                state = self.cell(now, state)
                outputs = state[0] if isinstance(state, tuple) else state
            state = self.cut(state, place)
        return self.last(outputs)


def detached(state, place):
    return tuple(one.detach() for one in state) if isinstance(state, tuple) else state.detach()


def sometimes(state, place):
    return detached(state, place) if place % 3 == 2 else state


CELLS = {
    "GRUCell": lambda: nn.GRUCell(1, 8),
    "LSTMCell": lambda: nn.LSTMCell(1, 8),
    "GRU": lambda: nn.GRU(1, 8, batch_first=True),
    "LSTM": lambda: nn.LSTM(1, 8, batch_first=True),
}


def causes_of(model, steps=30):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(steps):
            rows = torch.randn(16, POSITIONS)
            optimizer.zero_grad()
            functional.cross_entropy(model(rows), (rows[:, 0] > 0).long()).backward()
            optimizer.step()
    return {cause.code: cause for cause in session.report().causes}


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_that_is_detached_at_each_position_is_cut_off(cell):
    torch.manual_seed(0)
    found = causes_of(Reader(CELLS[cell], detached))
    assert found["detached_parameters"].where == ("cell",)
    assert "detached at each position" in found["detached_parameters"].evidence[0]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("cut", [lambda state, place: state, sometimes])
def test_a_state_that_goes_back_some_way_is_not(cell, cut):
    torch.manual_seed(0)
    assert "detached_parameters" not in causes_of(Reader(CELLS[cell], cut))


def test_a_state_that_is_detached_between_two_steps_is_not():
    """Truncated back-propagation: each step reads some more of the same texts."""
    torch.manual_seed(0)
    layer, last = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)
    model = nn.ModuleDict({"layer": layer, "last": last})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    state = None
    with stepscope.watch(model, optimizer) as session:
        for _ in range(30):
            outputs, state = layer(torch.randn(4, 5, 3), state)
            state = state.detach()
            optimizer.zero_grad()
            functional.cross_entropy(last(outputs[:, -1]), torch.randint(2, (4,))).backward()
            optimizer.step()
    assert "detached_parameters" not in {cause.code for cause in session.report().causes}
