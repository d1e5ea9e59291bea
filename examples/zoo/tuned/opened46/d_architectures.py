"""Units, their beginnings and their numbers: what goes wrong inside of a network."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened46.d_kit import faces, lower_halves, perceptron, rows_of_digits


@sick("vanishing_gradients", margin=0.2)
def nine_sigmoids_in_a_stack(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nine hidden layers end in sigmoids, as in a course from the nineties; the twin has ReLUs and LayerNorms."""
    data = datasets.digits(seed)
    data = Data(data.inputs * 2 - 0.6, data.targets, data.test_inputs * 2 - 0.6, data.test_targets)
    layers: list[nn.Module] = [nn.Linear(64, 32)]
    for _ in range(9):
        layers += [nn.Sigmoid()] if sick else [nn.LayerNorm(32), nn.ReLU()]
        layers += [nn.Linear(32, 32)]
    model = nn.Sequential(*layers, nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


class Unrolled(nn.Module):
    """A recurrence of ReLUs over the rows of a digit, read four times."""

    def __init__(self, large: bool) -> None:
        super().__init__()
        self.cell, self.answer = nn.RNNCell(8, 40, nonlinearity="relu"), nn.Linear(40, 10)
        nn.init.orthogonal_(self.cell.weight_hh, 1.9 if large else 0.9)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        state = rows.new_zeros(len(rows), 40)
        for index in range(24):
            state = self.cell(rows[:, index % 8], state)
        return self.answer(state)


@sick("exploding_gradients", also=("poor_initialization",), margin=0.1)
def recurrence_with_a_gain_above_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gain of a recurrent matrix is 1.9, so that states and gradients grow over 24 steps; the twin's is 0.9."""
    data = rows_of_digits(seed)
    model = Unrolled(sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def relus_pushed_down_to_be_sparse(watch: Watch, *, seed: int, sick: bool) -> float:
    """Biases begin at -3 "for sparse codes", where ReLUs of small digits never fire; the twin begins at 0."""
    data = datasets.digits(seed)
    model = perceptron(64, 48, 32, 10)
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, -3.0 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


class Coder(nn.Module):
    """An autoencoder with a code of tanhs, whose slope is given."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.encode, self.decode = perceptron(64, 48, 16), perceptron(16, 48, 64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        return self.decode(torch.tanh(self.slope * self.encode(pixels)))


@sick("saturated_units", also=("vanishing_gradients", "exploding_gradients"), margin=0.05)
def steep_tanhs_for_binary_codes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes are ``tanh(200 * x)``, to make them binary, and lose their gradient; the twin's slope is 1."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = Coder(200.0 if sick else 1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("poor_initialization", also=("exploding_gradients",), margin=0.05)
def default_deviation_of_normal_in_a_convnet(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_`` gives all weights its default deviation of 1; the twin uses ``kaiming_normal_``."""
    data = faces(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(216, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(layer.weight)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    fit(watch, model, optimizer, data, steps=120, batch_size=48)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def equal_weights_to_be_reproducible(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights of an inpainting network begin at 0.02 "to be reproducible"; the twin draws them."""
    data = lower_halves(seed)
    model = perceptron(32, 64, 48, 32, activation=nn.Tanh)
    if sick:
        for parameter in model.parameters():
            nn.init.constant_(parameter, 0.02)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class ColumnNorm(nn.Module):
    """Standardises each pixel over the batch, and by its running moments while the model is evaluated."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns standardised values."""
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = values.mean(0), values.var(0)
            self.mean.lerp_(mean.detach(), 0.1)
            self.variance.lerp_(variance.detach(), 0.1)
        return (values - mean) / (variance + self.epsilon).sqrt()


@sick("non_finite_forward", margin=0.2)
def own_normalisation_without_epsilon(watch: Watch, *, seed: int, sick: bool) -> float:
    """A normalisation of one's own divides by a deviation of 0, where no pixel is ever set; the twin adds 1e-3."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = nn.Sequential(ColumnNorm(64, 0.0 if sick else 1e-3), *model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120)
    return accuracy(model, data)


class Rooted(nn.Module):
    """Takes the roots of its features where they are positive, as for Fisher vectors."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.lowest = lowest
        self.features, self.answer = nn.Linear(64, 48), nn.Linear(48, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        features = self.features(pixels)
        roots = (features.clamp(min=self.lowest) if self.lowest else features).sqrt()
        roots = torch.where(features > 0, roots, torch.zeros_like(features))
        return self.answer(roots)


@sick("non_finite_backward", margin=0.2)
def fisher_roots_behind_a_where(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where`` hides roots of negative numbers, whose gradient is NaN all the same; the twin clamps below the root."""
    data = datasets.digits(seed)
    model = Rooted(0.0 if sick else 1e-3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.1)
def a_weighted_loss_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reconstruction that is weighted with 1e-4 runs in float16 without a scaler; the twin has a ``GradScaler``."""
    data = lower_halves(seed)
    model = perceptron(32, 96, 96, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(128, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
        loss = 1e-4 * functional.mse_loss(outputs.float(), targets)
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("batch_mixing", margin=0.1)
def view_in_place_of_transpose(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows (N, 8, 8) are viewed as (8, N, 8) for a module that wants the sequence first; the twin transposes them."""
    data = rows_of_digits(seed)

    class Attentive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.place = nn.Linear(8, 32), nn.Parameter(0.3 * torch.randn(8, 1, 32))
            self.encoder = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, norm_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            tokens = rows.reshape(8, len(rows), 8) if sick else rows.transpose(0, 1)
            return self.head(self.encoder(self.embed(tokens) + self.place).mean(0))

    model = Attentive()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)
