"""Sound trainings on pictures that look odd: in few bits, with frozen parts, with empty masks, in tiny batches."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened19.a_stock import coloured, nearest, overlap, placed, turned


def _body(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
    )  # fmt: skip


@healthy(at_least=0.85)
def convolutions_in_brain_floats_under_one_cycle(watch: Watch, *, seed: int) -> float:
    """Convolutions run in bfloat16 under autocast, at a rate that rises to its peak and falls to almost nothing."""
    train, test = coloured(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 2),
    )  # fmt: skip
    loader = DataLoader(train, 50, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8 * len(loader))
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, labels in loader:
            inputs = (pictures.float() / 255 - 0.43) / 0.28
            with torch.autocast("cpu", dtype=torch.bfloat16):
                outputs = model(inputs)
                loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        return samples.accuracy(model.eval()((test.tensors[0].float() / 255 - 0.43) / 0.28), test.tensors[1])


@healthy(at_least=0.8)
def a_head_on_a_body_that_knows_turns(watch: Watch, *, seed: int) -> float:
    """A body learnt to tell turned digits; then it is frozen with its norms in eval mode, and a head learns digits."""
    rows, _ = turned(seed)
    body = _body()
    before = nn.Sequential(body, nn.Linear(96, 4))
    first = torch.optim.Adam(before.parameters(), lr=5e-3)
    for _ in range(6):
        for images, turns in DataLoader(rows, 50, shuffle=True):
            first.zero_grad()
            functional.cross_entropy(before(images), turns).backward()
            first.step()
    body.requires_grad_(False).eval()
    train, test = samples.numerals(seed)
    model = nn.Sequential(body, nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, 50, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.6)
def half_of_the_pictures_show_nothing(watch: Watch, *, seed: int) -> float:
    """Half of the pictures are noise with an empty mask; the loss is a cross entropy and a Dice of the batch."""
    train, test = placed(seed)
    pictures, masks, _ = train.tensors
    mixed = torch.cat([pictures, torch.randn(len(pictures), *pictures.shape[1:]) * 0.4 - 0.35])[::2]
    wanted = torch.cat([masks, torch.zeros_like(masks)])[::2]
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=2, dilation=2),
        nn.GroupNorm(3, 12), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for batch, truth in DataLoader(TensorDataset(mixed, wanted), 24, shuffle=True):
            logits = model(batch)[:, 0]
            shares = logits.sigmoid()
            dice = 1 - (2 * (shares * truth).sum() + 1) / (shares.sum() + truth.sum() + 1)
            loss = functional.binary_cross_entropy_with_logits(logits, truth) + dice
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=logits, targets=truth)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def two_pictures_at_a_time_and_four_added(watch: Watch, *, seed: int) -> float:
    """Two pictures fit into memory: a batch is four such parts, whose gradients are averaged; GroupNorm fits that."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.GroupNorm(4, 12), nn.SiLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for number, (images, labels) in enumerate(DataLoader(train, 2, shuffle=True, drop_last=True), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 4).backward()
        if number % 4 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def alike_if_their_labels_are(watch: Watch, *, seed: int) -> float:
    """Supervised contrast: codes of one digit are drawn together; the loss ends far above zero, as it must."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(_body(), nn.Linear(96, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, 80, shuffle=True, drop_last=True):
            codes = functional.normalize(model(images + 0.2 * torch.randn_like(images)), dim=1)
            itself = torch.eye(len(codes), dtype=torch.bool)
            scores = (codes @ codes.T / 0.2).masked_fill(itself, -1e9).log_softmax(1)
            alike = (labels[:, None] == labels) & ~itself
            loss = -((scores * alike).sum(1) / alike.sum(1).clamp(min=1)).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=codes, targets=labels)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return nearest(model(train.tensors[0]), train.tensors[1], model(test.tensors[0]), test.tensors[1])
