"""Trainings that find the pixels of a digit on a photograph."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import Scenes, scenes


class _Hourglass(nn.Module):
    """A U-net of two levels."""

    def __init__(self, outputs: int = 1, width: int = 10) -> None:
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.coarse = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Upsample(scale_factor=2),
        )  # fmt: skip
        self.mask = nn.Conv2d(3 * width, outputs, 3, padding=1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        fine = self.fine(pictures)
        return self.mask(torch.cat([fine, self.coarse(fine)], 1))


@torch.no_grad()
def _overlap(model: nn.Module, test: Scenes) -> float:
    """Returns intersection over union of the masks, where a sigmoid of the outputs is above a half."""
    model.eval()
    found, true = torch.sigmoid(model(test.pictures)[:, 0]) > 0.5, test.ink > 0.4
    return ((found & true).sum() / (found | true).sum()).item()


def _dice(probabilities: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    shared = (probabilities * masks).sum((-2, -1))
    return 1 - ((2 * shared + 1) / (probabilities.sum((-2, -1)) + masks.sum((-2, -1)) + 1)).mean()


@sick("shape_broadcast")
def dice_of_every_picture_with_every_mask(watch: Watch, *, seed: int, sick: bool) -> float:
    """The predicted masks have a channel, the true ones have none: the product pairs all; the twin drops it."""
    train, test = scenes(seed)
    model = _Hourglass()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            pictures, masks = train[rows].pictures, (train[rows].ink > 0.4).float()
            logits = model(pictures)
            if not sick:
                logits = logits.squeeze(1)
            loss = _dice(logits.sigmoid(), masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=masks)
            optimizer.step()
    return _overlap(model, test)


@sick("wrong_output_or_loss")
def a_sigmoid_in_the_net_and_one_in_the_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """The net ends in a sigmoid, and the loss takes logits; the twin's net puts out logits."""
    train, test = scenes(seed)
    model = nn.Sequential(_Hourglass(), nn.Sigmoid() if sick else nn.Identity())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(train.pictures, (train.ink > 0.4).float()[:, None]), 32, shuffle=True)
    for _ in range(5):
        for pictures, masks in loader:
            optimizer.zero_grad()
            outputs = model(pictures)
            loss = criterion(outputs, masks)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    return _overlap(model, test)


@sick("labels_unrelated")
def masks_sorted_by_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """The masks are listed as text, with 10 before 2, the pictures by number; the twin lists both by number."""
    train, test = scenes(seed)
    files = [f"mask_{number}.png" for number in range(len(train))]
    listed = sorted(files) if sick else files
    masks = (train.ink > 0.4).float()[[int(name[5:-4]) for name in listed]]
    model = _Hourglass()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for rows in torch.randperm(len(train)).split(32):
            logits = model(train.pictures[rows])[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train.pictures[rows], outputs=logits, targets=masks[rows])
            optimizer.step()
    return _overlap(model, test)


def _classes(ink: torch.Tensor) -> torch.Tensor:
    """Nothing, the edge and the core of a stroke, as a picture file stores them."""
    return ((ink > 0.15).int() + (ink > 0.6).int()).to(torch.uint8)


@sick("single_class_labels")
def class_numbers_divided_by_255(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mask of class numbers is scaled like a picture, and all its integers are zero; the twin leaves it as it is."""
    train, test = scenes(seed)
    model = _Hourglass(outputs=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    stored = _classes(train.ink)
    for _ in range(5):
        for rows in torch.randperm(len(train)).split(32):
            labels = (stored[rows] / 255).long() if sick else stored[rows].long()
            logits = model(train.pictures[rows])
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train.pictures[rows], outputs=logits, targets=labels)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        found, true = model(test.pictures).argmax(1), _classes(test.ink)
    return sum((found[true == label] == label).float().mean().item() for label in range(3)) / 3


@sick("class_imbalance")
def strokes_of_sevens_among_background(watch: Watch, *, seed: int, sick: bool) -> float:
    """One pixel in a hundred is of a seven, and each counts alike; the twin weighs them by their rarity."""
    train, test = scenes(seed)
    model = _Hourglass(width=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    masks = ((train.ink > 0.6) & (train.labels == 7)[:, None, None]).float()
    weight = torch.ones(()) if sick else (1 - masks).sum() / masks.sum()
    for _ in range(8):
        for rows in torch.randperm(len(train)).split(32):
            logits = model(train.pictures[rows])[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks[rows], pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train.pictures[rows], outputs=logits, targets=masks[rows])
            optimizer.step()
    model.eval()
    with torch.no_grad():
        found, true = model(test.pictures)[:, 0] > 0, (test.ink > 0.6) & (test.labels == 7)[:, None, None]
    return ((found[true].float().mean() + (~found[~true]).float().mean()) / 2).item()


@healthy(at_least=0.6)
def focal_loss_with_a_rare_prior(watch: Watch, *, seed: int) -> float:
    """A focal loss: its values are tiny, and the last bias starts at the logit of one in fifty."""
    train, test = scenes(seed)
    model = _Hourglass()
    nn.init.constant_(model.mask.bias, -3.9)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            masks = (train.ink[rows] > 0.4).float()
            logits = model(train.pictures[rows])[:, 0]
            entropy = functional.binary_cross_entropy_with_logits(logits, masks, reduction="none")
            missed = (masks - logits.sigmoid()).abs()
            loss = ((0.25 + 0.5 * masks) * missed.square() * entropy).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train.pictures[rows], outputs=logits, targets=masks)
            optimizer.step()
    return _overlap(model, test)


@healthy(at_least=0.6)
def dice_and_entropy_at_two_sizes(watch: Watch, *, seed: int) -> float:
    """Dice and cross entropy, at full size and at half of it, in one sum, with a cosine schedule to zero."""
    train, test = scenes(seed)
    model = _Hourglass()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            masks = (train.ink[rows] > 0.4).float()[:, None]
            logits = model(train.pictures[rows])
            loss = torch.zeros(())
            for size in (1, 2):
                small, true = functional.avg_pool2d(logits, size), functional.avg_pool2d(masks, size)
                loss = loss + _dice(small.sigmoid(), true) + functional.binary_cross_entropy_with_logits(small, true)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train.pictures[rows], outputs=logits, targets=masks)
            optimizer.step()
            schedule.step()
    return _overlap(model, test)
