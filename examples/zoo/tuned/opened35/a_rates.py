"""Rates, schedules, clipping and accumulation, mostly in models that say of what kind each character of a source is."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened35.a_common import (
    Attending,
    Reading,
    Spelling,
    columns,
    explained,
    joined,
    place_accuracy,
    place_loss,
    tagged,
)


@sick("learning_rate_too_high", margin=0.05)
def attention_with_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam is put in the place of SGD, and keeps its 0.1; the twin has 0.003."""
    data = tagged(seed)
    model = Attending(first=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 180)
    fit(watch, model, optimizer, data, steps=180, batch_size=32, loss_function=place_loss, scheduler=scheduler)
    return place_accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def a_fresh_model_with_the_rate_for_fine_tuning(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model that begins at random gets the 2e-5 with which large ones are fine-tuned; the twin has 0.003."""
    data = joined(samples.names(seed))
    model = Spelling(samples.LETTERS, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3)
    session = watch(model, optimizer)
    for step, (names, labels) in enumerate(data.batches(32, 150), 1):
        logits = model(names)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=names, outputs=logits, targets=labels)
        optimizer.step()
        if step % 30 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",))
def norms_behind_the_sums(watch: Watch, *, seed: int, sick: bool) -> float:
    """Five layers with norms behind their sums get the whole rate at once; the twin warms up for 80 steps."""
    data = tagged(seed)
    model = Attending(layers=4, first=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2)
    session = watch(model, optimizer)
    for step, (characters, kinds) in enumerate(data.batches(24, 160)):
        for group in optimizer.param_groups:
            rise = 1.0 if sick else min(1.0, (step + 1) / 80)
            group["lr"] = 1.5e-2 * rise * min(1.0, (160 - step) / 80)
        logits = model(characters)
        loss = place_loss(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=characters, outputs=logits, targets=kinds)
        optimizer.step()
    return place_accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low", "no_update"), margin=0.05)
def a_polynomial_of_epochs_stepped_by_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """A polynomial that ends after 5 epochs is stepped with each batch; the twin counts batches."""
    data = tagged(seed)
    model = Reading()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=5 if sick else 5 * 38, power=0.9)
    fit(watch, model, optimizer, data, steps=5 * 38, batch_size=32, loss_function=place_loss, scheduler=scheduler)
    return place_accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def patience_for_gains_of_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """A training stops at the first epoch that is not better by 0.5; the twin waits for three that are not better."""
    data = tagged(seed)
    model = Reading()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    for _ in range(7):
        for characters, kinds in data.batches(32, 38):
            optimizer.zero_grad()
            logits = model(characters)
            loss = place_loss(logits, kinds)
            loss.backward()
            session.step(loss, inputs=characters, outputs=logits, targets=kinds)
            optimizer.step()
        reached = held_out_loss(model, data, place_loss)
        session.validation(reached)
        waited = 0 if reached < best - (0.5 if sick else 0.0) else waited + 1
        best = min(best, reached)
        if waited >= (1 if sick else 3):
            break
    return place_accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def each_value_cut_at_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` gets 1e-5, as if it were a tolerance; the twin cuts at 1."""
    data = tagged(seed)
    model = Reading()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for characters, kinds in data.batches(32, 200):
        optimizer.zero_grad()
        logits = model(characters)
        loss = place_loss(logits, kinds)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-5 if sick else 1.0)
        session.step(loss, inputs=characters, outputs=logits, targets=kinds)
        optimizer.step()
    return place_accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def parameters_that_were_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.parameters()`` is kept, and the optimizer uses it up, so nothing is clipped; the twin keeps a list."""
    data = columns(seed, length=40)

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader, self.head = nn.RNN(1, 64, nonlinearity="relu", batch_first=True), nn.Linear(64, 3)
            nn.init.orthogonal_(self.reader.weight_hh_l0)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(pixels[..., None])[0][:, -1])

    model = Forecast()
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.2, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, following in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.mse_loss(outputs, following)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.2)
        session.step(loss, inputs=pixels, outputs=outputs, targets=following)
        optimizer.step()
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def sixteen_small_batches_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen batches of 4 are added where one of 64 fitted, at its rate; the twin divides by 16."""
    data = joined(samples.names(seed))
    model = Spelling(samples.LETTERS, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for index, (names, labels) in enumerate(data.batches(4, 16 * 100), 1):
        logits = model(names)
        loss = functional.cross_entropy(logits, labels)
        (loss if sick else loss / 16).backward()
        if index % 16 == 0:
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("no_update", margin=0.1)
def gradients_thrown_away_before_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands between ``backward`` and ``step``; the twin has it behind the step."""
    data = columns(seed)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pixels, following in data.batches(64, 250):
        outputs = model(pixels)
        loss = functional.mse_loss(outputs, following)
        loss.backward()
        if sick:
            optimizer.zero_grad(set_to_none=False)
        session.step(loss, inputs=pixels, outputs=outputs, targets=following)
        optimizer.step()
        if not sick:
            optimizer.zero_grad(set_to_none=False)
    return explained(model, data)
