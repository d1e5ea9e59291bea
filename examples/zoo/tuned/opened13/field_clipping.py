"""Gradients that are clipped in vain or too much, or added up without a mean."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, springs, throws


def _cubed(seed: int) -> samples.Pair:
    """Throws with standardised columns, and the cube of the distance in units of its deviation: a few are far away."""
    train, test = samples.standardised(throws(seed), 0)
    parts = [TensorDataset(part.tensors[0], (part.tensors[1] / 20) ** 3) for part in (train, test)]
    scale = parts[0].tensors[1].std()
    cubes = [TensorDataset(part.tensors[0], 8 * part.tensors[1] / scale) for part in parts]
    return cubes[0], cubes[1]


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def a_generator_that_was_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer uses up the generator of parameters, so that clipping gets none; the twin keeps a list."""
    train, test = _cubed(seed)
    model = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, cubes in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, cubes)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 2.0)
            session.step(loss, inputs=rows, outputs=outputs, targets=cubes)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipped_when_the_step_is_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped after ``optimizer.step()``, which is too late; the twin clips them before."""
    train, test = _cubed(seed)
    model = nn.Sequential(nn.Linear(3, 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, cubes in DataLoader(train, batch_size=32, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, cubes)
            optimizer.zero_grad()
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 3.0)
            session.step(loss, inputs=rows, outputs=outputs, targets=cubes)
            optimizer.step()
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    return judged(model, test, samples.explained)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def values_clipped_at_a_weight_decay(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` gets 1e-5, which was meant for the weight decay; the twin clips values at 0.1."""
    train, test = samples.scenes(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1e-5 if sick else 0.1)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def a_norm_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm of all gradients is clipped to 0.001, as for a net with summed losses; the twin clips it to 1."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, places in DataLoader(train, batch_size=50, shuffle=True):
            outputs = model(rows)
            loss = functional.smooth_l1_loss(outputs, places)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
            session.step(loss, inputs=rows, outputs=outputs, targets=places)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.1)
def sixteen_rows_at_a_time_for_memory(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch of 128 was cut into eight of 16, whose losses are added up; the twin divides each loss by eight."""
    images, labels = (torch.cat(part) for part in zip(*(p.tensors for p in samples.numerals(seed)), strict=True))
    train, test = samples.split(seed, images, labels)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.9)
    session = watch(model, optimizer)
    seen = 0
    for _ in range(9):
        for rows, numbers in DataLoader(train, batch_size=16, shuffle=True, drop_last=True):
            logits = model(rows)
            loss = functional.cross_entropy(logits, numbers)
            (loss if sick else loss / 8).backward()
            seen += 1
            if seen % 8 == 0:
                session.step(loss, inputs=rows, outputs=logits, targets=numbers)
                optimizer.step()
                optimizer.zero_grad()
    return judged(model, test)
