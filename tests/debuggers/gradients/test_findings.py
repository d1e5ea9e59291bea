"""Real networks: what is broken on purpose is found and named, and sound training raises no alarm."""

import math
from itertools import pairwise

import pytest
import torch
from digits_data import digits_data
from torch import nn

from debuggers.detectors import gradient_detectors
from debuggers.gradients.flow import Health, analyze
from debuggers.gradients.history import GradientHistory
from debuggers.measurement.measure import measure


@pytest.fixture(scope="module")
def digits():
    pictures, labels = digits_data()
    return torch.tensor(pictures / 16, dtype=torch.float32), torch.tensor(labels)


def perceptron(depth, activation, width=64):
    widths = [64] + [width] * depth
    layers = [nn.Sequential(nn.Linear(a, b), activation()) for a, b in pairwise(widths)]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 9, 10),
    )


class Attentive(nn.Module):
    """Each row of a picture is a token."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, pictures):
        return self.head(self.block(self.embed(pictures.unflatten(1, (8, 8)))).mean(1))


class Watched:
    """A training whose gradients, and updates as |dw| / (|w| + 1e-9), are recorded at every step.

    As in a careful loop, a step with a NaN is left out.
    """

    def __init__(self, model, data, optimizer=None):
        self.model = model
        self.inputs, self.labels = data
        self.optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-3)
        self.history, self.detectors, self.alarms = GradientHistory(), gradient_detectors(), []
        self.names = tuple(name for name, _ in model.named_parameters())

    def train(self, steps, spoil=lambda step, model: None):
        for step in range(steps):
            chosen = torch.randint(0, len(self.inputs), (64,))
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(self.inputs[chosen]), self.labels[chosen]).backward()
            spoil(step, self.model)
            self.see(step)
        return analyze(self.history, findings=self.detectors.findings())

    def see(self, step):
        parameters = list(self.model.parameters())
        table = measure([parameter.grad for parameter in parameters]).resolve()
        self.alarms += self.detectors.see(self.history.record(step, self.names, table))
        if table.non_finite.any():
            return
        before = [parameter.detach().clone() for parameter in parameters]
        self.optimizer.step()
        deltas = torch._foreach_norm(torch._foreach_sub([parameter.detach() for parameter in parameters], before))
        ratios = torch.stack(deltas) / (torch.stack(torch._foreach_norm(before)) + 1e-9)
        self.alarms += self.detectors.see(self.history.record_updates(step, self.names, ratios.double().numpy()))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: perceptron(3, nn.ReLU), id="relu"),
        pytest.param(lambda: perceptron(2, nn.Tanh, width=128), id="tanh", marks=pytest.mark.slow),
        pytest.param(lambda: perceptron(4, nn.GELU), id="gelu", marks=pytest.mark.slow),
        pytest.param(convolutional, id="convolutional", marks=pytest.mark.slow),
        pytest.param(Attentive, id="attention", marks=pytest.mark.slow),
    ],
)
def test_sound_training_raises_no_alarm(digits, make, seed):
    torch.manual_seed(seed)
    watched = Watched(make(), digits)
    analysis = watched.train(200)
    assert watched.alarms == []
    assert (analysis.overall_health, analysis.score) == (Health.HEALTHY, 1.0), analysis.summary()


@pytest.mark.parametrize("momentum", [0.9, pytest.param(0.0, marks=pytest.mark.slow)])
def test_sound_training_by_gradient_descent_raises_no_alarm(digits, momentum):
    torch.manual_seed(0)
    model = perceptron(2, nn.ReLU, width=128)
    watched = Watched(model, digits, torch.optim.SGD(model.parameters(), 0.05, momentum=momentum))
    assert watched.train(200).findings == ()
    assert watched.alarms == []


def test_gradients_vanish_in_a_deep_sigmoid_network(digits):
    torch.manual_seed(0)
    analysis = Watched(perceptron(30, nn.Sigmoid), digits).train(5)
    named = [finding.name for finding in analysis.findings if finding.kind == "vanishing_gradient"]
    assert {f"{layer}.0.weight" for layer in range(15)} <= set(named)
    assert "30.weight" not in named
    assert analysis.depth.first_to_last < 1e-15
    assert analysis.depth.factor_per_layer < 0.5
    assert analysis.overall_health is Health.CRITICAL
    assert any("0.0.weight" in sentence and "residual" in sentence for sentence in analysis.recommendations)


def test_gradients_explode_in_a_deep_network_with_large_weights(digits):
    """Like a recurrent network over 30 steps whose matrix has a gain of 3."""
    torch.manual_seed(0)
    model = perceptron(30, nn.Identity)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=3 / math.sqrt(64))
    watched = Watched(model, digits, torch.optim.SGD(model.parameters(), 0.0))
    analysis = watched.train(1)
    assert {"exploding_gradient"} == {finding.kind for finding in analysis.findings}
    assert "0.0.weight" in [finding.name for finding in analysis.findings]
    assert analysis.overall_health is Health.CRITICAL


def test_gradients_explode_towards_the_input_of_a_saturating_network(digits):
    """Where activations stay bounded, only the gradients of early layers grow."""
    torch.manual_seed(0)
    model = perceptron(12, nn.Softsign)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=30 / math.sqrt(64))
    analysis = Watched(model, digits, torch.optim.SGD(model.parameters(), 1e-6)).train(3)
    assert analysis.depth.factor_per_layer > 2
    assert {"exploding_gradient"} == {finding.kind for finding in analysis.findings}
    assert [finding.name for finding in analysis.findings] == list(analysis.depth.layers[: len(analysis.findings)])
    assert analysis.findings[0].value == pytest.approx(analysis.depth.first_to_last)


def test_a_layer_that_is_dead_gets_no_gradient_and_lets_none_through(digits):
    torch.manual_seed(0)
    model = perceptron(3, nn.ReLU)
    with torch.no_grad():
        model[1][0].bias.fill_(-100.0)
    analysis = Watched(model, digits).train(5)
    assert {"zero_gradient"} <= {finding.kind for finding in analysis.findings}
    dead = [finding.name for finding in analysis.findings if finding.kind == "zero_gradient"]
    assert dead == ["0.0.weight", "0.0.bias", "1.0.weight", "1.0.bias", "2.0.weight"]
    assert analysis.overall_health is Health.CRITICAL


def test_a_nan_is_named_at_its_step_and_layer_and_a_spike_after_it_is_still_seen(digits):
    """The NaN must not poison the window that the spike is compared with."""
    torch.manual_seed(0)

    def spoil(step, model):
        if step == 30:
            model[1][0].weight.grad[0, 0] = math.nan
        if step == 40:
            model[1][0].weight.grad.mul_(1e3)

    model = perceptron(2, nn.ReLU)
    watched = Watched(model, digits, torch.optim.SGD(model.parameters(), 0.01))
    analysis = watched.train(41, spoil)
    assert [(finding.kind, finding.name, finding.step) for finding in watched.alarms] == [
        ("non_finite_gradient", "1.0.weight", 30),
        ("exploding_gradient", "1.0.weight", 40),
    ]
    assert watched.alarms[0].value == 1
    assert analysis.overall_health is Health.CRITICAL


def test_the_overflows_of_a_gradient_scaler_raise_no_alarm(digits):
    """A scale of 2**24 overflows float16 until it is halved far enough: the scaler skips these steps."""
    torch.manual_seed(0)
    model = perceptron(2, nn.ReLU)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    history, detectors, alarms, skipped = GradientHistory(), gradient_detectors(), [], 0
    names = tuple(name for name, _ in model.named_parameters())
    for step in range(40):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(model(digits[0][:64]), digits[1][:64])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        table = measure([parameter.grad for parameter in model.parameters()]).resolve()
        alarms += detectors.see(history.record(step, names, table, expected_overflow=bool(table.non_finite.any())))
        skipped += int(table.non_finite.any())
        scaler.step(optimizer)
        scaler.update()
    analysis = analyze(history)
    assert skipped > 0
    assert alarms == []
    assert (Health.HEALTHY, skipped) == (analysis.overall_health, analysis.expected_overflows)
