"""Trainings on digits whose loss, batches or sums of gradients are not what their authors meant."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


def _net(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * width * 16, 10),
    )  # fmt: skip


@sick("wrong_output_or_loss", margin=0.03)
def a_divergence_of_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.kl_div`` takes logarithms of probabilities, and is given a softmax; the twin gives it a log-softmax."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, 50, shuffle=True):
            soft = functional.one_hot(labels, 10) * 0.9 + 0.01
            logits = model(images)
            outputs = logits.softmax(1) if sick else logits.log_softmax(1)
            loss = functional.kl_div(outputs, soft, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=soft)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class _Attending(nn.Module):
    """Weighs the places of a picture by scores, and adds them up."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, padding=1), nn.ReLU()
        )
        self.score, self.head = nn.Linear(32, 4), nn.Linear(128, 10)
        self.place = nn.Parameter(torch.randn(16, 32) * 0.5)
        self.dim = dim

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        places = self.features(images).flatten(2).transpose(1, 2)
        shares = self.score(places + self.place).softmax(self.dim)
        return self.head((shares.transpose(1, 2) @ places).flatten(1))


@sick("batch_mixing", margin=0.05)
def shares_among_the_pictures_of_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Scores of places become shares by ``softmax(0)``, among the pictures of a batch; the twin's among the places.

    Both are judged as they are used: picture by picture.
    """
    train, test = samples.numerals(seed)
    model = _Attending(0 if sick else 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, labels in DataLoader(train, 40, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        outputs = torch.cat([model(image) for image in test.tensors[0].split(1)])
    return samples.accuracy(outputs, test.tensors[1])


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def sixteen_parts_of_a_batch_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch of 64 goes through in 16 parts, whose mean losses' gradients are added; the twin divides by 16."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 64, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            for part, wanted in zip(images.chunk(16), labels.chunk(16), strict=True):
                outputs = model(part)
                loss = functional.cross_entropy(outputs, wanted)
                (loss if sick else loss / 16).backward()
            session.step(loss, inputs=part, outputs=outputs, targets=wanted)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("poor_initialization", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def normal_weights_as_init_normal_draws_them(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_(weight)`` draws with a deviation of 1, not of 0.02 or He's; the twin draws as He does."""
    train, test = samples.halves(seed)
    model = nn.Sequential(
        nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 32)
    )

    def begin(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
            if sick:
                nn.init.normal_(module.weight)
            else:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    model.apply(begin)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for upper, lower in DataLoader(train, 64, shuffle=True):
            inputs, wanted = (upper - 0.3) / 0.38, (lower - 0.3) / 0.38
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, wanted)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=wanted)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model((test.tensors[0] - 0.3) / 0.38), (test.tensors[1] - 0.3) / 0.38)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def every_filter_begins_as_a_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """All filters of both convolutions begin as the same mean of their window; the twin's are drawn by chance."""
    train, test = samples.numerals(seed)
    model = _net()
    if sick:
        for module in (model[0], model[3]):
            nn.init.constant_(module.weight, 1 / module.weight[0].numel())
            nn.init.zeros_(module.bias)
        nn.init.constant_(model[6].weight, 0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
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
