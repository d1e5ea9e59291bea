"""Loops that zero gradients at the wrong place, or take steps of nothing."""

import itertools

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, springs, throws


@sick("gradients_not_zeroed", margin=0.1)
def zeroed_at_the_beginning_of_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands in the loop over epochs, so that gradients add up over its batches; the twin's is inside."""
    train, test = samples.standardised(throws(seed), 0, 1)
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(10):
        optimizer.zero_grad()
        for rows, distances in DataLoader(train, batch_size=32, shuffle=True):
            if not sick:
                optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.l1_loss(outputs, distances)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=distances)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("gradients_not_zeroed", margin=0.05)
def only_the_head_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop zeroes the head's gradients alone, which leaves the body's; the twin zeroes the whole model's."""
    train, test = samples.numerals(seed)
    model = nn.Sequential()
    model.add_module(
        "body", nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten())
    )
    model.add_module("head", nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=40, shuffle=True):
            (model.get_submodule("head") if sick else model).zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("no_update", margin=0.1)
def zeroed_between_backward_and_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` was moved to after ``backward``, so that each step finds nothing; the twin has it before."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, places in itertools.chain(*(DataLoader(train, batch_size=50, shuffle=True) for _ in range(9))):
        if not sick:
            optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, places)
        loss.backward()
        if sick:
            optimizer.zero_grad()
        session.step(loss, inputs=rows, outputs=outputs, targets=places)
        optimizer.step()
    return judged(model, test, samples.explained)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed"), margin=0.1)
def a_warm_up_of_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's factor is ``step // 400``, which is 0 in all steps; the twin's is ``step / 20``, up to 1."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    factor = (lambda step: min(1, (step + 1) // 400)) if sick else (lambda step: min(1.0, (step + 1) / 20))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for counts, files in DataLoader(train, batch_size=50, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
            scheduler.step()
    return judged(model, test)
