"""Distances between pictures: pairs, triplets, margins of angles, and directions."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted
from examples.zoo.tuned.opened28.b_stock import classes, drawn


def _centred(seed: int) -> Data:
    data = datasets.digits(seed)
    std, mean = torch.std_mean(data.inputs)
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


class _Pairs(Dataset):
    """Two digits, and 1 if they are of one class, else 0: a coin decides which."""

    def __init__(self, pictures: torch.Tensor, labels: torch.Tensor, *, sides: int) -> None:
        self.pictures, self.labels, self.sides = pictures, labels, sides
        self.of_class = [(labels == k).nonzero().flatten() for k in range(10)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own = int(self.labels[index])
        same = torch.randint(0, self.sides, ()).item()
        other = self.of_class[own if same else (own + int(torch.randint(1, 10, ()))) % 10]
        return self.pictures[index], self.pictures[other[torch.randint(len(other), ())]], torch.tensor(float(same))


class _Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.head((self.net(left) - self.net(right)).abs()).squeeze(1)


@sick("single_class_labels", margin=0.2)
def a_coin_with_one_side(watch: Watch, *, seed: int, sick: bool) -> float:
    """``randint(0, 1)`` leaves out the 1, so that no pair is of one class; the twin's ``randint(0, 2)`` has both."""
    data = _centred(seed)
    loader = DataLoader(_Pairs(data.inputs, data.targets, sides=1 if sick else 2), batch_size=64, shuffle=True)
    model = _Siamese()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for left, right, same in loader:
            scores = model(left, right)
            loss = functional.binary_cross_entropy_with_logits(scores, same)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=left, outputs=scores, targets=same)
            optimizer.step()
    pairs = _Pairs(data.test_inputs, data.test_targets, sides=2)
    left, right, same = next(iter(DataLoader(pairs, batch_size=len(pairs))))
    with torch.no_grad():
        return ((model(left, right) > 0) == (same > 0.5)).float().mean().item()


@sick("batch_mixing", margin=0.03)
def directions_along_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cosine classifier normalises embeddings with ``dim=0``, along the batch; the twin's ``dim`` is 1.

    Quality: accuracy of digits that are classified one by one, as in use.
    """

    class Cosine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
            self.classes = nn.Parameter(torch.randn(10, 24))

        def forward(self, digits: torch.Tensor) -> torch.Tensor:
            embeddings = functional.normalize(self.body(digits), dim=0 if sick else 1)
            return 10 * embeddings @ functional.normalize(self.classes, dim=1).T

    data, model = _centred(seed), Cosine()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    classes(watch, model, optimizer, data, data.batches(8, 300))
    with torch.no_grad():
        guessed = torch.cat([model(one).argmax(1) for one in data.test_inputs.split(1)])
    return (guessed == data.test_targets).float().mean().item()


class _Angles(nn.Module):
    """ArcFace: cosines to a direction for each class, of which the own one gets a margin of an angle."""

    def __init__(self, width: int, *, edge: float) -> None:
        super().__init__()
        self.directions, self.edge = nn.Parameter(torch.randn(10, width)), edge

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        cosines = functional.normalize(embeddings) @ functional.normalize(self.directions).T
        if labels is None:
            return cosines
        angles = cosines.clamp(-1 + self.edge, 1 - self.edge).acos()
        return 12 * (angles + 0.1 * functional.one_hot(labels, 10)).cos()


def _arcs(watch: Watch, seed: int, *, edge: float, knows: bool) -> float:
    data = _centred(seed)
    net = nn.Sequential(nn.Linear(64, 96), nn.PReLU(), nn.Linear(96, 64), nn.PReLU(), nn.Linear(64, 2))
    margin = _Angles(2, edge=edge)
    model = nn.ModuleDict({"net": net, "margin": margin})
    optimizer = torch.optim.Adam((model if knows else net).parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 400):
        logits = margin(net(pictures), labels)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return (margin(net(data.test_inputs)).argmax(1) == data.test_targets).float().mean().item()


@sick("parameters_not_in_optimizer", margin=0.03)
def a_loss_with_weights_of_its_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """ArcFace's directions are in the loss, and the optimizer has only the net's weights; the twin's has both."""
    return _arcs(watch, seed, edge=1e-6, knows=not sick)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def the_angle_of_a_cosine_of_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """ArcFace clamps cosines to -1...1 before ``acos``, whose slope is infinite there; the twin stays inside."""
    return _arcs(watch, seed, edge=0.0 if sick else 1e-6, knows=True)


@sick("gradients_not_zeroed", margin=0.04)
def triplets_without_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` is missing from a loop of triplets; the twin calls it. Quality: classes of nearest centres."""
    data = _centred(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    of_class = [(data.targets == k).nonzero().flatten() for k in range(10)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.TripletMarginLoss(margin=1.0)
    session = watch(net, optimizer)
    for _ in range(200):
        anchors, labels = drawn(64, data.inputs, data.targets)
        others = (labels + torch.randint(1, 10, labels.shape)) % 10
        alike, unlike = (
            data.inputs[torch.stack([of_class[k][torch.randint(len(of_class[k]), ())] for k in of.tolist()])]
            for of in (labels, others)
        )
        if not sick:
            optimizer.zero_grad()
        found = net(anchors)
        loss = criterion(found, net(alike), net(unlike))
        loss.backward()
        session.step(loss, inputs=anchors, outputs=found)
        optimizer.step()
    found = predicted(net, data.inputs)
    centres = torch.stack([found[of_class[k]].mean(0) for k in range(10)])
    guessed = torch.cdist(predicted(net, data.test_inputs), centres).argmin(1)
    return (guessed == data.test_targets).float().mean().item()
