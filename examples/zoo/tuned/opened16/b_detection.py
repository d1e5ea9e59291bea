"""Trainings that say where on a photograph a digit lies, and often which one it is."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import Scenes, explained, scenes


def _trunk(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Flatten(),
    )  # fmt: skip


class _Detector(nn.Module):
    """A trunk with a head for the box and one for the digit."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = _trunk()
        self.box = nn.Sequential(nn.Linear(384, 48), nn.ReLU(), nn.Linear(48, 4))
        self.digit = nn.Linear(384, 3)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.trunk(pictures)
        return self.box(hidden), self.digit(hidden)


def _three_digits(seed: int) -> tuple[Scenes, Scenes]:
    """Returns scenes of zeros, ones and twos alone."""
    train, test = scenes(seed, count=1400, largest=9)
    return train[train.labels < 3], test[test.labels < 3]


@torch.no_grad()
def _both(model: nn.Module, test: Scenes) -> float:
    """Returns the mean of the accuracy of digits and of R² of the boxes in shares of the picture."""
    model.eval()
    boxes, logits = model(test.pictures)
    accuracy = (logits.argmax(1) == test.labels).float().mean().item()
    return (accuracy + explained(boxes, test.boxes / 16)) / 2


@sick("parameters_not_in_optimizer")
def a_head_left_out_of_the_groups(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer's groups name the trunk and the head of digits; the twin's have the head of boxes as well."""
    train, test = _three_digits(seed)
    model = _Detector()
    groups = [
        {"params": model.trunk.parameters(), "lr": 2e-3},
        {"params": model.digit.parameters(), "lr": 5e-3},
        {"params": model.box.parameters(), "lr": 5e-3},
    ]
    optimizer = torch.optim.Adam(groups[:2] if sick else groups)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows in torch.randperm(len(train)).split(32):
            batch = train[rows]
            boxes, logits = model(batch.pictures)
            loss = functional.cross_entropy(logits, batch.labels)
            loss = loss + 10 * functional.smooth_l1_loss(boxes, batch.boxes / 16)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch.pictures, outputs=logits, targets=batch.labels)
            optimizer.step()
    return _both(model, test)


@sick("target_out_of_range")
def boxes_in_pixels_from_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sigmoid puts out the box, which the annotations give in pixels; the twin divides them by the picture's side."""
    train, test = scenes(seed)
    model = nn.Sequential(_trunk(), nn.Linear(384, 48), nn.ReLU(), nn.Linear(48, 4), nn.Sigmoid())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(len(train)).split(32):
            targets = train[rows].boxes if sick else train[rows].boxes / 16
            outputs = model(train[rows].pictures)
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[rows].pictures, outputs=outputs, targets=targets)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return explained(model(test.pictures) * (1 if sick else 16), test.boxes)


