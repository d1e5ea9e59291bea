"""Trainings that find out where a digit lies on its canvas, or which of the pixels are its ink."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened19.a_stock import overlap, placed


def _body(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    )  # fmt: skip


@sick("target_out_of_range", margin=0.2)
def centres_in_pixels_from_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head ends in a sigmoid, as for shares of the width, but the centres are in pixels; the twin divides them."""
    train, test = placed(seed)
    scale = 1 if sick else 14
    model = nn.Sequential(_body(), nn.Linear(12 * 9, 48), nn.ReLU(), nn.Linear(48, 2), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for pictures, _, centres in DataLoader(train, 32, shuffle=True):
            wanted = centres / scale
            outputs = model(pictures)
            loss = functional.smooth_l1_loss(outputs, wanted)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=wanted)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]) * scale, test.tensors[2])


class _Peak(nn.Module):
    """A map of scores whose peak, plus an offset that is learnt from the map's features, is the place."""

    def __init__(self, hard: bool) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 12, 5, padding=2), nn.ReLU()
        )
        self.score = nn.Conv2d(12, 1, 1)
        self.offset = nn.Parameter(torch.zeros(2))
        self.hard = hard

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        scores = self.score(self.features(pictures))[:, 0]
        side = scores.shape[-1]
        if self.hard:
            best = scores.flatten(1).argmax(1)
            place = torch.stack([best % side, best // side], 1).float()
        else:
            shares = scores.flatten(1).softmax(1).view_as(scores)
            along = torch.arange(side).float()
            place = torch.stack([(shares.sum(1) * along).sum(1), (shares.sum(2) * along).sum(1)], 1)
        return place + self.offset


@sick("detached_parameters", margin=0.2)
def a_peak_by_argmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """The peak of a map of scores is taken by ``argmax``, so the map learns nothing; the twin's is a soft argmax."""
    train, test = placed(seed)
    model = _Peak(hard=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, _, centres in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures)
            loss = functional.mse_loss(outputs, centres)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=centres)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[2])


class _Hourglass(nn.Module):
    """Halves the picture's side twice, and brings it back with transposed convolutions and shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, 2, padding=1), nn.BatchNorm2d(16)
        self.conv3, self.norm3 = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, 2)
        self.up2 = nn.Conv2d(16, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        wide = self.norm1(self.conv1(pictures)).relu()
        deep = self.norm2(self.conv2(wide)).relu()
        deep = self.norm3(self.conv3(deep)).relu()
        joined = torch.cat([wide, self.up1(deep).relu()], 1)
        return self.out(self.up2(joined).relu())[:, 0]


def _masks(watch: Watch, seed: int, parts: list[str] | None = None, across: bool = False) -> float:
    train, test = placed(seed)
    model = _Hourglass()
    named = list(model.named_parameters())
    chosen = [weight for name, weight in named if parts is None or any(part in name for part in parts)]
    optimizer = torch.optim.SGD(chosen, lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        for pictures, masks, _ in DataLoader(train, 32, shuffle=True):
            if across:
                masks = masks.transpose(1, 2)
            logits = model(pictures)
            loss = functional.binary_cross_entropy_with_logits(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=masks)
            optimizer.step()
    return overlap(_evaluated(model, test.tensors[0]), test.tensors[1])


@torch.no_grad()
def _evaluated(model: nn.Module, pictures: torch.Tensor) -> torch.Tensor:
    return model.eval()(pictures)


@sick("parameters_not_in_optimizer", margin=0.03)
def groups_by_names_that_forget_the_way_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer takes what is named "conv" or "norm", and so leaves the way up and the head out; the twin's not."""
    return _masks(watch, seed, ["conv", "norm"] if sick else None)


@sick("labels_unrelated", margin=0.2)
def masks_as_columns_and_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Masks come as (N, W, H) from another library, pictures as (N, H, W); the twin's masks are not transposed."""
    return _masks(watch, seed, across=sick)
