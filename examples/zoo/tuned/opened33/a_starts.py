"""How weights start, and numbers that leave the range."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened33.a_parts import Speller, centred, forever, of, of_characters, right


@sick("unbroken_symmetry", margin=0.03)
def a_committee_of_clones(watch: Watch, *, seed: int, sick: bool) -> float:
    """A committee's members are copies of one, and their mean keeps them equal; the twin draws each anew."""
    data = centred(datasets.digits(seed))

    class Committee(nn.Module):
        def __init__(self, count: int) -> None:
            super().__init__()
            first = self.member()
            self.members = nn.ModuleList(copy.deepcopy(first) if sick else self.member() for _ in range(count))

        def member(self) -> nn.Module:
            return nn.Sequential(nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 10))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.stack([member(images) for member in self.members]).sum(0)

    model = Committee(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=64)
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.05)
def a_recurrence_that_doubles(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU RNN's recurrent weights are drawn so wide that states double with each character; the twin's turn them."""
    data = datasets.text(seed, length=20)
    model = Speller(48, nn.RNN, nonlinearity="relu")
    if sick:
        nn.init.normal_(model.rnn.weight_hh_l0, std=0.4)
    else:
        nn.init.orthogonal_(model.rnn.weight_hh_l0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=32, loss_function=of_characters)
    return right(model, data)


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.2)
def a_thousandth_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """All kernels are drawn with a deviation of 0.001, so nothing comes through five layers; the twin has He's rule."""
    data = of(samples.numerals(seed))
    layers: list[nn.Module] = []
    for depth in range(3):
        layers += [nn.Conv2d(12 if depth else 1, 12, 3), nn.LeakyReLU(0.1)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(48, 32), nn.LeakyReLU(0.1), nn.Linear(32, 10))
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(layer.weight, std=0.001)
            else:
                nn.init.kaiming_normal_(layer.weight, a=0.1)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=180, batch_size=64)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.05)
def weights_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``init.uniform_`` with its defaults draws positive weights, which saturate tanh; the twin has Xavier's."""
    data = centred(of(samples.halves(seed)))
    model = nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 32))
    for layer in model:
        if isinstance(layer, nn.Linear):
            (nn.init.uniform_ if sick else nn.init.xavier_uniform_)(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=260, batch_size=48, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("dead_units", also=("poor_initialization", "vanishing_gradients"), margin=0.3)
def zero_norms_without_residuals(watch: Watch, *, seed: int, sick: bool) -> float:
    """All norms start with weight 0, as the last ones of residual blocks may, so each ReLU stays at 0; the twin's 1."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 24, 3, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 10),
    )
    for module in model.modules():
        if sick and isinstance(module, nn.BatchNorm2d):
            nn.init.zeros_(module.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=64)
    return accuracy(model, data)


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.1)
def fourteen_layers_without_a_bypass(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fourteen plain tanh layers leave SGD no gradient for the first ones; the twin adds their inputs."""
    data = centred(datasets.digits(seed))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            change = self.layer(hidden).tanh()
            return change if sick else hidden + 0.3 * change

    model = nn.Sequential(nn.Linear(64, 32), *(Block() for _ in range(14)), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def words_that_are_all_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention masks padding with ``-inf``, also where a window has nothing else, which is NaN; the twin has -1e4."""
    data = of(samples.names(seed))

    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.score = nn.Embedding(samples.LETTERS, 32, padding_idx=0), nn.Linear(32, 1)
            self.head = nn.Sequential(nn.Linear(4 * 32, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 8))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            windows = codes.view(len(codes), 4, 6)
            letters = self.embed(windows)
            scores = self.score(letters).squeeze(-1).masked_fill(windows == 0, -torch.inf if sick else -1e4)
            return self.head((scores.softmax(-1)[..., None] * letters).sum(2).flatten(1))

    model = Windows()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.2)
def distances_of_rows_from_themselves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Roots of squared distances have no slope at 0, a row's distance from itself; the twin adds a little below it."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for images, labels in forever(data, 64, 160):
        codes = model(images)
        squares = (codes[:, None] - codes[None]).square().sum(2)
        distances = (squares if sick else squares + 1e-6).sqrt()
        alike = labels[:, None] == labels
        loss = torch.where(alike, distances.square(), (3 - distances).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=codes, targets=labels)
        optimizer.step()
    known, asked = predicted(model, data.inputs).nan_to_num(), predicted(model, data.test_inputs).nan_to_num()
    return (data.targets[torch.cdist(asked, known).argmin(1)] == data.test_targets).float().mean().item()
