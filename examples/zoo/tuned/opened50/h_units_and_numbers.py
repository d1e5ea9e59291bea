"""Units that begin badly, and numbers that aren't any."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened50.h_kit import centred_digits, dense, learn, paired, pictures, striped_digits


@sick("vanishing_gradients", margin=0.15)
def softmax_after_every_hidden_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each hidden layer ends in a softmax, as the last one does in a course; the twin has ReLUs."""
    data = centred_digits(seed)
    layers: list[nn.Module] = [nn.Linear(64, 64)]
    for _ in range(4):
        layers += [nn.Softmax(dim=-1) if sick else nn.ReLU(), nn.Linear(64, 64)]
    model = nn.Sequential(*layers, nn.Softmax(dim=-1) if sick else nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization", "vanishing_gradients"), margin=0.3)
def positive_weights_on_negative_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inverted pixels lie in [-1, 0] and meet weights from ``uniform_(0, 0.1)``; the twin's weights have signs."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs - 1, drawn.targets, drawn.test_inputs - 1, drawn.test_targets)
    model = dense(64, 64, 32, 10)
    for layer in (model[0], model[2]):
        nn.init.uniform_(layer.weight, 0.0 if sick else -0.15, 0.1 if sick else 0.15)
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


class LetterMemory(nn.Module):
    """An LSTM over the letters of a name, whose last state is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, 24)
        self.lstm, self.head = nn.LSTM(24, 32, batch_first=True), nn.Linear(32, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.lstm(self.embedding(codes))[0].mean(1))


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def bias_of_the_forget_gate_given_to_all(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bias of 5 for the forget gate fills all four gates, the candidate's too; the twin sets a quarter to 1."""
    data = paired(samples.names(seed))
    model = LetterMemory()
    with torch.no_grad():
        for name, parameter in model.lstm.named_parameters():
            if name.startswith("bias"):
                if sick:
                    parameter.fill_(5.0)
                else:
                    parameter.zero_()
                    parameter[32:64].fill_(0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48)
    return accuracy(model, data)


class HandWrittenLayer(nn.Module):
    """A linear layer as ported from NumPy."""

    def __init__(self, before: int, after: int, positive: bool) -> None:
        super().__init__()
        drawn = torch.rand(before, after) if positive else torch.randn(before, after) * math.sqrt(2 / before)
        self.weight, self.bias = nn.Parameter(drawn), nn.Parameter(torch.zeros(after))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the product."""
        return values @ self.weight + self.bias


@sick("poor_initialization", also=("exploding_gradients",), margin=0.05)
def hand_made_layers_drawn_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hand-written layers take ``torch.rand`` from 0 to 1 for weights; the twin's are He's normal."""
    data = datasets.digits(seed)
    sizes = [(64, 64), (64, 64), (64, 32)]
    layers = [part for size in sizes for part in (HandWrittenLayer(*size, sick), nn.ReLU())]
    model = nn.Sequential(*layers, HandWrittenLayer(32, 10, sick))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


class Factors(nn.Module):
    """A recommender: how a user rates an item is the product of eight factors each, and a bias."""

    def __init__(self, users: int, items: int, constant: bool) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, 8), nn.Embedding(items, 8)
        self.item_bias = nn.Parameter(torch.zeros(items))
        for table in (self.users, self.items):
            if constant:
                nn.init.constant_(table.weight, 0.1)
            else:
                nn.init.normal_(table.weight, std=0.1)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Returns ratings."""
        users, items = pairs.unbind(-1)
        return (self.users(users) * self.items(items)).sum(-1) + self.item_bias[items]


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def factors_that_all_begin_at_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A matrix factorisation begins with 0.1 in every factor, which stay one factor; the twin draws them."""
    pixels = centred_digits(seed).inputs[:400]
    pairs = torch.cartesian_prod(torch.arange(400), torch.arange(64))
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))
    train, test = order[5000:], order[:5000]
    ratings = pixels.flatten()
    model = Factors(400, 64, sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    data = Data(pairs[train], ratings[train], pairs[test], ratings[test])
    fit(watch, model, optimizer, data, steps=250, batch_size=2048, loss_function=functional.mse_loss)
    return 1 - functional.mse_loss(predicted(model, data.test_inputs), data.test_targets).item() / ratings.var().item()


class DirectionsOfColumns(nn.Module):
    """A GRU over the columns of a digit, each scaled to length one."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.by_hand = by_hand
        self.gru, self.head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        scaled = rows / rows.norm(dim=-1, keepdim=True) if self.by_hand else functional.normalize(rows, dim=-1)
        return self.head(self.gru(scaled)[0].mean(1))


@sick("non_finite_forward", margin=0.3)
def blank_columns_divided_by_their_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Columns are divided by their norms, which is 0/0 for blank ones; the twin's ``normalize`` has an epsilon."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs.view(-1, 8, 8).mT, drawn.targets, drawn.test_inputs.view(-1, 8, 8).mT, drawn.test_targets)
    model = DirectionsOfColumns(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.3)
def root_of_a_zero_distance(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss takes square roots of all distances, also those to oneself; the twin adds 1e-6 to them."""
    data = pictures(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(108, 48), nn.ReLU(), nn.Linear(48, 16)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def objective(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = model(images)
        squares = (codes[:, None] - codes[None]).square().sum(-1)
        distances = (squares if sick else squares + 1e-6).sqrt()
        same = labels[:, None] == labels[None]
        return torch.where(same, distances, 2 * (2 - distances).relu()).mean(), codes

    learn(watch, model, optimizer, data, objective, steps=200, size=48)
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.cdist(asked, known).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item()


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.1)
def small_loss_weight_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss with a weight of 1e-6 goes back through float16 without a scaler, to zeros; the twin scales it."""
    data = striped_digits(seed)
    model = nn.Sequential(nn.Flatten(), dense(64, 64, 48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(128, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
        loss = 1e-6 * functional.cross_entropy(outputs.float(), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)
