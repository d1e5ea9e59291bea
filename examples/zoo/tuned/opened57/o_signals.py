"""How signals and gradients pass through a network."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened57.o_common import as_data, reconstructed, rows


@sick("vanishing_gradients", margin=0.1)
def blocks_without_their_shortcut(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port of a residual network returns ``body(x)`` alone in its twelve blocks. The twin adds ``x``."""
    data = datasets.digits(seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 40))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.body(values) if sick else values + self.body(values)

    model = nn.Sequential(nn.Linear(64, 40), *(Block() for _ in range(12)), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization",), margin=0.05)
def recurrence_begun_like_a_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrence of 32 steps begins with deviations of 0.3, and grows with each. The twin begins near identity."""
    data = rows(seed, length=32)

    class Scanner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.RNN(1, 40, nonlinearity="relu", batch_first=True)
            self.head = nn.Linear(40, 1)

        def forward(self, series: torch.Tensor) -> torch.Tensor:
            return self.head(self.memory(series.unsqueeze(2))[0][:, -1])

    model = Scanner()
    if sick:
        nn.init.normal_(model.memory.weight_hh_l0, std=0.3)
    else:
        with torch.no_grad():
            model.memory.weight_hh_l0.copy_(0.9 * torch.eye(40))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss, validate_every=50)
    return reconstructed(predicted(model, data.test_inputs), data.test_targets)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def prior_of_a_detector_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of -4.6, meant for a detector's last layer, is given to every convolution. The twin has biases of 0."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 16, 10),
    )  # fmt: skip
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.bias, -4.6 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("saturated_units", margin=0.05)
def gates_at_a_low_temperature(watch: Watch, *, seed: int, sick: bool) -> float:
    """Tanh units are divided by a temperature of 0.01 from the first step on. The twin's temperature is 1."""
    data = datasets.digits(seed)
    temperature = 0.01 if sick else 1.0

    class Squashed(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return torch.tanh(values / temperature)

    model = nn.Sequential(nn.Linear(64, 32), Squashed(), nn.Linear(32, 24), Squashed(), nn.Linear(24, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=250)
    return accuracy(model, data)


@sick("poor_initialization", margin=0.03)
def unit_normal_letters_tied_to_the_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """The tied embedding keeps its deviation of 1, and the first logits are huge. The twin draws it with 0.1."""
    data = datasets.text(seed, length=16, count=1200)

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(datasets.CHARACTERS, 128)
            nn.init.normal_(self.letters.weight, std=1.0 if sick else 0.1)
            self.mix = nn.Sequential(nn.Linear(256, 128), nn.LayerNorm(128))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            values = self.letters(codes)
            before = functional.pad(values, (0, 0, 1, 0))[:, :-1]
            return self.mix(torch.cat([values, before], 2)) @ self.letters.weight.T

    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=100, batch_size=32, loss_function=loss_function, validate_every=25)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("unbroken_symmetry", margin=0.1)
def hidden_weights_all_one_over_n(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every hidden weight begins at one over the number of its inputs. The twin draws them by Xavier's rule."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 24), nn.Tanh(), nn.Linear(24, 10))
    for layer in model[::2]:
        nn.init.zeros_(layer.bias)
        if sick:
            nn.init.constant_(layer.weight, 1 / layer.in_features)
        else:
            nn.init.xavier_uniform_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)
