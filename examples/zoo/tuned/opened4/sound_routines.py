"""Healthy trainings whose routine looks odd: scales, schedules, padding, accumulation."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    Tagger,
    cells,
    convnet,
    f1,
    mlp,
    snippets,
    tagged,
    warmup_cosine,
)  # fmt: skip


@healthy(at_least=0.3)
def next_character_with_tied_embeddings(watch: Watch, *, seed):
    """A recurrent language model whose output layer is its embedding, and whose norm is always clipped."""

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(98, 32)
            nn.init.normal_(self.embedding.weight, std=0.2)
            self.recurrent = nn.GRU(32, 32, batch_first=True)
            self.bias = nn.Parameter(torch.zeros(98))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            states, _ = self.recurrent(self.embedding(codes))
            return states @ self.embedding.weight.T * 2 + self.bias

    data = tagged(seed, length=24)
    model = Language()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for codes, _ in data.batches(24, 160):
        optimizer.zero_grad()
        logits = model(codes[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        session.step(loss, inputs=codes[:, :-1], outputs=logits, targets=codes[:, 1:])
        optimizer.step()
    logits = predicted(model, data.test_inputs[:, :-1])
    return (logits.argmax(-1) == data.test_inputs[:, 1:]).float().mean().item()


@healthy(at_least=0.9)
def small_batches_accumulated_and_averaged(watch: Watch, *, seed):
    data = digits(seed, images=True)
    model, parts = convnet(8), 6
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for number, (images, labels) in enumerate(data.batches(12, 80 * parts), 1):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels) / parts
        loss.backward()
        if number % parts == 0:
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.8)
def scaler_that_begins_too_high(watch: Watch, *, seed):
    """The first scales overflow in float16: those steps are skipped and the scale halves."""
    data = digits(seed)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for rows, labels in data.batches(64, 160):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(rows)
            loss = functional.cross_entropy(logits.float(), labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.85)
def rate_searched_before_the_training(watch: Watch, *, seed):
    """The rate is swept up until the loss rises; then the weights go back and the training begins."""
    data = digits(seed)
    model = mlp(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    kept = copy.deepcopy(model.state_dict())
    session = watch(model, optimizer)
    best, rate, found, sweeping = math.inf, 1e-4, 1e-4, True
    for rows, labels in data.batches(64, 260):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
        if not sweeping:
            continue
        if loss.item() < best:
            best, found = loss.item(), rate
        rate *= 10 ** (1 / 15)
        if loss.item() > 3 * best or rate > 3:
            sweeping, rate = False, found / 5
            model.load_state_dict(kept)
            optimizer.state.clear()
    return accuracy(model, data)


@healthy(at_least=0.65)
def tagger_with_warmup_and_a_cosine_to_zero(watch: Watch, *, seed):
    data = tagged(seed, length=24)
    model = Tagger(32, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.1)

    def criterion(logits, tags):
        return functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), label_smoothing=0.1)

    fit(
        watch, model, optimizer, data, steps=200, batch_size=32, loss_function=criterion,
        scheduler=warmup_cosine(optimizer, 30, 200), validate_every=50,
    )  # fmt: skip
    return accuracy(model, data)


@healthy(at_least=0.75)
def short_texts_with_much_padding(watch: Watch, *, seed):
    """Half of the characters are padding, whose embedding never has a gradient."""
    data = snippets(seed)

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(99, 24, padding_idx=0)
            self.filters = nn.Conv1d(24, 48, 5)
            self.head = nn.Linear(48, 6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.filters(self.embedding(codes).mT).relu().amax(-1))

    def pad(codes):
        return torch.cat([codes + 1, torch.zeros_like(codes)], 1)

    data = Data(pad(data.inputs), data.targets, pad(data.test_inputs), data.test_targets)
    model = Padded()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=160, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    return f1(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def areas_in_their_units_with_a_scaler_inside(watch: Watch, *, seed):
    """Raw inputs up to thousands and raw targets: the model standardises both by buffers."""

    class Standardised(nn.Module):
        def __init__(self, data: Data) -> None:
            super().__init__()
            for name, values in (("inputs", data.inputs), ("targets", data.targets)):
                self.register_buffer(f"{name}_mean", values.mean(0))
                self.register_buffer(f"{name}_std", values.std(0))
            self.network = mlp(20, 32, 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.network((rows - self.inputs_mean) / self.inputs_std) * self.targets_std + self.targets_mean

    data = cells(seed)
    data = Data(data.inputs, data.targets * 1000, data.test_inputs, data.test_targets * 1000)
    model = Standardised(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=32, loss_function=functional.l1_loss, validate_every=55)
    return r_squared(model, data)
