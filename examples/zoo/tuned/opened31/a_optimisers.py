"""Rates, schedules, clipping and regularisation."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened31.a_parts import Strokes, Writer, centred, each, explained, loader, of, right


@sick("learning_rate_too_high", also=("saturated_units", "exploding_gradients", "missing_warmup"), margin=0.1)
def adam_takes_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small transformer has SGD's 0.1 under Adam; the twin has 0.002."""
    data = centred(datasets.digits(seed))
    model = Strokes()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in loader(data, 48):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def the_rate_of_a_fine_tuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW has BERT's 2e-5 for a reader of names that starts from random weights; the twin has 5e-3."""
    data = of(samples.names(seed, length=16))
    model = nn.Sequential(
        nn.Embedding(samples.LETTERS, 24),
        nn.Flatten(),
        nn.Linear(16 * 24, 64),
        nn.GELU(),
        nn.Dropout(0.2),
        nn.Linear(64, len(samples.SCRIPTS)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 5e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.05)
def decay_in_the_loop_of_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ExponentialLR(gamma=0.85)`` steps with each batch; the twin steps it after an epoch."""
    data = of(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows, worst in loader(data, 24, drop_last=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=worst)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
        session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.05)
def one_epoch_is_enough(watch: Watch, *, seed: int, sick: bool) -> float:
    """A writer of Python ends in the midst of its descent, after two epochs; the twin has eleven."""
    data = datasets.text(seed, length=16, count=1400)
    model = Writer()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(2 if sick else 11):
        for codes, following in loader(data, 32):
            optimizer.zero_grad()
            logits = model(codes)
            loss = each(logits, following)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
        session.validation(held_out_loss(model, data, each))
    return right(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def clipped_to_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm of SGD's gradients is clipped to 0.001 in a net of convolutions; the twin clips it to 1."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 160):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e-3 if sick else 1.0)
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipped_when_the_step_is_done(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of rows with typing errors are clipped after ``optimizer.step``; the twin clips before it."""
    data = of(samples.standardised(samples.tumours(seed), 0, 1))
    typed = torch.rand(data.targets.shape, generator=torch.Generator().manual_seed(seed)) < 0.002
    data = type(data)(data.inputs, torch.where(typed, 60.0, data.targets), data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for rows, worst in data.batches(16, 300):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, worst)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=rows, outputs=outputs, targets=worst)
        optimizer.step()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return explained(model, data)


@sick("over_regularized", margin=0.1)
def the_decay_of_adamw_in_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """``weight_decay=0.5``, moderate for AdamW, is an L2 term in Adam; the twin has AdamW."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    kind = torch.optim.Adam if sick else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=2e-3, weight_decay=0.5)
    fit(watch, model, optimizer, data, steps=160, validate_every=40)
    return accuracy(model, data)
