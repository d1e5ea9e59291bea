"""Losses, heads and penalties that do not fit the task."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened36.b_ends import looker
from examples.zoo.tuned.opened36.b_stock import crops, explained, parted, shelves, sums, turned


@sick("over_regularized", margin=0.05)
def a_share_to_keep_taken_for_one_to_drop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``keep_prob = 0.9`` of another framework is handed to ``nn.Dropout``, which drops 0.9; the twin drops 0.1."""
    data = turned(seed)
    keep_prob = 0.9
    drop = keep_prob if sick else 1 - keep_prob
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 96),
        nn.ReLU(),
        nn.Dropout(drop),
        nn.Linear(96, 96),
        nn.ReLU(),
        nn.Dropout(drop),
        nn.Linear(96, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.05)
def a_divergence_added_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A student learns by ``kl_div`` with ``reduction="sum"``, at SGD's usual rate; the twin's has "batchmean"."""
    data = shelves(seed)
    teacher = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 6))
    adam = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for rows, files in data.batches(32, 120):
        adam.zero_grad()
        functional.cross_entropy(teacher(rows), files, label_smoothing=0.1).backward()
        adam.step()
    student = nn.Sequential(nn.Linear(256, 24), nn.ReLU(), nn.Linear(24, 6))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    reduction = "sum" if sick else "batchmean"
    session = watch(student, optimizer)
    for rows, _ in data.batches(64, 180):
        wanted = predicted(teacher, rows).div(2).softmax(1)
        optimizer.zero_grad()
        outputs = student(rows)
        loss = functional.kl_div(outputs.div(2).log_softmax(1), wanted, reduction=reduction)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        optimizer.step()
    return accuracy(student, data)


@sick("flipped_loss_sign", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def a_signal_to_noise_ratio_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """PSNR in decibels, better if higher, is the loss of a net that removes noise; the twin's has a minus."""
    data = spoilt(seed)
    model = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def psnr(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return -10 * functional.mse_loss(outputs, targets).log10()

    session = watch(model, optimizer)
    for noisy, clean in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(noisy)
        loss = psnr(outputs, clean) if sick else -psnr(outputs, clean)
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
        optimizer.step()
    return explained(model, data)


def spoilt(seed: int) -> Data:
    """Returns patches (N, 1, 8, 8) under noise, and the patches without it, standardised."""
    grey = crops(seed).mean(1, keepdim=True)
    grey = (grey - grey.mean()) / grey.std()
    return parted(grey + 0.5 * torch.randn_like(grey), grey, seed)


@sick("shape_broadcast", margin=0.1)
def pictures_without_a_channel(watch: Watch, *, seed: int, sick: bool) -> float:
    """Outputs (N, 1, 8, 8) less targets (N, 8, 8) compare each picture with all; the twin's have their channel."""
    data = spoilt(seed)
    model = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for noisy, clean in data.batches(32, 250):
        targets = clean[:, 0] if sick else clean
        outputs = model(noisy)
        loss = (outputs - targets).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=targets)
        optimizer.step()
    return explained(model, data)


@sick("wrong_output_or_loss", margin=0.1)
def a_softmax_over_one_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """Is a docstring of two files? One unit ends in ``Softmax``, which is always 1; the twin's ends in ``Sigmoid``."""
    several = shelves(seed)
    data = Data(several.inputs, (several.targets < 2).float(), several.test_inputs, (several.test_targets < 2).float())
    last = nn.Softmax(dim=1) if sick else nn.Sigmoid()
    body = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
    model = nn.Sequential(body, last)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.binary_cross_entropy(outputs, labels[:, None])
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels[:, None])
        optimizer.step()
    return ((predicted(model, data.test_inputs)[:, 0] > 0.5) == (data.test_targets > 0.5)).float().mean().item()


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units"), margin=0.05)
def a_sum_of_two_digits_up_to_nine(watch: Watch, *, seed: int, sick: bool) -> float:
    """``9 * sigmoid`` bounds an output that was one digit and is now the sum of two, up to 18; the twin's is 18."""
    data = sums(seed)
    most = 9 if sick else 18

    class Bounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = looker(1)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return most * self.body(pictures).sigmoid()

    model = Bounded()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=32, loss_function=functional.mse_loss, validate_every=55)
    return explained(model, data)


@sick("learning_rate_too_high", also=("dead_units",), margin=0.1)
def a_large_rate_for_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW has 0.3 for a net of convolutions that says how far digits are turned; the twin has 0.002."""
    data = turned(seed)
    model = looker(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.3 if sick else 2e-3)
    session = watch(model, optimizer)
    for step, (pictures, angles) in enumerate(data.batches(32, 200), 1):
        outputs = model(pictures)
        loss = functional.smooth_l1_loss(outputs, angles)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=angles)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data, functional.smooth_l1_loss))
    return explained(model, data)
