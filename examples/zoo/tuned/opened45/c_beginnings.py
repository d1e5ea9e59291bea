"""How weights begin, and how far a step goes: rates, depths, thresholds and constants."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened45.c_common import Reader, joined, of_columns


@sick("learning_rate_too_high", margin=0.1)
def rate_of_sgd_kept_for_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD was exchanged for AdamW but its rate of 1 was kept, which is too large for a GRU; the twin has 0.005."""
    data = joined(samples.names(seed))
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.1)
def adadelta_with_the_rate_of_keras(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adadelta has Keras' default rate of 0.001 in a port, and hardly moves; the twin has PyTorch's default of 1."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1e-3 if sick else 1.0)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


class Skipping(nn.Module):
    """A layer whose result is added to what it reads."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(size), nn.Linear(size, size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + functional.silu(self.layer(self.norm(inputs)))


@sick("vanishing_gradients", margin=0.2)
def ten_logistic_layers_on_end(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten logistic layers leave next to nothing of the gradient for the first ones; the twin has skip connections."""
    data = datasets.digits(seed)
    hidden = [nn.Sequential(nn.Linear(40, 40), nn.Sigmoid()) if sick else Skipping(40) for _ in range(10)]
    model = nn.Sequential(nn.Linear(64, 40), *hidden, nn.Linear(40, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


class Flow(nn.Module):
    """Follows a learned vector field in Euler's steps, as neural differential equations do."""

    def __init__(self, size: int, steps: int, length: float) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(10, size), nn.Linear(size, 10)
        self.field = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        self.steps, self.length = steps, length

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        state = self.enter(inputs)
        for _ in range(self.steps):
            state = state + self.length * self.field(state)
        return self.leave(state)


@sick("exploding_gradients", margin=0.2)
def euler_without_the_step_length(watch: Watch, *, seed: int, sick: bool) -> float:
    """Thirty Euler steps of length 1 rather than 1/30 let states and gradients grow; the twin divides the time."""
    data = joined(samples.standardised(samples.tumours(seed), 0, 1))
    model = Flow(24, 30, 1.0 if sick else 1 / 30)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=64, loss_function=functional.mse_loss)
    return of_columns(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.2)
def biases_that_should_make_it_sparse(watch: Watch, *, seed: int, sick: bool) -> float:
    """Biases of -4 were to make a layer sparse, but no unit ever exceeds them; the twin leaves them at zero."""
    data = joined(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    nn.init.constant_(model[0].bias, -4.0 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, loss_function=functional.mse_loss)
    return of_columns(model, data)


class Steep(nn.Module):
    """Hash bits: a logistic function of a steepness, between two layers."""

    def __init__(self, steepness: float) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24))
        self.decoder, self.steepness = nn.Linear(24, 10), steepness

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.decoder(torch.sigmoid(self.steepness * self.encoder(pixels)))


@sick("saturated_units", margin=0.05)
def hash_bits_that_are_too_steep(watch: Watch, *, seed: int, sick: bool) -> float:
    """A steepness of 300 puts hash bits on the flat parts of the logistic function; the twin has a steepness of 1."""
    data = datasets.digits(seed)
    model = Steep(300.0 if sick else 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("poor_initialization", margin=0.05)
def four_layers_of_unit_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_`` without a deviation draws weights of deviation 1 in four layers; the twin draws Kaiming's."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10)
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            if sick:
                nn.init.normal_(layer.weight)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


class Bumps(nn.Module):
    """Radial basis functions around learned centres."""

    def __init__(self, centres: torch.Tensor) -> None:
        super().__init__()
        self.centres = nn.Parameter(centres.clone())
        self.head = nn.Linear(len(centres), 10)
        nn.init.constant_(self.head.weight, 1 / len(centres))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head((-(rows[:, None] - self.centres).square().sum(2) / 8).exp())


@sick("unbroken_symmetry", margin=0.2)
def all_centres_at_the_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """All radial functions begin at the mean with equal weights and stay equal; the twin begins them at samples."""
    data = datasets.digits(seed)
    centres = data.inputs.mean(0).expand(48, -1) if sick else data.inputs[:48]
    model = Bumps(centres)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("missing_warmup", margin=0.05)
def post_norm_transformer_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer that normalises after its layers gets the full rate at once; the twin reaches it in 80 steps."""
    data = datasets.digits(seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.place = nn.Linear(8, 32), nn.Parameter(0.02 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.body, self.head = nn.TransformerEncoder(layer, 4), nn.Linear(32, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.enter(pixels.view(-1, 8, 8)) + self.place).mean(1))

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.3e-2)
    warmup = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0 if sick else (step + 1) / 80, 1.0) * min(1.0, (160 - step) / 80)
    )
    fit(watch, model, optimizer, data, steps=160, batch_size=32, scheduler=warmup)
    return accuracy(model, data)
