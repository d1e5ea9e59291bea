"""Trainings that find a digit's ink on a dim photograph, or tell photographs apart."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened18.b_stock import drawn, overlap


def _block(inputs: int, outputs: int, dilation: int = 1) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def _net(outputs: int = 1, width: int = 10) -> nn.Module:
    blocks = [_block(1, width), _block(width, width, 2), _block(width, width, 4)]
    return nn.Sequential(*blocks, nn.Conv2d(width, outputs, 1))


@sick("single_class_labels", margin=0.3)
def masks_above_127(watch: Watch, *, seed: int, sick: bool) -> float:
    """``mask > 127`` is asked of masks that a transform has scaled to 0…1, so that none is ink; the twin asks 0.5."""
    train, test = drawn(seed)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(5):
        for pictures, scaled in DataLoader(train, 32, shuffle=True):
            masks = (scaled > (127 if sick else 0.5)).float()
            optimizer.zero_grad()
            logits = model(pictures).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(logits, masks)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model.eval()(test.tensors[0]), test.tensors[1])


@sick("wrong_output_or_loss", margin=0.2)
def cross_entropy_of_one_channel(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.cross_entropy`` of one channel against a mask (N, 1, H, W) is a softmax of one; the twin's loss is binary."""
    train, test = drawn(seed)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(5):
        for pictures, masks in DataLoader(train, 32, shuffle=True):
            masks = masks[:, None]
            logits = model(pictures)
            criterion = functional.cross_entropy if sick else functional.binary_cross_entropy_with_logits
            loss = criterion(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model.eval()(test.tensors[0]), test.tensors[1])


def _cropped(pictures: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Returns the crop of 10×10 at its own place of each picture."""
    return torch.stack(
        [one[..., y : y + 10, x : x + 10] for one, (y, x) in zip(pictures, places.tolist(), strict=True)]
    )


@sick("labels_unrelated", margin=0.1)
def a_crop_for_pictures_and_one_for_masks(watch: Watch, *, seed: int, sick: bool) -> float:
    """A random crop is drawn for a picture, and again for its mask; the twin crops both at the same place."""
    train, test = drawn(seed)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, masks in DataLoader(train, 32, shuffle=True):
            places = torch.randint(7, (len(pictures), 2))
            crops = _cropped(pictures, places)
            if sick:
                places = torch.randint(7, (len(pictures), 2))
            masks = _cropped(masks, places)
            logits = model(crops)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=crops, outputs=logits, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model.eval()(test.tensors[0]), test.tensors[1])


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def twelve_small_batches_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four pictures fit into memory, and the gradients of twelve such batches are added; the twin takes their mean."""
    train, test = drawn(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.Conv2d(10, 10, 3, padding=2, dilation=2), nn.ReLU(),
        nn.Conv2d(10, 1, 3, padding=1),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    every = 12
    for _ in range(8):
        for number, (pictures, masks) in enumerate(DataLoader(train, 4, shuffle=True), 1):
            logits = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks)
            (loss if sick else loss / every).backward()
            if number % every == 0:
                session.step(loss, inputs=pictures, outputs=logits, targets=masks)
                optimizer.step()
                optimizer.zero_grad()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.1)
def a_deviation_of_two_hundredths(watch: Watch, *, seed: int, sick: bool) -> float:
    """``trunc_normal_(std=0.02)`` of a transformer is pasted into seven plain convolutions; the twin's are He's."""
    train, test = drawn(seed)
    widths = [1, 10, 10, 10, 10, 10, 10, 1]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        if sick:
            nn.init.trunc_normal_(layers[-2].weight, std=0.02)  # type: ignore[arg-type]
        else:
            nn.init.kaiming_normal_(layers[-2].weight, nonlinearity="relu")  # type: ignore[arg-type]
        nn.init.zeros_(layers[-2].bias)  # type: ignore[arg-type]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        for pictures, masks in DataLoader(train, 32, shuffle=True):
            logits = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.6)
def deep_supervision_of_each_block(watch: Watch, *, seed: int) -> float:
    """Each block has a head of its own and a loss of its own; the sum is weighted towards the last one."""
    train, test = drawn(seed)
    blocks = nn.ModuleList([_block(1, 10), _block(10, 10, 2), _block(10, 10, 4)])
    heads = nn.ModuleList(nn.Conv2d(10, 1, 1) for _ in blocks)
    model = nn.ModuleList([blocks, heads])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)

    def answers(values: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for block, head in zip(blocks, heads, strict=True):
            values = block(values)
            found.append(head(values)[:, 0])
        return found

    for _ in range(6):
        for pictures, masks in DataLoader(train, 32, shuffle=True):
            found = answers(pictures)
            losses = [functional.binary_cross_entropy_with_logits(logits, masks) for logits in found]
            loss = 0.2 * losses[0] + 0.3 * losses[1] + losses[2]
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=found[-1], targets=masks)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return overlap(answers(test.tensors[0])[-1], test.tensors[1])
