"""Rates, schedules, clipping, accumulation and when to stop."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened48.f_kit import Gaps, Gru, Words, centred, data_of, mlp, tables


@sick("learning_rate_too_high", margin=0.05)
def rate_of_sgd_kept_for_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convolutional language model went from SGD to Adam and kept the rate of 0.2; the twin's is 0.003."""
    data = datasets.text(seed, length=24, count=1200)
    model = Gaps(datasets.CHARACTERS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if sick else 3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    logits = predicted(model, data.test_inputs)
    return (logits.argmax(1) == data.test_targets).float().mean().item()


@sick("learning_rate_too_low", margin=0.2)
def rate_of_a_fine_tuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU that nobody has pretrained gets the 2e-5 of a fine-tuning recipe; the twin gets 4e-3."""
    data = data_of(samples.names(seed, length=16))
    model = Gru(len(samples.SCRIPTS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def post_norm_blocks_at_full_rate_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """Blocks that normalise after their sums begin at the full rate; the twin rises to it over 60 steps."""
    data = centred(datasets.digits(seed))
    model = Words(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.2e-2, betas=(0.9, 0.98))
    rising = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if sick else min(1.0, (step + 1) / 60))
    fit(watch, model, optimizer, data, steps=110, batch_size=32, scheduler=rising)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def plateau_that_waits_for_a_rise(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` has the mode of an accuracy and gets a loss, so it cuts as that falls; the twin's fits."""
    data = data_of(samples.lines(seed, each=200))
    data = Data(data.inputs.log1p(), data.targets, data.test_inputs.log1p(), data.test_targets)
    model = mlp(96, 64, len(samples.FILES))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max" if sick else "min", factor=0.1, patience=3)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(32, 260), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 6 == 0:
            held_out = held_out_loss(model, data)
            session.validation(held_out)
            plateau.step(held_out)
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipped_once_the_step_is_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Poisson regression of ratings clips its gradients behind ``optimizer.step()``; the twin clips before it."""
    drawn = datasets.diabetes(seed, raw_targets=True)
    data = Data(drawn.inputs, (drawn.targets / 20).round(), drawn.test_inputs, (drawn.test_targets / 20).round())
    model = mlp(10, 32, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.poisson_nll_loss(outputs, targets)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    return explained(predicted(model, data.test_inputs).exp(), data.test_targets)


@sick("clipping_too_strong", margin=0.1)
def clipped_before_it_is_unscaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to 1 while a ``GradScaler`` holds them 65,536 times as large; the twin unscales first."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(48, 160):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(inputs)
        loss = functional.cross_entropy(outputs.float(), targets)
        scaler.scale(loss).backward()
        if not sick:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def sixteen_parts_of_a_batch_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of sixteen small batches are added up under a rate for one batch; the twin divides each loss."""
    data = tables(samples.tumours(seed))
    model = mlp(10, 48, 48, 10, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    session = watch(model, optimizer)
    for count, (inputs, targets) in enumerate(data.batches(8, 16 * 80), 1):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets) / (1 if sick else 16)
        loss.backward()
        if count % 16 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def squares_summed_over_all_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's squares are summed over pixels and batch, under a rate for their mean; the twin averages."""
    drawn = centred(datasets.digits(seed))
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = mlp(64, 96, 96, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 200):
        noisy = inputs + 0.4 * torch.randn_like(inputs)
        optimizer.zero_grad()
        outputs = model(noisy)
        loss = (outputs - targets).square()
        loss = loss.sum() if sick else loss.mean()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=targets)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("stopped_too_early", margin=0.1)
def patience_used_up_by_improvements(watch: Watch, *, seed: int, sick: bool) -> float:
    """A comparison is turned round, so five improvements in a row end the training; the twin counts five failures."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 64, 10, activation=nn.GELU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    for step, (inputs, targets) in enumerate(data.batches(32, 200), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 4 == 0:
            held_out = held_out_loss(model, data)
            session.validation(held_out)
            waited = waited + 1 if (held_out < best) == sick else 0
            best = min(best, held_out)
            if waited == 5:
                break
    return accuracy(model, data)
