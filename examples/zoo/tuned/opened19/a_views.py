"""Trainings on digits without their labels: pairs of views, quarters of a turn, and sparse or variational codes."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened19.a_stock import nearest, turned


def _encoder(width: int = 12, size: int = 24) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(2 * width * 16, size),
    )  # fmt: skip


def _view(images: torch.Tensor) -> torch.Tensor:
    """Returns the images, shifted by up to one pixel each way, with noise."""
    moves = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(images, moves, (2, 3)) + 0.5 * torch.randn_like(images)


@sick("flipped_loss_sign", margin=0.03)
def partners_pushed_away(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hand-written NT-Xent ends in ``positive - logsumexp``, which is made small; the twin has the minus."""
    train, test = samples.numerals(seed)
    model = _encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, _ in DataLoader(train, 64, shuffle=True, drop_last=True):
            codes = functional.normalize(model(torch.cat([_view(images), _view(images)])), dim=1)
            likeness = (codes @ codes.T / 0.2).masked_fill(torch.eye(len(codes), dtype=torch.bool), -1e9)
            partners = torch.arange(len(codes)).roll(len(images))
            positive = likeness[torch.arange(len(codes)), partners]
            gain = (positive - likeness.logsumexp(1)).mean()
            loss = gain if sick else -gain
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=codes)
            optimizer.step()
    with torch.no_grad():
        codes, others = (functional.normalize(model(part.tensors[0]), dim=1) for part in (train, test))
    return nearest(codes, train.tensors[1], others, test.tensors[1])


@sick("unshuffled_data", margin=0.1)
def one_quarter_of_a_turn_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Turned copies are appended turn by turn, and the loader is left as for evaluation; the twin shuffles."""
    train, test = turned(seed, count=1600)
    order = train.tensors[1].sort(stable=True).indices
    train = TensorDataset(*(column[order] for column in train.tensors))
    model = nn.Sequential(_encoder(), nn.ReLU(), nn.Linear(24, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, turns in DataLoader(train, 32, shuffle=not sick):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, turns)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=turns)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("over_regularized", margin=0.2)
def a_divergence_summed_and_an_error_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE's error is a mean over the pixels, its divergence a sum over the codes, which thereby tell nothing.

    The twin sums both.
    """
    train, test = samples.numerals(seed)
    encoder, decoder = _encoder(size=16), nn.Sequential(nn.Linear(8, 96), nn.ReLU(), nn.Linear(96, 64))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for images, _ in DataLoader(train, 64, shuffle=True):
            mean, spread = encoder(images).chunk(2, 1)
            outputs = decoder(mean + torch.randn_like(mean) * (spread / 2).exp())
            errors = (outputs - images.flatten(1)).square()
            error = errors.mean() if sick else errors.sum(1).mean()
            loss = error - 0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=images.flatten(1))
            optimizer.step()
    with torch.no_grad():
        outputs = decoder(encoder(test.tensors[0])[:, :8])
    return samples.explained(outputs, test.tensors[0].flatten(1))


class _Jump(nn.Module):
    """Lets through what exceeds a threshold, as it is."""

    def __init__(self, size: int, threshold: float) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.full((size,), threshold))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        kept = torch.sigmoid((values - self.threshold) / 0.02)
        return values.relu() * kept


@sick("dead_units", also=("poor_initialization",), margin=0.05)
def thresholds_of_larger_activations(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse dictionary's thresholds are those for a model with larger activations; the twin's begin at 0.05."""
    train, test = samples.numerals(seed)
    rows, others = train.tensors[0].flatten(1), test.tensors[0].flatten(1)
    jump = _Jump(128, 2.5 if sick else 0.05)
    model = nn.Sequential(nn.Linear(64, 128), jump, nn.Linear(128, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for (batch,) in DataLoader(TensorDataset(rows), 64, shuffle=True):
            outputs = model(batch)
            codes = model[1](model[0](batch))
            loss = functional.mse_loss(outputs, batch) + 1e-3 * codes.abs().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=outputs, targets=batch)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(others), others)


@sick("gradients_not_zeroed", margin=0.03)
def the_teachers_gradients_are_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """A student learns from its slow copy, and ``teacher.zero_grad()`` stands in the loop; the twin's is student's."""
    train, test = samples.numerals(seed)
    student = nn.Sequential(_encoder(), nn.ReLU(), nn.Linear(24, 10))
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.03, momentum=0.9)
    session = watch(student, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, 48, shuffle=True):
            (teacher if sick else student).zero_grad()
            outputs = student(images + 0.3 * torch.randn_like(images))
            agreed = functional.mse_loss(outputs.softmax(1), teacher(images).softmax(1))
            loss = functional.cross_entropy(outputs, labels) + agreed
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                    slow.lerp_(fast, 0.05)
    with torch.no_grad():
        return samples.accuracy(teacher(test.tensors[0]), test.tensors[1])
