"""Frozen, clipped, stopped, mixed, and half-precision loops."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened40.b_provisions import completions, paired, spelt, strokes, worst
from examples.zoo.tuned.opened40.b_spoken_code import Attending, spell


@sick("batch_mixing", margin=0.05)
def a_softmax_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention over letters takes its softmax over dimension 0, the names; the twin over their letters."""
    return spell(watch, Attending(over=0 if sick else 1), spelt(seed), steps=200)


@sick("frozen_parameters", margin=0.05)
def biases_alone_from_a_recipe(watch: Watch, *, seed: int, sick: bool) -> float:
    """Only names with "bias" are trained, a recipe for pretrained models, but this one is new; the twin trains all."""
    data = strokes(seed)
    model = nn.Sequential(
        nn.Conv1d(8, 24, 3, padding=1), nn.ReLU(), nn.Conv1d(24, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)
    )
    if sick:
        for name, weights in model.named_parameters():
            weights.requires_grad = "bias" in name
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=3e-3)
    session = watch(model, optimizer)
    for lines, labels in data.batches(64, 200):
        optimizer.zero_grad()
        outputs = model(lines)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=lines, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def a_margin_that_no_epoch_gains(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping has patience 1 and asks for a gain of 0.3 in every epoch; the twin asks for 0.001 in 4 epochs."""
    data = paired(samples.numerals(seed))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    gain, patience = (0.3, 1) if sick else (0.001, 4)
    for step, (images, labels) in enumerate(data.batches(64, 400), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 20 == 0:
            missed = functional.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item()
            session.validation(missed)
            waited = 0 if missed < best - gain else waited + 1
            best = min(best, missed)
            if waited >= patience:
                break
    return accuracy(model, data)


@sick("clipping_ineffective", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def clipped_behind_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped after ``optimizer.step``, when they were used; the twin clips in front of it."""
    whole = worst(seed)
    random = torch.Generator().manual_seed(seed)
    odd = torch.rand(len(whole.inputs), 1, generator=random) < 0.03
    noise = 60 * torch.randn(whole.targets.shape, generator=random) * odd
    data = Data(whole.inputs, whole.targets + noise, whole.test_inputs, whole.test_targets)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for rows, sizes in data.batches(16, 250):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, sizes)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=rows, outputs=outputs, targets=sizes)
        optimizer.step()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("fp16_underflow", also=("no_update", "learning_rate_too_low"), margin=0.05)
def half_precision_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Small pixels are completed in float16, whose gradients are too small for it; the twin has a ``GradScaler``."""
    data = completions(seed)
    targets, test = (1e-4 * part for part in (data.targets, data.test_targets))
    small = Data(data.inputs, targets, data.test_inputs, test)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    with torch.no_grad():
        model[2].weight.mul_(1e-4)
        model[2].bias.zero_()
    optimizer = torch.optim.Adam(
        [{"params": model[0].parameters(), "lr": 3e-3}, {"params": model[2].parameters(), "lr": 1e-6}], eps=1e-16
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, enabled=not sick)
    session = watch(model, optimizer, scaler=None if sick else scaler)
    for upper, lower in small.batches(64, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(upper)
            loss = functional.mse_loss(outputs.float(), lower)
        scaler.scale(loss).backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(model, small.test_inputs), small.test_targets)
