"""Schedules that end too soon, and trainings that end too soon."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import diabetes, digits
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.samples import lines, names, standardised
from examples.zoo.tuned.opened8.frames import Factors, Spelled, dense
from examples.zoo.tuned.opened8.stores import loader, of_pair, usage


@sick("schedule_collapsed")
def decayed_from_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """``rate / (1 + 0.3 * epoch)`` is taken of the current rate, and not of the first one."""
    pair = standardised(lines(seed), 0)
    model = dense(96, 64, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    session = watch(model, optimizer)
    for epoch in range(18):
        for group in optimizer.param_groups:
            group["lr"] = (group["lr"] if sick else 0.2) / (1 + 0.3 * epoch)
        for counts, files in loader(pair, 64):
            optimizer.zero_grad()
            scores = model(counts)
            loss = functional.cross_entropy(scores, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=scores, targets=files)
            optimizer.step()
    return accuracy(model, of_pair(pair))


@sick("schedule_collapsed")
def stepped_with_every_micro_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight micro-batches make one step of the optimizer and eight of its scheduler."""
    data = usage(seed)
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    bent = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=150, power=2.0)
    session = watch(model, optimizer)
    for index, (pairs, values) in enumerate(data.batches(32, 1200), 1):
        found = model(pairs)
        loss = functional.mse_loss(found, values) / 8
        loss.backward()
        if index % 8 == 0:
            session.step(loss, inputs=pairs, outputs=found, targets=values)
            optimizer.step()
            optimizer.zero_grad()
        if sick or index % 8 == 0:
            bent.step()
    return r_squared(model, data)


@sick("schedule_collapsed")
def total_steps_of_one_device_of_eight(watch: Watch, *, seed: int, sick: bool) -> float:
    """The number of steps was divided by eight devices, and the job got one."""
    pair = names(seed)
    model = Spelled(width=24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    total = 120 // (8 if sick else 1)
    line = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 5, max(0.0, (total - step) / (total - 5)))
    )
    fit(watch, model, optimizer, of_pair(pair), steps=120, batch_size=32, scheduler=line)
    return accuracy(model, of_pair(pair))


@sick("stopped_too_early")
def ended_by_one_lucky_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The training ends as soon as one batch of six has a loss below the goal."""
    data = digits(seed)
    model = dense(64, 48, 10, between=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.5)
    session = watch(model, optimizer)
    recent = 2.3
    for step, (pixels, labels) in enumerate(data.batches(6, 400), 1):
        optimizer.zero_grad()
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
        recent = loss.item() if sick else 0.98 * recent + 0.02 * loss.item()
        if step >= 60 and recent < (1.5 if sick else 0.2):
            break
    return accuracy(model, data)


@sick("stopped_too_early")
def the_epoch_counter_of_the_pretraining(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop goes from the checkpoint's epoch to the last one, but of the checkpoint only the counter was loaded."""
    data = diabetes(seed)
    model = dense(10, 32, 1, between=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=4e-3, momentum=0.5)
    first = 32 if sick else 0
    session = watch(model, optimizer)
    for _ in range(first, 40):
        for patients, progress in data.batches(40, 9):
            optimizer.zero_grad()
            found = model(patients)
            loss = functional.mse_loss(found, progress)
            loss.backward()
            session.step(loss, inputs=patients, outputs=found, targets=progress)
            optimizer.step()
    return r_squared(model, data)
