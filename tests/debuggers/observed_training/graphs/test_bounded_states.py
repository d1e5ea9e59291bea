"""Outputs between -1 and 1 that no activation bounds: vectors divided by their length, and recurrent states."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.activations import bounded_by

ROWS = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0))


def made(module):
    torch.manual_seed(0)
    return module()


VECTORS = {
    "torch's": lambda x: functional.normalize(x, dim=1),
    "by hand": lambda x: x / x.norm(dim=1, keepdim=True),
    "never by zero": lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-6),
    "turned": lambda x: functional.normalize(x, dim=1).transpose(1, 2),
}
OTHERS = {
    "an RMS norm": lambda x: x / (x.norm(dim=1, keepdim=True) / 3**0.5),
    "another's length": lambda x: x / (2 * x).norm(dim=1, keepdim=True),
    "times what is trained": lambda x: functional.normalize(x, dim=1) * x,
}
STATES = {
    "an LSTM's last": lambda: nn.LSTM(3, 5, batch_first=True)(ROWS)[0][:, -1],
    "an LSTM's of both directions": lambda: nn.LSTM(3, 5, batch_first=True, bidirectional=True)(ROWS)[0],
    "an LSTM's h": lambda: nn.LSTM(3, 5)(ROWS)[1][0][-1],
    "a GRU's last": lambda: nn.GRU(3, 5, batch_first=True)(ROWS)[0][:, -1],
    "a GRU's of all steps": lambda: nn.GRU(3, 5, num_layers=2)(ROWS)[0],
    "a GRU's h": lambda: nn.GRU(3, 5)(ROWS)[1][-1],
    "an LSTM's cell's": lambda: nn.LSTMCell(3, 5)(ROWS[:, 0])[0],
    "a GRU's cell's": lambda: nn.GRUCell(3, 5)(ROWS[:, 0]),
}
NO_STATES = {
    "what an LSTM's cell holds": lambda: nn.LSTM(3, 5)(ROWS)[1][1][-1],
    "what an LSTM's cell holds, unfused": lambda: nn.LSTMCell(3, 5)(ROWS[:, 0])[1],
    "a GRU's from any state": lambda: nn.GRU(3, 5)(ROWS, nn.Linear(3, 5)(ROWS[:1]))[0],
    "with a head": lambda: nn.Linear(5, 2)(nn.LSTM(3, 5)(ROWS)[0]),
    "with ReLU": lambda: nn.RNN(3, 5, nonlinearity="relu")(ROWS)[0][-1],
    "a sum of states": lambda: nn.LSTM(3, 5)(ROWS)[0].sum(0),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_divided_by_their_length_are_bounded(name):
    outputs = VECTORS[name](ROWS.clone().requires_grad_() * 9)
    assert float(outputs.detach().abs().max()) <= 1 + 1e-6
    assert bounded_by(outputs.grad_fn) == ("unit_vector", 1.0)


@pytest.mark.parametrize("name", OTHERS)
def test_other_quotients_are_not(name):
    assert bounded_by(OTHERS[name](ROWS.clone().requires_grad_() * 9).grad_fn) == ("", 0.0)


@pytest.mark.parametrize("name", STATES)
def test_recurrent_states_are_bounded(name):
    assert bounded_by((2 * made(STATES[name])).grad_fn) == ("recurrent_state", 2.0)


@pytest.mark.parametrize("name", NO_STATES)
def test_what_else_recurrent_layers_put_out_is_not(name):
    assert bounded_by(made(NO_STATES[name]).grad_fn)[0] != "recurrent_state"


SCORES = {
    "of a batch": (lambda: nn.BatchNorm1d(3, affine=False), 4 * 5),
    "of a row": (lambda: nn.LayerNorm(3, elementwise_affine=False), 3),
    "of a row's two last dimensions": (lambda: nn.LayerNorm((5, 3), elementwise_affine=False), 15),
}


@pytest.mark.parametrize("name", SCORES)
def test_standard_scores_are_bounded_by_the_number_of_values(name):
    """One value that is far from all others comes to the bound."""
    norm, values = SCORES[name]
    inputs = torch.zeros(4, 5, 3)
    inputs[0, 0] = torch.tensor([0.0, 0.0, 1e3])
    inputs.requires_grad_()
    outputs = norm()(inputs.transpose(1, 2)).transpose(1, 2) if "batch" in name else norm()(inputs)
    found, bound = bounded_by((2 * outputs).grad_fn)
    assert (found, bound) == ("standard_score", pytest.approx(2 * (values - 1) ** 0.5))
    assert float(2 * outputs.detach().abs().max()) == pytest.approx(bound, rel=1e-3)


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(3), nn.BatchNorm1d(3, affine=False).eval(), nn.LayerNorm(3), nn.RMSNorm(3),
             nn.LayerNorm(3).requires_grad_(False)]
)  # fmt: skip
def test_norms_with_weights_or_of_other_values_are_not(norm):
    assert bounded_by(norm(torch.randn(8, 3, requires_grad=True)).grad_fn)[0] != "standard_score"
