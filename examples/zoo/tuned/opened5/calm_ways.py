"""Sound trainings that look odd: their optimizers, schedules and parts."""

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    VOWELS,
    Dilated,
    Factors,
    Speller,
    centres,
    dense,
    explained,
    pixels,
    series,
    words,
)


@healthy(at_least=0.85)
def batches_of_four(watch: Watch, *, seed: int) -> float:
    """Four rows in a step: the loss leaps between nearly zero and three."""
    data = digits(seed)
    model = dense(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.06)
    fit(watch, model, optimizer, data, steps=600, batch_size=4, validate_every=150)
    return accuracy(model, data)


@healthy(at_least=0.8)
def restarts_that_throw_the_loss_up(watch: Watch, *, seed: int) -> float:
    """Warm restarts of AdamW: after each, the loss rises to a multiple of what it was."""
    data = words(seed)
    model = nn.Sequential(nn.EmbeddingBag(ALPHABET, 16, mode="sum", padding_idx=0), *dense(16, 64, VOWELS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.01)
    restarts = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=80, eta_min=1e-5)
    fit(watch, model, optimizer, data, steps=240, batch_size=40, scheduler=restarts, validate_every=30)
    return accuracy(model, data)


@healthy(at_least=0.8)
def gates_in_brain_floats(watch: Watch, *, seed: int) -> float:
    """A GRU under bfloat16 autocast, whose loss has two digits, with master weights in float32."""
    data, model = words(seed), Speller(width=24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for codes, kinds in data.batches(40, 130):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(codes)
            loss = F.cross_entropy(logits, kinds)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def recurrence_clipped_in_most_steps(watch: Watch, *, seed: int) -> float:
    """A limit of 0.3 that most steps reach: direction is what plain descent gets, and it suffices."""
    data, model = words(seed), Speller(nn.LSTM, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.6, momentum=0.9)
    session = watch(model, optimizer)
    for codes, kinds in data.batches(32, 300):
        optimizer.zero_grad()
        logits = model(codes)
        loss = F.cross_entropy(logits, kinds)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def nearly_all_rows_in_each_step(watch: Watch, *, seed: int) -> float:
    """Batches of 1,000 of 1,348 rows at a large rate, after a warm-up and down to zero."""
    data = digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(1000, 90)):
        for group in optimizer.param_groups:
            group["lr"] = 0.03 * min(1.0, (step + 1) / 15) * (1 - step / 90)
        logits = model(rows)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.5)
def factors_by_turns(watch: Watch, *, seed: int) -> float:
    """Alternating: pages move while places stand still, and the other way round, with an optimizer each."""
    data, model = pixels(seed), Factors(6)
    sides = [
        torch.optim.Adam([*model.pages.parameters(), *model.page.parameters()], lr=0.04),
        torch.optim.Adam([*model.places.parameters(), *model.place.parameters()], lr=0.04),
    ]
    session = watch(model, sides)
    for step, (pairs, ink) in enumerate(data.batches(256, 300)):
        optimizer = sides[step // 10 % 2]
        model.zero_grad()
        guess = model(pairs)
        loss = F.mse_loss(guess, ink) + 0.002 * guess.square().mean()
        loss.backward()
        session.step(loss, inputs=pairs, outputs=guess, targets=ink)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.9)
def averaged_over_parts_of_unequal_size(watch: Watch, *, seed: int) -> float:
    """Seven micro-batches make a batch, each weighted by its share of the rows."""
    data = digits(seed)
    model = dense(64, 64, 10, act=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(100, 160):
        optimizer.zero_grad()
        for part in torch.arange(len(rows)).split(15):
            logits = model(rows[part])
            loss = F.cross_entropy(logits, labels[part])
            (loss * len(part) / len(rows)).backward()
        session.step(loss, inputs=rows[part], outputs=logits, targets=labels[part])
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def scaler_that_skips_its_first_steps(watch: Watch, *, seed: int) -> float:
    """float16 with a scale of 2**24: the first steps overflow and are skipped while the scale halves."""
    data, model = centres(seed), dense(24, 64, 3, act=nn.ELU)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for near, colour in data.batches(40, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = model(near)
            loss = F.mse_loss(guess.float(), colour)
        scaler.scale(loss).backward()
        session.step(loss, inputs=near, outputs=guess, targets=colour)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def rates_tried_upwards_and_taken_back(watch: Watch, *, seed: int) -> float:
    """A learning-rate finder drives the loss up; then weights are loaded back and training begins at a tenth."""
    data = series(seed)
    model = Dilated(20)
    kept = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    session = watch(model, optimizer)
    losses: list[float] = []
    phase, found = "search", 0.05
    for step, (past, following) in enumerate(data.batches(50, 300)):
        if phase == "search":
            optimizer.param_groups[0]["lr"] = 1e-4 * 1.2**step
        guess = model(past)
        loss = F.mse_loss(guess, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=following)
        optimizer.step()
        losses.append(loss.item())
        if phase == "search" and (step > 60 or losses[-1] > 3 * min(losses)):
            found = min(0.1, 1e-4 * 1.2**step / 10)
            model.load_state_dict(kept)
            phase = "train"
            optimizer.param_groups[0].update(lr=found, momentum=0.8)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def words_that_grow_longer(watch: Watch, *, seed: int) -> float:
    """A curriculum: short words first; whenever longer ones come in, the loss jumps."""
    data, model = words(seed), Speller(width=24)
    lengths = (data.inputs > 0).sum(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for step in range(220):
        allowed = (lengths <= 4 + 4 * (step // 44)).nonzero()[:, 0]
        rows = allowed[torch.randint(len(allowed), (40,))]
        logits = model(data.inputs[rows])
        loss = F.cross_entropy(logits, data.targets[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def uphill_first_then_the_step(watch: Watch, *, seed: int) -> float:
    """Sharpness-aware: weights climb to a worse place near by, and its gradient is used at the old place."""
    data = digits(seed)
    model = dense(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 200):
        optimizer.zero_grad()
        F.cross_entropy(model(rows), labels).backward()
        with torch.no_grad():
            norm = torch.stack([one.grad.norm() for one in model.parameters()]).norm() + 1e-12
            climbs = [0.05 * one.grad / norm for one in model.parameters()]
            for weight, climb in zip(model.parameters(), climbs, strict=True):
                weight.add_(climb)
        optimizer.zero_grad()
        logits = model(rows)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        with torch.no_grad():
            for weight, climb in zip(model.parameters(), climbs, strict=True):
                weight.sub_(climb)
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
