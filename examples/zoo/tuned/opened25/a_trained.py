"""Fine tuning and classifiers of pictures: norms, heads, channels, orders and steps."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened25.a_shelf import whitened


class _Residual(nn.Module):
    """Two convolutions with norms, and a shortcut around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.bn1(self.first(states)))
        return torch.relu(states + self.bn2(self.second(found)))


@sick("dead_units", also=("vanishing_gradients", "poor_initialization"), margin=0.1)
def each_norm_begins_with_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_init_residual`` is meant for the last norm of a block, but ``bn1`` begins with 0 as well and stays so.

    A rectifier behind a norm of zeros lets no gradient through. The twin sets ``bn2`` alone.
    """
    data = whitened(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1),
        _Residual(12),
        _Residual(12),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 10),
    )
    for name, parameter in model.named_parameters():
        if name.endswith("bn2.weight") or (sick and name.endswith("bn1.weight")):
            nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


class _Scales(nn.Module):
    """Maps of two sizes, each read by a layer of its own."""

    def __init__(self, registered: bool) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.Conv2d(16, 16, 3, stride=2, padding=1)]
        self.stages = nn.ModuleList(layers) if registered else layers
        self.head = nn.Linear(16, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        states = pictures
        for stage in self.stages:
            states = torch.relu(stage(states))
        return self.head(states.mean((2, 3)))


@sick("parameters_not_in_optimizer", margin=0.1)
def stages_in_a_list_of_python(watch: Watch, *, seed: int, sick: bool) -> float:
    """Convolutions lie in a list, and ``parameters()`` does not know them; the twin's lie in a ``ModuleList``."""
    data = whitened(seed)
    model = _Scales(registered=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(48, 300):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def a_channel_of_opacity_without_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are read as RGBA, and each channel is divided by its deviation, which is 0 of the opacity.

    The twin keeps the three colours.
    """
    data = datasets.digits(seed, images=True)
    tint = torch.tensor([1.0, 0.8, 0.5]).view(1, 3, 1, 1)

    def read(pictures: torch.Tensor) -> torch.Tensor:
        rgba = torch.cat([pictures * tint, torch.ones_like(pictures)], 1)
        rgba = rgba if sick else rgba[:, :3]
        std, mean = torch.std_mean(rgba, (0, 2, 3), keepdim=True)
        return (rgba - mean) / std

    data = datasets.Data(read(data.inputs), data.targets, read(data.test_inputs), data.test_targets)
    model = nn.Sequential(
        nn.Conv2d(4 if sick else 3, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    finite = all(value.isfinite().all() for value in model.parameters())
    return accuracy(model, data) if finite else float("nan")


@sick("labels_unrelated", margin=0.3)
def ten_comes_before_two(watch: Watch, *, seed: int, sick: bool) -> float:
    """Files are sorted as strings, ``10.png`` before ``2.png``, and labels come in the order of numbers.

    The twin sorts the files by their numbers.
    """
    data = whitened(seed)
    files = [f"{number}.png" for number in range(len(data.inputs))]
    files = sorted(files) if sick else sorted(files, key=lambda name: int(name.split(".")[0]))
    pictures = torch.stack([data.inputs[int(name.split(".")[0])] for name in files])
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        for shown, labels in DataLoader(TensorDataset(pictures, data.targets), 64, shuffle=True):
            logits = model(shown)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=shown, outputs=logits, targets=labels)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            held_out = functional.cross_entropy(model(data.test_inputs), data.test_targets)
        session.validation(held_out.item())
        model.train()
    return accuracy(model, data)


@sick("wrong_mode", also=("vanishing_gradients",), margin=0.03)
def norms_of_a_backbone_that_was_never_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """``backbone.eval()`` of a recipe for fine tuning keeps means of 0 and deviations of 1 in a new net's norms.

    The twin leaves the backbone in train mode.
    """
    data = whitened(seed)
    layers: list[nn.Module] = []
    for incoming in (1, *[12] * 6):
        layers += [nn.Conv2d(incoming, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    backbone = nn.Sequential(*layers, nn.MaxPool2d(4))
    model = nn.Sequential(backbone, nn.Flatten(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        model.train()
        if sick:
            backbone.eval()
        for pictures, labels in DataLoader(TensorDataset(data.inputs, data.targets), 64, shuffle=True):
            logits = model(pictures)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients"), margin=0.05)
def a_rate_of_scratch_for_a_trained_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net that knows turned digits is tuned with Adam at 0.1, a rate of SGD; the twin takes 1e-3."""
    data = whitened(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(384, 10),
    )
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pictures, labels in data.batches(64, 60):
        before.zero_grad()
        functional.cross_entropy(model(pictures.rot90(1, (2, 3))), labels).backward()
        before.step()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 1e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)