@sick("wrong_output_or_loss")
def places_as_classes_without_log_softmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cell of the box's corner is a class, and nll_loss takes raw scores; the twin takes log_softmax of them."""
    train, test = scenes(seed, largest=10)
    corners = [(part.boxes[:, 1] // 2 * 5 + part.boxes[:, 0] // 2).long() for part in (train, test)]
    model = nn.Sequential(_trunk(), nn.Linear(384, 25))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(len(train)).split(32):
            scores = model(train[rows].pictures)
            if not sick:
                scores = functional.log_softmax(scores, 1)
            loss = functional.nll_loss(scores, corners[0][rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[rows].pictures, outputs=scores, targets=corners[0][rows])
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return (model(test.pictures).argmax(1) == corners[1]).float().mean().item()


class _Heatmap(nn.Module):
    """Convolutions that keep the size, and a map of where the middle of a digit is."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 5, padding=2), nn.ReLU()
        )
        self.score = nn.Conv2d(width, 1, 5, padding=2)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.score(self.layers(pictures))[:, 0]


def _peaks(part: Scenes) -> torch.Tensor:
    """Returns maps of one near the middle of a box, falling off to zero."""
    middle = part.boxes[:, :2] + part.boxes[:, 2:] / 2
    axis = torch.arange(16.0)
    across = (axis - middle[:, :1]).square()[:, None, :] + (axis - middle[:, 1:]).square()[:, :, None]
    return torch.exp(-across / 4)


def _near(model: nn.Module, test: Scenes) -> float:
    """Returns in how many pictures the highest place is within two pixels of the middle."""
    with torch.no_grad():
        highest = model(test.pictures).flatten(1).argmax(1)
    middle = test.boxes[:, :2] + test.boxes[:, 2:] / 2
    apart = torch.stack([highest % 16, highest // 16], 1) - middle
    return (apart.norm(dim=1) <= 2).float().mean().item()


@sick("dead_units")
def the_prior_of_rare_objects_in_all_biases(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias for one object in a hundred goes into each convolution, before a ReLU; the twin's only into the last."""
    train, test = scenes(seed)
    model = _Heatmap()
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and (sick or module is model.score):
            nn.init.constant_(module.bias, -math.log(99))  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            peaks = _peaks(train[rows])
            logits = model(train[rows].pictures)
            loss = functional.binary_cross_entropy_with_logits(logits, peaks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[rows].pictures, outputs=logits, targets=peaks)
            optimizer.step()
    return _near(model, test)


@sick("frozen_parameters")
def frozen_layers_that_were_never_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """All layers but the last are frozen as if they were pretrained, but they are as drawn; the twin trains them."""
    train, test = scenes(seed)
    model = _Heatmap()
    if sick:
        model.layers.requires_grad_(False)
    optimizer = torch.optim.AdamW((weight for weight in model.parameters() if weight.requires_grad), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            peaks = _peaks(train[rows])
            outputs = model(train[rows].pictures)
            loss = (outputs - peaks).square().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[rows].pictures, outputs=outputs, targets=peaks)
            optimizer.step()
    return _near(model, test)


@healthy(at_least=0.7)
def peaks_by_a_penalty_reduced_focal_loss(watch: Watch, *, seed: int) -> float:
    """A focal loss per object, which starts in the tens, over maps that are nearly all zero."""
    train, test = scenes(seed)
    model = _Heatmap()
    nn.init.constant_(model.score.bias, -2.2)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for rows in torch.randperm(len(train)).split(32):
            peaks = _peaks(train[rows])
            logits = model(train[rows].pictures)
            found = logits.sigmoid()
            hit = (peaks > 0.9) * (1 - found).square() * functional.logsigmoid(logits)
            miss = (peaks <= 0.9) * (1 - peaks).pow(4) * found.square() * functional.logsigmoid(-logits)
            loss = -(hit + miss).sum() / len(rows)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[rows].pictures, outputs=logits, targets=peaks)
            optimizer.step()
    return _near(model, test)


class _Uncertain(_Detector):
    """A detector that learns how much each of its tasks weighs."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(2))

    def total(self, box: torch.Tensor, digit: torch.Tensor) -> torch.Tensor:
        """Returns the tasks' losses by their uncertainty; it may fall below zero."""
        losses = torch.stack([50 * box, digit])
        return ((-self.weights).exp() * losses + 0.5 * self.weights).sum()


@healthy(at_least=0.65)
def tasks_weighed_by_their_uncertainty(watch: Watch, *, seed: int) -> float:
    """Two parameters weigh the losses of box and digit; the sum falls below zero while both tasks are learnt."""
    train, test = _three_digits(seed)
    model = _Uncertain()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=18 * -(-len(train) // 32))
    session = watch(model, optimizer)
    for _ in range(18):
        for rows in torch.randperm(len(train)).split(32):
            batch = train[rows]
            boxes, logits = model(batch.pictures)
            wrong = functional.cross_entropy(logits, batch.labels)
            loss = model.total(functional.mse_loss(boxes, batch.boxes / 16), wrong)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch.pictures, outputs=logits, targets=batch.labels)
            optimizer.step()
            schedule.step()
    return _both(model, test)
