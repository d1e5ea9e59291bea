"""Sound recipes that look odd: restarts, noise, resumed states, very small batches, and rates that rise."""

import io

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened14.craft_sources import digits, explained, measurements, share_right, shuffled, swings


def _judged(net: nn.Module, test: torch.Tensor, labels: torch.Tensor) -> float:
    net.eval()
    with torch.no_grad():
        return share_right(net(test), labels)


@healthy(at_least=0.85)
def warm_restarts(watch: Watch, *, seed: int) -> float:
    """The rate falls to nearly zero and begins anew, three times, and the last fall ends the training."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 40, 2, eta_min=1e-4)
    session = watch(net, opt)
    for rows, labels in shuffled(64, 280, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
        restarts.step()
    return _judged(net, test, test_numbers)


@healthy(at_least=0.85)
def mixed_digits_and_mixed_labels(watch: Watch, *, seed: int) -> float:
    """Mixup: each digit is a mean of two, and so is its label; the loss stays far above zero."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 10))
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    share = torch.distributions.Beta(0.6, 0.6)
    session = watch(net, opt)
    for rows, labels in shuffled(64, 240, pixels, numbers):
        part, other = share.sample((64, 1)), torch.randperm(64)
        mixed = part * rows + (1 - part) * rows[other]
        wanted = part * functional.one_hot(labels, 10) + (1 - part) * functional.one_hot(labels[other], 10)
        logits = net(mixed)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=logits, targets=wanted)
        opt.step()
    return _judged(net, test, test_numbers)


@healthy(at_least=0.9)
def one_wine_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of one row, of plain gradient descent with a rate that falls as one over the step."""
    rows, labels, test, test_labels = measurements("wine", seed)
    net = nn.Linear(13, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    falls = torch.optim.lr_scheduler.LambdaLR(opt, lambda done: 1 / (1 + done / 60))
    session = watch(net, opt)
    for row, label in shuffled(1, 370, rows, labels):
        logits = net(row)
        loss = functional.cross_entropy(logits, label)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=row, outputs=logits, targets=label)
        opt.step()
        falls.step()
    return _judged(net, test, test_labels)


@healthy(at_least=0.8)
def loaded_from_a_checkpoint(watch: Watch, *, seed: int) -> float:
    """The training goes on from saved weights and moments: its loss is low from the first watched step."""
    pixels, numbers, test, test_numbers = digits(seed)

    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        net = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2))
        net.extend([nn.Flatten(), nn.Linear(108, 10)])
        return net, torch.optim.Adam(net.parameters(), lr=4e-3)

    net, opt = made()
    for rows, labels in shuffled(64, 60, pixels, numbers):
        opt.zero_grad()
        functional.cross_entropy(net(rows), labels).backward()
        opt.step()
    saved = io.BytesIO()
    torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, saved)
    saved.seek(0)
    net, opt = made()
    state = torch.load(saved)
    net.load_state_dict(state["net"])
    opt.load_state_dict(state["opt"])
    session = watch(net, opt)
    for rows, labels in shuffled(64, 200, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
    return _judged(net, test, test_numbers)


@healthy(at_least=0.5)
def prolines_as_they_are(watch: Watch, *, seed: int) -> float:
    """Targets of 278 to 1,680 and losses of thousands: the net itself puts its outputs into the targets' unit."""
    train, test = samples.standardised(samples.proline(seed), 0)
    rows, wanted = train.tensors

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
            self.register_buffer("mean", wanted.mean())
            self.register_buffer("std", wanted.std())

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.mean + self.std * self.net(batch)

    model = Scaled()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, opt)
    for batch, goals in shuffled(31, 130, rows, wanted):
        outputs = model(batch)
        loss = functional.mse_loss(outputs, goals)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=outputs, targets=goals)
        opt.step()
    with torch.no_grad():
        return explained(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.8)
def half_precision_of_the_other_kind(watch: Watch, *, seed: int) -> float:
    """Everything in the forward pass is bfloat16 by autocast, and no scaler is needed; gradients are accumulated."""
    angles, told = swings(seed)
    told = (told - told.mean(0)) / told.std(0)
    net = nn.Sequential(nn.Linear(40, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for number, (rows, wanted) in enumerate(shuffled(16, 480, angles[:450], told[:450]), 1):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = net(rows)
        loss = functional.mse_loss(outputs.float(), wanted)
        (loss / 2).backward()
        if number % 2 == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
            opt.step()
            opt.zero_grad()
    with torch.no_grad():
        return explained(net(angles[450:]), told[450:])
