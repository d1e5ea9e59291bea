"""Starts of weights: too large, too small, all equal, in nets that are too deep for them."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared


class Dense(nn.Module):
    """A linear layer by hand."""

    def __init__(self, inward: int, outward: int, *, scaled: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inward, outward) * ((2 / inward) ** 0.5 if scaled else 1.0))
        self.bias = nn.Parameter(torch.zeros(outward))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


@sick("poor_initialization", margin=0.03)
def torch_randn_as_weights_of_a_layer_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tutorial's linear layer takes ``torch.randn`` without a factor; the first loss is in the hundreds."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten())
    for inward, outward in ((64, 64), (64, 64), (64, 64)):
        model.extend([Dense(inward, outward, scaled=not sick), nn.ReLU()])
    model.append(Dense(64, 10, scaled=not sick))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("poor_initialization", margin=0.05)
def normal_with_its_default_deviation_for_a_cnn(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_(m.weight)`` for each convolution and layer, as the deviation was left at its default."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, padding=1, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip

    def start(module: nn.Module) -> None:
        if isinstance(module, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(module.weight)
            else:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)

    model.apply(start)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), data, steps=160)
    return accuracy(model, data)


@sick("unbroken_symmetry", margin=0.05)
def constant_start_for_a_fair_comparison(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights begin at 0.05 so that two runs can be compared; all hidden units stay the same unit."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    if sick:
        for parameter in model.parameters():
            nn.init.constant_(parameter, 0.05)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=250)
    return accuracy(model, data)


@sick("unbroken_symmetry", margin=0.05)
def parameters_made_with_torch_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """A layer by hand holds ``torch.ones``, to be filled later; nobody does. It codes digits in eight numbers."""
    train, test = samples.halves(seed)

    class Layer(nn.Module):
        def __init__(self, inward: int, outward: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(outward, inward) / inward)
            self.bias = nn.Parameter(torch.zeros(outward))
            if not sick:
                nn.init.xavier_uniform_(self.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.linear(x, self.weight, self.bias)

    model = nn.Sequential(Layer(32, 64), nn.Tanh(), Layer(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for upper, lower in DataLoader(train, batch_size=64, shuffle=True):
            drawn = model(upper)
            loss = functional.mse_loss(drawn, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=drawn, targets=lower)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("vanishing_gradients", margin=0.1)
def nine_sigmoid_layers_for_tumours(watch: Watch, *, seed: int, sick: bool) -> float:
    """Somebody stacks layers until it is "deep", with the sigmoid of the textbook between them."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential()
    for depth in range(9):
        model.extend([nn.Linear(30 if depth == 0 else 24, 24), nn.Sigmoid() if sick else nn.ReLU()])
    model.append(nn.Linear(24, 2))
    if not sick:
        for layer in model[::2]:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=1e-3), data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("vanishing_gradients", margin=0.05)
def twenty_four_layers_without_a_way_around(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net of 24 tanh layers as PyTorch starts them; the twin lets each layer add to what it gets."""
    data = datasets.digits(seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).tanh() if sick else x + 0.3 * self.layer(x).tanh()

    model = nn.Sequential(nn.Linear(64, 32), *(Block() for _ in range(24)), nn.Linear(32, 10))
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), data, steps=160)
    return accuracy(model, data)


class Recurrent(nn.Module):
    """A recurrent cell by hand, which reads a digit's 16 groups of four pixels."""

    def __init__(self, deviation: float | None) -> None:
        super().__init__()
        self.inward = nn.Linear(4, 48)
        self.again = nn.Linear(48, 48, bias=False)
        self.head = nn.Linear(48, 10)
        if deviation is None:
            nn.init.orthogonal_(self.again.weight)
        else:
            nn.init.normal_(self.again.weight, std=deviation)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(pixels), 48)
        for group in pixels.view(-1, 16, 4).unbind(1):
            state = functional.relu(self.inward(group) + self.again(state))
        return self.head(state)


@sick("exploding_gradients", also=("poor_initialization",), margin=0.05)
def recurrent_weights_that_double_the_state(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rectified recurrence whose weights are drawn too wide: gradients grow with each step of the sequence."""
    data = datasets.digits(seed)
    model = Recurrent(0.35 if sick else None)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=2e-3), data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.05)
def biases_of_minus_one_for_sparse_features(watch: Watch, *, seed: int, sick: bool) -> float:
    """Biases begin at -1 "to get sparse features": no unit of the second layer ever answers."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    if sick:
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.bias, -1.0)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), data, steps=200)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def tanh_units_with_weights_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_(std=1)`` before tanh: every unit stands at -1 or 1 for every patient."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    for layer in (model[0], model[2]):
        nn.init.normal_(layer.weight, std=1.0 if sick else layer.in_features**-0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=150, loss_function=functional.mse_loss)
    return r_squared(model, data)
