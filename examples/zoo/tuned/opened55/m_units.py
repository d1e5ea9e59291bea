"""Units, their first values, inputs and heads."""

import copy
import itertools

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened55.m_common import (
    LastState,
    counted_lines,
    explained,
    flat_numerals,
    half_digits,
    mlp,
    paired,
    worst,
)


@sick("dead_units", also=("poor_initialization",))
def rare_class_bias_in_every_convolution(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of -4.6 that a detector's last layer gets is given to every layer, whose ReLUs are silent."""
    data = paired(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(384, 10),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d if sick else nn.Linear):
            nn.init.constant_(module.bias, -4.6)
    nn.init.constant_(model[-1].bias, -4.6)

    def one_against_all(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, functional.one_hot(labels, 10).float())

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=one_against_all)
    return accuracy(model, data)


class Scaled(nn.Module):
    """Tanh layers whose sums are scaled by the root of the width."""

    def __init__(self, *, multiply: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])
        self.head, self.multiply = nn.Linear(64, 10), multiply
        for layer in self.layers:
            nn.init.normal_(layer.weight)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        for layer in self.layers:
            total = layer(pixels)
            pixels = torch.tanh(total * 8 if self.multiply else total / 8)
        return self.head(pixels)


@sick("saturated_units")
def sums_multiplied_by_the_root_of_the_width(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sums before tanh are multiplied by the root of the width, so every tanh is at -1 or 1; the twin divides by it."""
    data = flat_numerals(seed)
    model = Scaled(multiply=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


class ByHand(nn.Module):
    """Layers whose matrices are drawn by hand."""

    def __init__(self, *sizes: int, scaled: bool) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(
            torch.randn(before, after) * ((2 / before) ** 0.5 if scaled else 1.0)
            for before, after in itertools.pairwise(sizes)
        )
        self.shifts = nn.ParameterList(torch.zeros(after) for after in sizes[1:])

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the last layer's values."""
        for index, (matrix, shift) in enumerate(zip(self.matrices, self.shifts, strict=True)):
            rows = rows @ matrix + shift
            if index + 1 < len(self.matrices):
                rows = torch.relu(rows)
        return rows


@sick("poor_initialization")
def matrices_drawn_as_plain_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """Layers from a NumPy tutorial are plain randn, whose sums grow with each layer; the twin scales by the width."""
    data = half_digits(seed)
    model = ByHand(32, 80, 80, 32, scaled=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


class Mixture(nn.Module):
    """Linear experts, and a gate that mixes them."""

    def __init__(self, *, copied: bool) -> None:
        super().__init__()
        first = nn.Linear(32, 32)
        self.experts = nn.ModuleList(copy.deepcopy(first) if copied else nn.Linear(32, 32) for _ in range(10))
        self.gate = nn.Linear(32, 10)

    def forward(self, upper: torch.Tensor) -> torch.Tensor:
        """Returns the lower half."""
        told = torch.stack([expert(upper) for expert in self.experts], 1)
        return (self.gate(upper).softmax(-1)[..., None] * told).sum(1)


@sick("unbroken_symmetry")
def ten_experts_copied_from_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Experts are deep copies of one and the gate begins at zero, so that they stay one; the twin's begin apart."""
    data = half_digits(seed)
    model = Mixture(copied=sick)
    nn.init.zeros_(model.gate.weight)
    nn.init.zeros_(model.gate.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("inputs_not_normalized")
def wine_measured_in_its_own_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Proline in hundreds stands beside hues of about one; the twin standardises the measurements."""
    data = datasets.wine(seed, raw=sick)
    model = mlp(13, 32, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=16)
    return accuracy(model, data)


@sick("inputs_constant", also=("duplicated_data",))
def readers_that_all_close_over_the_last_index(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each row is read by a lambda that looks up the loop's variable too late, so all read the last row."""
    data = counted_lines(seed)
    readers = []
    for index in range(len(data.inputs)):
        late = lambda: data.inputs[index]  # noqa: B023, E731 - the fault itself
        readers.append(late if sick else (lambda index=index: data.inputs[index]))
    rows = torch.stack([reader() for reader in readers])
    data = Data(rows, data.targets, data.test_inputs, data.test_targets)
    model = mlp(96, 64, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_inputs")
def log_where_most_letters_never_occur(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters go through log, though most are zero; the twin takes log1p."""
    data = paired(samples.lines(seed))
    change = torch.log if sick else torch.log1p
    data = Data(change(data.inputs), data.targets, change(data.test_inputs), data.test_targets)
    model = mlp(96, 64, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("target_out_of_range")
def standard_scores_from_a_softplus(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements are standardised now, but the head still ends in softplus; the twin's is linear."""
    data = worst(seed)
    model = mlp(10, 64, 64, 10, activation=nn.SiLU)
    if sick:
        model.append(nn.Softplus())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.huber_loss)
    return explained(model, data)


@sick("wrong_output_or_loss")
def pixels_squashed_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decoder ends in a sigmoid and its loss takes logits, so pixels are squashed twice; the twin's loss fits."""
    pixels = datasets.digits(seed)
    data = Data(pixels.inputs, pixels.inputs, pixels.test_inputs, pixels.test_inputs)
    model = mlp(64, 48, 16, 48, 64).append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = functional.binary_cross_entropy_with_logits if sick else functional.binary_cross_entropy
    fit(watch, model, optimizer, data, steps=250, loss_function=loss)
    return explained(model, data)


@sick("wrong_output_or_loss")
def probabilities_given_as_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrence puts out softmax, and cross-entropy takes it once more; the twin puts out logits."""
    data = paired(samples.numerals(seed))
    data = Data(data.inputs.squeeze(1), data.targets, data.test_inputs.squeeze(1), data.test_targets)
    model: nn.Module = LastState(8, 32, 10)
    if sick:
        model = nn.Sequential(model, nn.Softmax(-1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)
