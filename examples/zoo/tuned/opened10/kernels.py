"""Convolutional nets that tell digits and scenes apart."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Session, Watch, healthy, sick
from examples.zoo.samples import Pair


class LeNet(nn.Module):
    """Two convolutions with pooling, and two linear layers."""

    def __init__(self, channels: int = 1, classes: int = 10, *, width: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.fc1 = nn.Linear(8 * width, 4 * width)
        self.drop = nn.Dropout(dropout)
        self.fc2 = nn.Linear(4 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = self.drop(functional.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


def normed(channels: int, classes: int, *, width: int = 10) -> nn.Sequential:
    """Returns three convolutions with batch norm and a mean over the picture."""
    layers: list[nn.Module] = []
    for inside in (channels, width, width):
        layers += [nn.Conv2d(inside, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, classes))


def train_epoch(
    session: Session, model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[tuple[torch.Tensor, ...]]
) -> None:
    """Trains for one epoch with the cross entropy."""
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        loss = functional.cross_entropy(scores, y)
        loss.backward()
        session.step(loss.item(), inputs=x, outputs=scores, targets=y)
        optimizer.step()


def check_epoch(session: Session, model: nn.Module, pair: Pair) -> float:
    """Validates and returns the accuracy."""
    x, y = pair[1].tensors
    model.eval()
    with torch.no_grad(), session.validating():
        scores = model(x)
    right = samples.accuracy(scores, y)
    session.validation(functional.cross_entropy(scores, y).item(), metrics={"accuracy": right})
    return right


def train(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, pair: Pair, *, epochs: int, batch: int
) -> float:
    """Trains for some epochs, validates after each, and returns the last accuracy."""
    session, right = watch(model, optimizer), 0.0
    loader = DataLoader(pair[0], batch_size=batch, shuffle=True)
    for _ in range(epochs):
        train_epoch(session, model, optimizer, loader)
        right = check_epoch(session, model, pair)
    return right


@sick("learning_rate_too_high")
def rmsprop_at_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """RMSprop with a rate of 0.1 on a plain CNN."""
    model = LeNet()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1 if sick else 2e-3)
    return train(watch, model, optimizer, samples.numerals(seed), epochs=5, batch=32)


@sick("learning_rate_too_low")
def a_rate_of_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam at 1e-5, on a net that starts from nothing."""
    model = normed(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5 if sick else 2e-3)
    return train(watch, model, optimizer, samples.scenes(seed, count=1400), epochs=5, batch=32)


@sick("inputs_not_normalized")
def pixels_up_to_255(watch: Watch, *, seed: int, sick: bool) -> float:
    """The pictures go into the net as bytes from 0 to 255."""
    parts = samples.numerals(seed)
    images = torch.cat([part.tensors[0] for part in parts])
    low, high = images.min(), images.max()
    scale = 255.0 if sick else 1.0

    def scaled(part: TensorDataset) -> TensorDataset:
        x, y = part.tensors
        return TensorDataset((x - low) / (high - low) * scale, y)

    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return train(watch, model, optimizer, (scaled(parts[0]), scaled(parts[1])), epochs=6, batch=40)


@sick("wrong_output_or_loss")
def softmax_as_last_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The net ends in a softmax, and the cross entropy takes another one."""
    model = nn.Sequential(LeNet(), nn.Softmax(dim=1)) if sick else nn.Sequential(LeNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return train(watch, model, optimizer, samples.numerals(seed), epochs=4, batch=32)


@sick("wrong_mode")
def evaluated_with_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.eval()`` is missing before the validation, so that dropout is at work in it."""
    train_set, test_set = samples.numerals(seed)
    model = LeNet(width=6, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    right = 0.0
    for _ in range(6):
        train_epoch(session, model, optimizer, DataLoader(train_set, batch_size=25, shuffle=True))
        if not sick:
            model.eval()
        losses, hits = [], 0.0
        with torch.no_grad(), session.validating():
            for x, y in DataLoader(test_set, batch_size=50):
                scores = model(x)
                losses.append(functional.cross_entropy(scores, y).item())
                hits += (scores.argmax(1) == y).sum().item()
        right = hits / len(test_set)
        session.validation(sum(losses) / len(losses), metrics={"accuracy": right})
    return right


@sick("unshuffled_data")
def folders_one_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """The pictures come from one folder per class, in their order."""
    train_set, test_set = samples.numerals(seed)
    by_class = Subset(train_set, train_set.tensors[1].argsort().tolist())
    loader: DataLoader[tuple[torch.Tensor, ...]] = DataLoader(by_class, batch_size=32, shuffle=not sick)
    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session, right = watch(model, optimizer), 0.0
    for _ in range(5):
        train_epoch(session, model, optimizer, loader)
        right = check_epoch(session, model, (train_set, test_set))
    return right


@sick("overfitting")
def fifty_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fifty digits for a wide net, again and again; the twin has all of them."""
    train_set, test_set = samples.numerals(seed)
    if sick:
        train_set = TensorDataset(*(column[:50] for column in train_set.tensors))
    model = LeNet(width=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    batch = 10 if sick else 40
    return train(watch, model, optimizer, (train_set, test_set), epochs=40 if sick else 6, batch=batch)


@sick("dead_units", also=("poor_initialization",))
def biases_far_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first linear layer's biases were set to -8, as in a recipe for a rare class."""
    model = LeNet()
    if sick:
        nn.init.constant_(model.fc1.bias, -8.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return train(watch, model, optimizer, samples.numerals(seed), epochs=4, batch=32)


@healthy(at_least=0.93)
def one_cycle_with_batch_norm(watch: Watch, *, seed: int) -> float:
    """SGD with Nesterov's momentum in one cycle up to a rate of 0.3."""
    train_set, test_set = samples.numerals(seed)
    model = normed(1, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    loader = DataLoader(train_set, batch_size=48, shuffle=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=5 * len(loader))
    session = watch(model, optimizer)
    for _ in range(5):
        for x, y in loader:
            scores = model(x)
            loss = functional.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=scores, targets=y)
            optimizer.step()
            scheduler.step()
        right = check_epoch(session, model, (train_set, test_set))
        model.train()
    return right


@healthy(at_least=0.8)
def four_pictures_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of four: the loss is noisy, and falls."""
    model = LeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return train(watch, model, optimizer, samples.numerals(seed), epochs=1, batch=4)


@healthy(at_least=0.85)
def mirrored_and_noisy_scenes(watch: Watch, *, seed: int) -> float:
    """Patches are mirrored and blurred by noise while training, never in a validation."""
    train_set, test_set = samples.scenes(seed)
    model = normed(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(6):
        for x, y in DataLoader(train_set, batch_size=32, shuffle=True):
            x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x) + 0.1 * torch.randn_like(x)
            scores = model(x)
            loss = functional.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=scores, targets=y)
            optimizer.step()
        right = check_epoch(session, model, (train_set, test_set))
        model.train()
    return right
