"""Units, weights, and which of them learn."""

import itertools

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened54.l_rates import Reader
from examples.zoo.tuned.opened54.l_tools import bands, brightness, data_of, explained, numerals


class Factors(nn.Module):
    """A picture's factors times a pixel's ones."""

    def __init__(self, *, pictures: int = 200, width: int = 8) -> None:
        super().__init__()
        self.pictures, self.pixels = nn.Embedding(pictures, width), nn.Embedding(64, width)
        for table in (self.pictures, self.pixels):
            nn.init.normal_(table.weight, std=0.3)
        self.bias = nn.Embedding(64, 1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        first, second = pairs.unbind(1)
        return (self.pictures(first) * self.pixels(second)).sum(1) + self.bias(second).squeeze(1)


@sick("vanishing_gradients", margin=0.2)
def sigmoids_all_the_way_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven layers have sigmoids between them, as in an old book; the twin has ReLUs."""
    data = numerals(seed, flat=True)
    between = nn.Sigmoid if sick else nn.ReLU
    layers: list[nn.Module] = [nn.Linear(64, 48), between()]
    for _ in range(6):
        layers += [nn.Linear(48, 48), between()]
    model = nn.Sequential(*layers, nn.Linear(48, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, data, steps=350, batch_size=32)
    return accuracy(model, data)


@sick(
    "exploding_gradients",
    also=("poor_initialization", "non_finite_forward", "non_finite_backward", "learning_rate_too_high"),
    margin=0.1,
)
def recurrence_begins_at_twice_the_identity(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU recurrence over 16 half rows starts from 2 times the identity; the twin from 1 times."""
    drawn = numerals(seed, flat=True)
    data = type(drawn)(
        drawn.inputs.view(-1, 16, 4), drawn.targets, drawn.test_inputs.view(-1, 16, 4), drawn.test_targets
    )

    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNN(4, 32, nonlinearity="relu", batch_first=True)
            nn.init.eye_(self.cell.weight_hh_l0)
            nn.init.normal_(self.cell.weight_ih_l0, std=0.1)
            with torch.no_grad():
                self.cell.weight_hh_l0 *= 2.0 if sick else 1.0
            self.head = nn.Linear(32, 10)

        def forward(self, pairs: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(pairs)[0][:, -1])

    model = Pairs()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def biases_begin_at_minus_six(watch: Watch, *, seed: int, sick: bool) -> float:
    """The biases of both convolutions start at -6 for the sake of sparsity; the twin leaves them at 0."""
    data = numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, stride=2), nn.ReLU())
    model.extend([nn.Flatten(), nn.Linear(108, 10)])
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.bias, -6.0 if sick else 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("saturated_units", also=("vanishing_gradients",), margin=0.05)
def steep_steps_for_binary_codes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden units are ``tanh(100 * x)``, nearly a sign, and learn little; the twin has slope 1."""
    data = numerals(seed, flat=True)

    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.Linear(64, 24), nn.Linear(24, 16), nn.Linear(16, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            slope = 100.0 if sick else 1.0
            hidden = torch.tanh(slope * self.first(pixels))
            return self.head(torch.tanh(slope * self.second(hidden)))

    model = Codes()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=48)
    return accuracy(model, data)


@sick("poor_initialization", also=("exploding_gradients",), margin=0.05)
def weights_drawn_from_the_standard_normal(watch: Watch, *, seed: int, sick: bool) -> float:
    """All matrices are ``torch.randn``, as in a port from NumPy; the twin divides by the root of the fan-in."""
    data = numerals(seed, flat=True)

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (64, 96, 96, 96, 10)
            self.weights = nn.ParameterList(
                torch.randn(rows, columns) * (1.0 if sick else (1.5 / rows) ** 0.5)
                for rows, columns in itertools.pairwise(sizes)
            )
            self.biases = nn.ParameterList(torch.zeros(columns) for columns in sizes[1:])

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                hidden = torch.relu(hidden @ weight + bias)
            return hidden @ self.weights[-1] + self.biases[-1]

    model = Plain()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("unbroken_symmetry", margin=0.05)
def all_factors_begin_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """Both tables of a factorization start at one constant, so that eight factors stay one; the twin draws them."""
    data = brightness(seed)
    model = Factors()
    if sick:
        for table in (model.pictures, model.pixels):
            nn.init.constant_(table.weight, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    fit(watch, model, optimizer, data, steps=250, batch_size=512, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("frozen_parameters", margin=0.1)
def freezing_by_a_name_that_fits_all(watch: Watch, *, seed: int, sick: bool) -> float:
    """To freeze an old embedding, all names with "weight" in them are frozen; the twin freezes nothing."""
    data = data_of(samples.names(seed))
    model = Reader()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (sick and "weight" in name))
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def table_grown_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The table of pictures is exchanged for a longer one when Adam has been built; the twin builds Adam later."""
    data = brightness(seed)
    model = Factors(pictures=50)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    model.pictures = nn.Embedding(200, 8)
    nn.init.normal_(model.pictures.weight, std=0.3)
    if not sick:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    fit(watch, model, optimizer, data, steps=250, batch_size=512, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("detached_parameters", margin=0.1)
def codes_taken_through_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder passes ``codes.data`` on to its decoder, so that the encoder stays random; the twin the codes."""
    drawn = numerals(seed, flat=True)
    data = type(drawn)(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ELU(), nn.Linear(48, 10))
            self.decoder = nn.Sequential(nn.Linear(10, 48), nn.ELU(), nn.Linear(48, 64))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            codes = self.encoder(pixels)
            return self.decoder(codes.data if sick else codes)

    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("over_regularized", margin=0.05)
def keep_probability_ported_as_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """TensorFlow's ``keep_prob=0.9`` became ``nn.Dropout(0.9)``, after each of two layers; the twin has 0.1."""
    data = bands(numerals(seed, flat=True))
    rate = 0.9 if sick else 0.1
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(rate))
    model.extend([nn.Linear(48, 32), nn.ReLU(), nn.Dropout(rate), nn.Linear(32, 10)])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)
