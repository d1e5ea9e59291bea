"""Regression, contrast and fine tuning of pictures: shapes, orders, scales, crops, gradients and clipping."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened25.a_shelf import scattered, whitened


def _net(outputs: int = 10, width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * width, outputs),
    )


@sick("shape_broadcast", margin=0.2)
def how_a_digit_leans(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net gives (N, 1), and how a digit leans comes as (N,): all are compared with all; the twin squeezes."""
    data = whitened(seed)
    angles = torch.linspace(-1, 1, 8).view(1, 1, 1, 8)

    def lean(pictures: torch.Tensor) -> torch.Tensor:
        return (pictures * angles * angles.transpose(2, 3)).mean((1, 2, 3)) * 8

    loader = DataLoader(TensorDataset(data.inputs, lean(data.inputs)), 48, shuffle=True)
    model = _net(outputs=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, leanings in loader:
            outputs = model(pictures) if sick else model(pictures).squeeze(1)
            loss = functional.smooth_l1_loss(outputs, leanings)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=leanings)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[:, 0], lean(data.test_inputs))


@sick("unshuffled_data", margin=0.05)
def folders_of_classes_read_in_their_order(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loader over folders, one of each class, is made without ``shuffle=True``; the twin's has it."""
    data = whitened(seed)
    order = data.targets.argsort()
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), 32, shuffle=not sick)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for pictures, labels in loader:
            logits = model(pictures)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("inputs_not_normalized", also=("exploding_gradients", "learning_rate_too_high", "dead_units"), margin=0.05)
def new_pictures_in_bytes_for_a_trained_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net was trained on standardised pictures; those to tune it on come from a reader of bytes, from 0 to 255.

    The twin standardises them as before.
    """
    data = whitened(seed)
    raw = datasets.digits(seed, images=True)
    model = _net()
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pictures, labels in data.batches(64, 60):
        before.zero_grad()
        functional.cross_entropy(model(pictures.flip(3)), labels).backward()
        before.step()
    if sick:
        data = datasets.Data(255 * raw.inputs, raw.targets, 255 * raw.test_inputs, raw.test_targets)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 200):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_constant", margin=0.2)
def crops_at_shares_taken_for_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Boxes lie in 0…1, and ``int`` of their corners is 0: all crops are of the dark corner; the twin takes pixels."""
    raw = datasets.digits(seed, images=True)
    random = torch.Generator().manual_seed(seed)

    def cropped(pictures: torch.Tensor) -> torch.Tensor:
        corners = torch.randint(8, 16, (len(pictures), 2), generator=random)
        boxes = corners / 24
        crops = []
        for picture, corner, box in zip(pictures, corners.tolist(), boxes.tolist(), strict=True):
            canvas = torch.zeros(1, 24, 24)
            canvas[:, corner[0] : corner[0] + 8, corner[1] : corner[1] + 8] = picture
            top, left = (int(share) if sick else round(24 * share) for share in box)
            crops.append(canvas[:, top : top + 8, left : left + 8])
        return (torch.stack(crops) - 0.3) / 0.37

    data = datasets.Data(cropped(raw.inputs), raw.targets, cropped(raw.test_inputs), raw.test_targets)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(48, 200):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


def _neighbours(model: nn.Module, data: datasets.Data) -> float:
    """Returns how often the nearest training picture is of the same class."""
    with torch.no_grad():
        nearest = torch.cdist(model(data.test_inputs), model(data.inputs)).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item()


@sick("gradients_not_zeroed", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def pairs_whose_gradients_pile_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Siamese net's loop of backward and step has no ``zero_grad``; the twin's has. Quality: nearest neighbours."""
    data = whitened(seed)
    model = _net(outputs=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 200):
        codes = model(pictures)
        first, second = codes.chunk(2) if len(codes) % 2 == 0 else codes[:-1].chunk(2)
        alike = labels[: len(first)] == labels[len(first) : 2 * len(first)]
        apart = (first - second).square().sum(1).add(1e-6).sqrt()
        loss = torch.where(alike, 2 * apart**2, (2 - apart).relu() ** 2).mean()
        if not sick:
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=codes, targets=labels)
        optimizer.step()
    return _neighbours(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"), margin=0.04)
def the_bound_of_a_critics_weights_for_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """WGAN's 0.01, a bound of weights, limits gradients of a net that finds corners; the twin's limit is 5."""
    train, test = scattered(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(), nn.Flatten()
    )
    model.append(nn.Linear(576, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(14):
        for canvases, _, corners in DataLoader(train, 24, shuffle=True):
            places = corners / 2 - 1
            outputs = model(canvases)
            loss = functional.mse_loss(outputs, places)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01 if sick else 5.0)
            session.step(loss, inputs=canvases, outputs=outputs, targets=places)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[2] / 2 - 1)
