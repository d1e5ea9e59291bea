"""How fast a training goes: learning rates, schedules, warm-up and when it ends."""

import math
from itertools import islice

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import diabetes, digits
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    RowReader,
    Tagger,
    cells,
    convnet,
    explained,
    f1,
    mlp,
    scaled,
    scanlines,
    snippets,
    tagged,
    warmup_cosine,
)  # fmt: skip


@sick("learning_rate_too_high")
def momentum_came_without_a_smaller_rate(watch: Watch, *, seed, sick):
    """The rate of plain SGD stayed when momentum and Nesterov were switched on."""
    data = digits(seed, images=True)
    model = convnet(12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.8 if sick else 0.05, momentum=0.9, nesterov=True)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=50)
    return accuracy(model, data)


@sick("learning_rate_too_high")
def recurrent_rate_from_a_sweep_of_sgd(watch: Watch, *, seed, sick):
    data = digits(seed)
    data = type(data)(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    model = RowReader(nn.LSTM, 8, 48)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.3 if sick else 0.005)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 200):
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_high")
def table_that_jumps_about(watch: Watch, *, seed, sick):
    """A regression whose rate was copied from another one with a hundred times smaller features."""
    data = scaled(cells(seed), targets=True)
    model = mlp(20, 48, 48, 1, activation=nn.Tanh)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.25 if sick else 0.003)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.smooth_l1_loss, validate_every=25)
    return r_squared(model, data)


@sick("learning_rate_too_low")
def fine_tuning_rate_for_a_new_model(watch: Watch, *, seed, sick):
    """2e-5 is the habit for a pretrained transformer; this one starts from nothing."""
    data = tagged(seed)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 2e-3, weight_decay=0.01)

    def criterion(logits, tags):
        return functional.cross_entropy(logits.flatten(0, 1), tags.flatten())

    fit(watch, model, optimizer, data, steps=160, batch_size=32, loss_function=criterion, validate_every=40)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def plain_gradient_descent_with_the_rate_of_adam(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    model = convnet(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-4 if sick else 0.1)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(64, 260)):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        if step % 65 == 64:
            with session.validating():
                session.validation(held_out_loss(model, data), metrics={"accuracy": accuracy(model, data)})
    return accuracy(model, data)


@sick("schedule_collapsed")
def decay_of_an_epoch_at_every_batch(watch: Watch, *, seed, sick):
    data = digits(seed)
    model = mlp(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = ExponentialLR(optimizer, gamma=0.85)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows in torch.randperm(len(data.inputs)).split(64):
            optimizer.zero_grad()
            logits = model(data.inputs[rows])
            loss = functional.cross_entropy(logits, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=data.targets[rows])
            optimizer.step()
            if sick:
                scheduler.step()
        session.validation(held_out_loss(model, data))
        if not sick:
            scheduler.step()
    return accuracy(model, data)


@sick("schedule_collapsed")
def linear_decay_over_epochs_counted_in_steps(watch: Watch, *, seed, sick):
    """The decay is to end with the last of 12 epochs, but it is given the number of epochs and stepped by batch."""
    data = tagged(seed)
    model, epochs, batches = Tagger(), 12, 14
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    total = epochs if sick else epochs * batches
    scheduler = LambdaLR(optimizer, lambda step: max(1e-4, 1 - step / total))

    def criterion(logits, tags):
        return functional.cross_entropy(logits.transpose(1, 2), tags)

    fit(
        watch, model, optimizer, data, steps=epochs * batches, batch_size=64, loss_function=criterion,
        scheduler=scheduler, validate_every=batches,
    )  # fmt: skip
    return accuracy(model, data)


class Rows(nn.Module):
    """A transformer over the rows of a digit after the original recipe: a norm behind each block."""

    def __init__(self, width: int = 24, layers: int = 6) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.2)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.enter(images[:, 0]) + self.places).mean(1))


@sick("missing_warmup")
def post_norm_transformer_without_its_ramp(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    model, steps = Rows(), 130
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.98))
    scheduler = warmup_cosine(optimizer, 1 if sick else 65, steps)
    fit(watch, model, optimizer, data, steps=steps, batch_size=24, scheduler=scheduler)
    return accuracy(model, data)


@sick("missing_warmup")
def deep_network_at_its_full_rate_from_the_start(watch: Watch, *, seed, sick):
    """The recipe for large batches ramps the rate over five epochs; the port begins at its top."""
    data = digits(seed)
    model, steps = mlp(64, *[64] * 8, 10), 160
    for layer in model[::2]:
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(64, steps)):
        ramp = 1.0 if sick else min(1.0, (step + 1) / 80)
        for group in optimizer.param_groups:
            group["lr"] = 0.15 * ramp * 0.5 * (1 + math.cos(math.pi * step / steps))
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("stopped_too_early")
def steps_where_epochs_were_meant(watch: Watch, *, seed, sick):
    """``max_steps`` got the number of epochs."""
    data = digits(seed, images=True)
    model = convnet(16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    epochs = 14
    fit(watch, model, optimizer, data, steps=epochs if sick else epochs * 22, batch_size=64, validate_every=7)
    return accuracy(model, data)


@sick("stopped_too_early")
def patience_of_a_single_validation(watch: Watch, *, seed, sick):
    """Early stopping looks at every fifth step of a noisy validation of 24 rows, and gives up at the first rise."""
    data = snippets(seed)
    model = nn.Sequential(
        nn.Embedding(98, 24), Transposed(), nn.Conv1d(24, 64, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1),
        nn.Flatten(), nn.Linear(64, 6),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    best, patience = math.inf, 1 if sick else 40
    left = patience
    batches = data.batches(32, 300)
    while left > 0 and (chunk := list(islice(batches, 5))):
        for codes, labels in chunk:
            optimizer.zero_grad()
            logits = model(codes)
            loss = functional.binary_cross_entropy_with_logits(logits, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
        rows = torch.randperm(len(data.test_inputs))[:24]
        with session.validating():
            now = functional.binary_cross_entropy_with_logits(
                predicted(model, data.test_inputs[rows]), data.test_targets[rows]
            ).item()
        session.validation(now)
        left = patience if now < best else left - 1
        best = min(best, now)
    return f1(predicted(model, data.test_inputs), data.test_targets)


class Transposed(nn.Module):
    """Swaps positions and channels."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.transpose(1, 2)


@sick("learning_rate_too_low")
def rate_for_targets_that_were_never_rescaled(watch: Watch, *, seed, sick):
    """A GRU on strips of photographs; its config says 1e-6 since somebody saw it diverge on raw pixels."""
    data = scanlines(seed)
    model = RowReader(nn.GRU, 6, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=50, loss_function=functional.mse_loss, validate_every=60)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("learning_rate_too_high")
def tabular_gradient_descent_that_overshoots(watch: Watch, *, seed, sick):
    """Full-batch descent on the patients' table, beyond the largest stable step."""
    data = diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.6 if sick else 0.05)
    fit(watch, model, optimizer, data, steps=150, batch_size=400, loss_function=functional.mse_loss)
    return r_squared(model, data) + 0.4  # half of the variance is noise
