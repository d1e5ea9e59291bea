"""Features that a model standardises over the batch: where nothing keeps the statistics, and where that is right."""

import pytest
import torch
from torch import nn

from debuggers.observed_training.graphs.loss_view import output_nodes
from debuggers.observed_training.graphs.unkept_statistics import UnkeptStatistics

FEATURES = 8


class Standardised(nn.Module):
    """Applies a function to features between two layers, or to the last ones."""

    def __init__(self, standardise, *, is_last=False, **held):
        super().__init__()
        self.first, self.head = nn.Linear(5, FEATURES), nn.Linear(FEATURES, 3)
        self.standardise, self.is_last = standardise, is_last
        self.gain, self.shift = nn.Parameter(torch.ones(FEATURES)), nn.Parameter(torch.zeros(FEATURES))
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, inputs):
        features = self.standardise(self, self.first(inputs))
        return features if self.is_last else self.head(features.relu())


def found(model, rows=6):
    outputs = model(torch.randn(rows, 5))
    return UnkeptStatistics(model).look((outputs * 2).square().mean().grad_fn, output_nodes([outputs]), rows)


def by_std(model, x, over=0):
    return (x - x.mean(over, keepdim=True)) / (x.std(over, keepdim=True) + 1e-5)


def by_variance(model, x):
    return model.gain * (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt() + model.shift


def by_squares(model, x):
    centred = x - x.mean(0)
    return centred / ((centred * centred).mean(0) + 1e-5) ** 0.5


def by_inverse_root(model, x):
    return model.gain * x * torch.rsqrt(x.pow(2).mean(0) + 1e-5)


def by_inverse_power(model, x):
    return (x - x.mean(0)) * (x.var(0) + 1e-5) ** -0.5


def by_both(model, x):
    variance, mean = torch.var_mean(x, 0)
    return (x - mean) / (variance + 1e-5).sqrt()


@pytest.mark.parametrize("standardise", [by_std, by_variance, by_squares, by_inverse_root, by_inverse_power, by_both])
@pytest.mark.parametrize("rows", [6, FEATURES])
def test_features_over_their_spread_in_the_batch_are_found(standardise, rows):
    assert f"over the {rows} samples of a batch" in found(Standardised(standardise), rows)


class BatchStandardised(Standardised):
    """Says by its name what it does."""


def multiplied(model, x):
    return (x - x.mean(0)) * (x.var(0) + 1e-5) ** 0.5


def weights_standardised(model, x):
    weight = model.head.weight.T
    return x @ ((weight - weight.mean(0)) / weight.std(0) @ weight.T)


SOUND = {
    "over features": Standardised(lambda model, x: by_std(model, x, over=1)),
    "kept in a tensor": Standardised(by_std, running=torch.ones(FEATURES)),
    "kept in tensors of a list": Standardised(by_std, running=[torch.ones(FEATURES), torch.zeros(FEATURES)]),
    "kept in what is not trained": Standardised(
        by_std, running=nn.Parameter(torch.ones(FEATURES), requires_grad=False)
    ),
    "named after the batch": BatchStandardised(by_std),
    "a gain named so": Standardised(by_std, bngain=nn.Parameter(torch.ones(FEATURES))),
    "for a loss": Standardised(by_std, is_last=True),
    "one number of all": Standardised(lambda model, x: x / x.std()),
    "one number of the columns": Standardised(lambda model, x: x / x.std(0).mean()),
    "less a mean": Standardised(lambda model, x: x - x.mean(0)),
    "times a spread": Standardised(multiplied),
    "a weight's": Standardised(weights_standardised),
    "torch's own": Standardised(
        lambda model, x: model.norm(x), norm=nn.BatchNorm1d(FEATURES, track_running_stats=False)
    ),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("rows", [3, 6, FEATURES])
def test_what_is_kept_or_meant_is_not_found(name, rows):
    assert not found(SOUND[name], rows)


def test_a_buffer_keeps_statistics():
    model = Standardised(by_std)
    model.register_buffer("running", torch.ones(FEATURES))
    assert found(model) == ""
    model.running = torch.ones(FEATURES + 1)
    assert found(model)


@pytest.mark.parametrize("join", [
    lambda model, x: by_std(model, torch.rand(len(x), len(x)) @ x),
    lambda model, x: by_std(model, x[torch.randperm(len(x))]),
    lambda model, x: by_std(model, torch.zeros_like(x).index_add(0, torch.randperm(len(x)), x)),
])  # fmt: skip
def test_of_the_nodes_of_a_graph_nothing_is_said(join):
    assert found(Standardised(join)) is None
