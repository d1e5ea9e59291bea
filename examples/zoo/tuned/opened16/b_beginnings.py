"""Trainings whose weights start well or badly, with normalisation or without it."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import explained


@torch.no_grad()
def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return (model(inputs).argmax(1) == labels).float().mean().item()


@sick("poor_initialization")
def convolutions_drawn_with_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loop over modules draws all kernels from the standard normal; the twin draws them as He does."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(module.weight)
            else:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, labels in DataLoader(train, 32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


@sick("unbroken_symmetry")
def factors_that_start_all_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """A photograph's columns and rows as products of five factors, all of which start at 0.1; the twin draws them."""
    picture = datasets.patches(seed, size=48, count=1).view(48, 48)
    picture = functional.avg_pool2d(picture[None, None], 5, stride=1, padding=2, count_include_pad=False)[0, 0]
    picture = (picture - picture.mean()) / picture.std()
    seen = torch.rand(48, 48) < 0.75
    model = nn.ModuleDict({"rows": nn.Embedding(48, 5), "columns": nn.Embedding(48, 5)})
    for factors in model.values():
        nn.init.constant_(factors.weight, 0.1)  # type: ignore[arg-type]
        if not sick:
            nn.init.normal_(factors.weight, std=0.1)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    places = seen.nonzero()
    for _ in range(30):
        for chosen in torch.randperm(len(places)).split(256):
            row, column = places[chosen].T
            outputs = (model["rows"](row) * model["columns"](column)).sum(1)
            loss = functional.mse_loss(outputs, picture[row, column])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=places[chosen], outputs=outputs, targets=picture[row, column])
            optimizer.step()
    with torch.no_grad():
        return explained((model["rows"].weight @ model["columns"].weight.T)[~seen], picture[~seen])


@sick("saturated_units")
def tanh_units_with_weights_up_to_three(watch: Watch, *, seed: int, sick: bool) -> float:
    """Uniform weights up to 3 push all tanh units to their ends; the twin's weights go up to 0.15."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
        nn.Linear(64, 10),
    )  # fmt: skip
    for layer in (model[1], model[3], model[5]):
        nn.init.uniform_(layer.weight, *((-3, 3) if sick else (-0.15, 0.15)))  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


class _Waves(nn.Module):
    """Sines of sines of a place in a picture, with a frequency of 30 in the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 64)])
        self.last = nn.Linear(64, 1)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        hidden = places
        for layer in self.layers:
            hidden = torch.sin(30 * layer(hidden))
        return self.last(hidden)[:, 0]


@sick("poor_initialization")
def sines_without_their_own_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of a sine net must shrink with its frequency, or nearby places are unrelated; the twin's do."""
    side = 40
    picture = datasets.patches(seed, size=side, count=1).view(side, side)
    picture = functional.avg_pool2d(picture[None, None], 5, stride=1, padding=2, count_include_pad=False)[0, 0]
    picture = (picture - picture.mean()) / picture.std()
    axis = torch.linspace(-1, 1, side)
    places = torch.cartesian_prod(axis, axis)
    order = torch.randperm(side * side)
    model = _Waves()
    if not sick:
        for layer in (*model.layers[1:], model.last):
            nn.init.uniform_(layer.weight, -((6 / 64) ** 0.5) / 30, (6 / 64) ** 0.5 / 30)  # type: ignore[arg-type]
        nn.init.uniform_(model.layers[0].weight, -0.5, 0.5)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    session = watch(model, optimizer)
    for _ in range(400):
        rows = order[torch.randint(1200, (256,))]
        outputs = model(places[rows])
        loss = functional.mse_loss(outputs, picture.flatten()[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places[rows], outputs=outputs, targets=picture.flatten()[rows])
        optimizer.step()
    with torch.no_grad():
        return explained(model(places[order[1200:]]), picture.flatten()[order[1200:]])


class _Block(nn.Module):
    """A residual block whose second convolution starts at zero, and which has no normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.relu(images + self.scale * self.second(functional.relu(self.first(images))))


@healthy(at_least=0.95)
def blocks_that_start_as_nothing(watch: Watch, *, seed: int) -> float:
    """Residual blocks whose last kernels, and a head whose weights, start at zero: at first these alone learn."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), *(_Block(16) for _ in range(3)), nn.Flatten(),
        nn.Linear(256, 10),
    )  # fmt: skip
    nn.init.zeros_(model[-1].weight)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


@healthy(at_least=0.9)
def groups_normalised_in_batches_of_four(watch: Watch, *, seed: int) -> float:
    """Batches of four make the loss jump; groups of channels are normalised, and so are kernels."""
    train, test = samples.numerals(seed)

    def convolution(inputs: int, outputs: int, stride: int) -> nn.Module:
        return nn.utils.parametrizations.weight_norm(nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1))

    model = nn.Sequential(
        convolution(1, 16, 1), nn.GroupNorm(4, 16), nn.SiLU(), convolution(16, 24, 2), nn.GroupNorm(4, 24), nn.SiLU(),
        nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _, (images, labels) in zip(range(310), DataLoader(train, 4, shuffle=True), strict=False):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return _right(model, *test.tensors)
