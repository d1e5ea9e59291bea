"""Rates that are too high or too low, schedules that bring them down, and trainings that end too early."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, r_squared


@sick("learning_rate_too_high")
def momentum_on_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD with momentum at a rate of 3."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0 if sick else 0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("learning_rate_too_high")
def adam_on_images(watch: Watch, *, seed: int, sick: bool) -> float:
    """A CNN with Adam at a rate of 0.2, which kills its units in the first steps."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=50, validate_every=30)
    return accuracy(model, data)


@sick("learning_rate_too_high")
def divergence_in_a_regression(watch: Watch, *, seed: int, sick: bool) -> float:
    """A linear model and plain gradient descent on correlated features, beyond the rate at which it diverges."""
    data = datasets.diabetes(seed)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4 if sick else 0.05)
    fit(watch, model, optimizer, data, steps=100, batch_size=331, loss_function=functional.mse_loss)
    return r_squared(model, data)


class _Recurrent(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, 24)
        self.cell = nn.GRU(24, hidden, batch_first=True)
        self.head = nn.Linear(hidden, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.embedding(codes))
        return self.head(states)


def _over_characters(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())


@sick("learning_rate_too_high")
def adamw_on_text(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU on characters with AdamW at a rate of 0.3."""
    data = datasets.text(seed, length=24)
    model = _Recurrent(48)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.3 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=_over_characters)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def sgd_that_crawls(watch: Watch, *, seed: int, sick: bool) -> float:
    """Plain SGD at a rate of 1e-4, which suits Adam."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def adam_that_crawls(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam at the rate with which a large pretrained model would be tuned, on a net that starts from nothing."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-6 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def momentum_that_crawls(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD with momentum on images: all steps together change weights by a twentieth of their size."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-4 if sick else 0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=48, validate_every=40)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def decay_for_epochs_at_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """An exponential decay that is meant for epochs steps with every batch."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7 if sick else 0.7 ** (1 / 22))
    fit(watch, model, optimizer, data, steps=200, scheduler=scheduler)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def patience_counted_in_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reduction on plateaus looks at the noisy loss of each batch instead of each epoch."""
    data = datasets.text(seed, length=16)
    model = _Recurrent(40)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1 if sick else 3)
    session, epoch_loss = watch(model, optimizer), 0.0
    for step, (codes, following) in enumerate(data.batches(32, 180), 1):
        logits = model(codes)
        loss = _over_characters(logits, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        epoch_loss += loss.item()
        if sick:
            scheduler.step(loss.item())
        elif step % 36 == 0:
            scheduler.step(epoch_loss / 36)
            epoch_loss = 0.0
    return accuracy(model, data)


@sick("stopped_too_early", also=("learning_rate_too_low",))
def sixty_steps_where_four_hundred_help(watch: Watch, *, seed: int, sick: bool) -> float:
    """The training ends while the loss still falls as fast as before."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fit(watch, model, optimizer, data, steps=60 if sick else 400, validate_every=20 if sick else 100)
    return accuracy(model, data)
