"""Suspects: the operation that made a gradient not finite is among them, and near the front."""

from pathlib import Path

import pytest
import torch
from torch import nn

from stability.debugging.anomaly_mode import find_suspects


class Root(nn.Module):
    """Its derivative at 0 is infinite."""

    def forward(self, x):
        return x.mul(0).sqrt()


class Residual(nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x):
        return x + self.inner(x)


def layer():
    return nn.Linear(4, 4)


def suspects_of(model):
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        loss = model(torch.ones(3, 4)).square().mean()
        loss.backward()
    assert loss.isfinite()
    faulty = [name for name, parameter in model.named_parameters() if not parameter.grad.isfinite().all()]
    assert faulty
    return find_suspects(model, loss, faulty)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(layer(), Root(), layer()),
        nn.Sequential(layer(), nn.Tanh(), layer(), Root(), layer(), nn.Tanh(), layer()),
        nn.Sequential(layer(), Residual(layer(), Root(), layer()), layer()),
        nn.Sequential(Residual(layer(), nn.Tanh(), layer()), Root(), Residual(layer()), layer()),
    ],
    ids=["between two layers", "deep", "in a residual branch", "between residual blocks"],
)
def test_the_operation_is_among_the_first_two(model):
    names = [suspect.name for suspect in suspects_of(model)[:2]]

    assert "SqrtBackward0" in names


def test_a_suspect_says_where_it_was_called():
    (root,) = [suspect for suspect in suspects_of(nn.Sequential(layer(), Root(), layer())) if "Sqrt" in suspect.name]

    place, text = root.place.rsplit(": ", maxsplit=1)
    path, line = place.removesuffix(" in forward").rsplit(":", maxsplit=1)
    assert (path, text) == (__file__, "return x.mul(0).sqrt()")
    assert Path(path).read_text().splitlines()[int(line) - 1].strip() == text


def test_without_anomaly_mode_nothing_is_known_of_the_places():
    model = nn.Sequential(layer(), Root(), layer())
    loss = model(torch.ones(3, 4)).sum()
    loss.backward()

    assert find_suspects(model, loss, ["0.weight", "0.bias"]) == []
