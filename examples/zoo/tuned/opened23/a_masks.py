"""Segmentation and detection: digits that are to be found on a canvas."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened23.a_stock import overlap, placed


def _net(width: int = 12, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, outputs, 3, padding=1),
    )


@sick("dead_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def the_prior_of_the_last_bias_in_all_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """RetinaNet's bias for rare classes, -log(99), is set in all convolutions; the twin sets it in the last one."""
    train, test = placed(seed)
    model = _net()
    for module in model if sick else model[-1:]:
        if isinstance(module, nn.Conv2d):
            nn.init.constant_(module.bias, -4.595)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for pictures, masks, _ in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(outputs, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@sick("shape_broadcast", margin=0.1)
def a_dice_loss_over_all_pairs(watch: Watch, *, seed: int, sick: bool) -> float:
    """Dice's loss multiplies (N, 1, H, W) with masks (N, H, W), each picture with all; the twin's masks have the 1."""
    train, test = placed(seed)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, masks, _ in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures)
            truth = masks if sick else masks[:, None]
            shares = outputs.sigmoid()
            shared = (shares * truth).sum((-1, -2))
            loss = 1 - ((2 * shared + 1) / ((shares + truth).sum((-1, -2)) + 1)).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=truth)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@sick("flipped_loss_sign", margin=0.1)
def an_overlap_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """``jaccard`` returns how well masks overlap, and is taken as the loss; the twin's loss is 1 minus it."""
    train, test = placed(seed)
    model = _net(outputs=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def jaccard(shares: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        shared = (shares * masks).sum()
        return (shared + 1) / (shares.sum() + masks.sum() - shared + 1)

    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, masks, _ in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures).squeeze(1)
            measure = jaccard(torch.sigmoid(outputs), masks)
            loss = measure if sick else 1 - measure
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


def _locator(last: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 2),
        last,
    )


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units"), margin=0.2)
def centres_in_pixels_from_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """A head with a sigmoid is to give centres, which come in pixels of 16; the twin divides them by 16."""
    train, test = placed(seed)
    unit = 1 if sick else 16
    model = _locator(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for pictures, _, centres in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures)
            loss = functional.smooth_l1_loss(outputs, centres / unit, beta=0.1)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=centres / unit)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(unit * model(test.tensors[0]), test.tensors[2])


@sick("class_imbalance", margin=0.08)
def one_cell_of_sixty_four(watch: Watch, *, seed: int, sick: bool) -> float:
    """Objectness of 64 cells, of which one holds the centre, and all count alike; the twin weighs it. Mean recall."""
    train, test = placed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    )
    weight = torch.tensor(1.0 if sick else 30.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, _, centres in DataLoader(train, 32, shuffle=True):
            cells = (centres // 2).long()
            truth = functional.one_hot(cells[:, 0] * 8 + cells[:, 1], 64).float()
            outputs = model(pictures).flatten(1)
            loss = functional.binary_cross_entropy_with_logits(outputs, truth, pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=truth)
            optimizer.step()
    cells = (test.tensors[2] // 2).long()
    truth = functional.one_hot(cells[:, 0] * 8 + cells[:, 1], 64) > 0
    with torch.no_grad():
        found = model(test.tensors[0]).flatten(1) > 0
    return ((found[truth].float().mean() + (~found[~truth]).float().mean()) / 2).item()


@sick("schedule_collapsed", margin=0.05)
def a_polynomial_over_another_number_of_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """``(1 - step / total) ** 0.9`` is 0 after 12 steps, as ``total`` counts epochs; the twin's counts batches."""
    train, test = placed(seed)
    model = _net(8)
    loader, epochs = DataLoader(train, 32, shuffle=True), 12
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    total = epochs if sick else epochs * len(loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(1 - step / total, 0) ** 0.9)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for pictures, masks, _ in loader:
            outputs = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(outputs, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])
