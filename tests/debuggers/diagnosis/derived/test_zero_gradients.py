"""Weights that a function without slope cuts off: their gradients are there, and exactly zero."""

import pytest
import torch
from sklearn.datasets import load_digits

import stepscope


class Coder(torch.nn.Module):
    """Gives digits back from eight numbers that ``code`` makes of what the encoder puts out."""

    def __init__(self, code):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
        self.decoder = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 64))
        self.code = code

    def forward(self, pixels):
        return self.decoder(self.code(self.encoder(pixels)))


def straight_through(values):
    return values + (values.sign() - values).detach()


def trained(model, steps=40):
    inputs = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(steps):
            pixels = inputs[torch.randint(len(inputs), (64,))]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(pixels), pixels).backward()
            optimizer.step()
        return session.report().causes


@pytest.mark.parametrize(("code", "is_cut"), [
    (torch.sign, True), (torch.round, True), (straight_through, False), (torch.tanh, False),
])  # fmt: skip
def test_what_stands_before_a_function_without_slope_is_cut_off(code, is_cut):
    torch.manual_seed(0)
    causes = {cause.code: cause for cause in trained(Coder(lambda values: code(5 * values)))}

    assert ("detached_parameters" in causes) is is_cut
    if is_cut:
        assert causes["detached_parameters"].where == ("encoder.0.weight", "encoder.2.weight")


@pytest.mark.parametrize(("layer", "is_cut"), [("encoder", True), ("decoder", False)])
def test_a_hook_that_multiplies_gradients_by_zero_cuts_off_what_stands_before_others(layer, is_cut):
    """Behind what is trained, it may hold a last layer on purpose."""
    torch.manual_seed(0)
    model = Coder(torch.tanh)
    for parameter in model.get_submodule(layer).parameters():
        parameter.register_hook(lambda gradient: 0 * gradient)
    assert ("detached_parameters" in [cause.code for cause in trained(model)]) is is_cut


def test_weights_that_were_trained_before_may_be_held_by_a_hook():
    torch.manual_seed(0)
    model = Coder(torch.tanh)
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.mul_(1.7)
    for parameter in model.encoder.parameters():
        parameter.register_hook(lambda gradient: 0 * gradient)
    assert "detached_parameters" not in [cause.code for cause in trained(model)]


class OfExperts(torch.nn.Module):
    """Gives digits back by the second of two experts, or by both."""

    def __init__(self, share):
        super().__init__()
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 64)) for _ in range(2)
        )
        self.share = share

    def forward(self, pixels):
        first, second = (expert(pixels) for expert in self.experts)
        return self.share * first + second


def test_an_expert_that_is_chosen_for_no_row_is_not_cut_off():
    torch.manual_seed(0)
    assert "detached_parameters" not in [cause.code for cause in trained(OfExperts(0.0))]
