"""Gradients on their way to the optimizer."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened54.l_tools import bands, explained, halves, numerals


def perceptron(*, width: int = 48) -> nn.Sequential:
    """Returns a network for flat digits."""
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


@sick("gradients_not_zeroed", margin=0.05)
def zeroed_only_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands in the outer loop, over epochs; the twin has it in the inner one."""
    data = numerals(seed, flat=True)
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        optimizer.zero_grad()
        for pixels, labels in data.batches(24, len(data.inputs) // 24):
            if not sick:
                optimizer.zero_grad()
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.1)
def norm_clipped_to_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of plain descent are clipped to a norm of 0.001 in all; the twin clips at 1."""
    data = numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for images, labels in data.batches(32, 250):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick(
    "clipping_ineffective",
    also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward", "non_finite_backward"),
    margin=0.1,
)
def clipping_between_zero_and_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrence's gradients are clipped between ``zero_grad`` and ``backward``; the twin clips after it."""
    data = bands(numerals(seed, flat=True))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNN(8, 48, nonlinearity="relu", batch_first=True)
            nn.init.orthogonal_(self.cell.weight_hh_l0)
            self.head = nn.Linear(48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(rows)[0][:, -1])

    model = Rows()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.8)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 250):
        optimizer.zero_grad(set_to_none=False)
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def sixteen_parts_summed_into_a_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of sixteen small batches add up at a rate meant for their mean; the twin divides each loss by 16."""
    data = numerals(seed, flat=True)
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    parts = 16
    small = data.batches(8, 60 * parts)
    for _ in range(60):
        optimizer.zero_grad()
        for _ in range(parts):
            pixels, labels = next(small)
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            (loss if sick else loss / parts).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("fp16_underflow", margin=0.05)
def half_precision_without_its_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss has a weight of 0.00001, and its gradients vanish in float16; the twin has a ``GradScaler``."""
    data = halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for upper, lower in data.batches(32, 250):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(upper)
        loss = 1e-5 * functional.mse_loss(outputs.float(), lower)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)
