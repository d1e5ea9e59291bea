"""Loops of training in which a line is missing, twice there, or in the wrong place."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened41.a_optimising_small_networks import CharacterModel


@sick("gradients_not_zeroed", margin=0.05)
def denoising_without_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoising autoencoder's loop never calls ``zero_grad``; the twin's does."""
    train, test = samples.numerals(seed)
    clean, held_out = train.tensors[0].flatten(1), test.tensors[0].flatten(1)
    model = nn.Sequential(nn.Linear(64, 48), nn.ELU(), nn.Linear(48, 24), nn.ELU(), nn.Linear(24, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(clean)).split(64):
            noisy = clean[rows] + 0.3 * torch.randn(len(rows), 64)
            outputs = model(noisy)
            loss = functional.mse_loss(outputs, clean[rows])
            if not sick:
                optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean[rows])
            optimizer.step()
    return samples.explained(predicted(model, held_out), held_out)


@sick("parameters_not_in_optimizer", margin=0.05)
def head_replaced_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network for even and odd gets a head for ten digits after its optimizer was made; the twin's before."""
    data = datasets.digits(seed, images=True)
    inputs, test = ((part - 0.3) / 0.37 for part in (data.inputs, data.test_inputs))
    model = nn.Sequential()
    model.add_module("features", nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()))
    model.add_module("hidden", nn.Sequential(nn.Linear(256, 8), nn.Tanh()))
    model.add_module("fc", nn.Linear(8, 2))
    pretraining = torch.optim.Adam(model.parameters(), lr=3e-3)
    for rows in torch.randperm(len(inputs)).split(64):
        pretraining.zero_grad()
        functional.cross_entropy(model(inputs[rows]), data.targets[rows] % 2).backward()
        pretraining.step()
    if not sick:
        model.fc = nn.Linear(8, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    if sick:
        model.fc = nn.Linear(8, 10)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            logits = model(inputs[rows])
            loss = functional.cross_entropy(logits, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=inputs[rows], outputs=logits, targets=data.targets[rows])
            optimizer.step()
    return samples.accuracy(predicted(model, test), data.test_targets)


@sick("no_update", margin=0.2)
def accumulation_longer_than_the_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Steps come after 32 batches, but each epoch has 14 and begins with ``zero_grad``; the twin's after two."""
    data = datasets.breast_cancer(seed)
    accumulate = 32 if sick else 2
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    with torch.no_grad():
        model[2].weight.mul_(0.1)
    for _ in range(12):
        optimizer.zero_grad()
        for index, rows in enumerate(torch.randperm(len(data.inputs)).split(32), 1):
            logits = model(data.inputs[rows])
            loss = functional.cross_entropy(logits, data.targets[rows])
            (loss / accumulate).backward()
            session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=data.targets[rows])
            if index % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def characters_clipped_to_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A character model's gradients are clipped to a norm of 0.001; the twin's to 1."""
    data = datasets.text(seed, length=16)
    model = CharacterModel(64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.8)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300, eta_min=2e-4)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 300):
        optimizer.zero_grad()
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.001 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=logits, targets=targets)
        optimizer.step()
        scheduler.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("schedule_collapsed", also=("stopped_too_early",), margin=0.1)
def exponential_decay_with_every_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ExponentialLR`` with 0.8, meant for epochs, steps with every batch; the twin steps it with every epoch."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    session = watch(model, optimizer)
    counts, labels = train.tensors
    for _ in range(8):
        for rows in torch.randperm(len(counts)).split(32):
            optimizer.zero_grad()
            logits = model(counts[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            loss.backward()
            session.step(loss, inputs=counts[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("stopped_too_early", margin=0.05)
def early_stopping_on_single_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training stops once a batch's loss is worse than the best, five times; the twin looks at validations."""
    data = datasets.digits(seed)
    inputs, test = ((part - 0.3) / 0.37 for part in (data.inputs, data.test_inputs))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.7)
    session = watch(model, optimizer)
    best, worse = float("inf"), 0
    for _ in range(16):
        for rows in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            logits = model(inputs[rows])
            loss = functional.cross_entropy(logits, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=inputs[rows], outputs=logits, targets=data.targets[rows])
            optimizer.step()
            if sick:
                worse += loss.item() > best
                best = min(best, loss.item())
            if worse >= 5:
                break
        validation = functional.cross_entropy(predicted(model, test), data.test_targets).item()
        session.validation(validation)
        if not sick:
            worse = worse + 1 if validation > best else 0
            best = min(best, validation)
        if worse >= 5:
            break
    return samples.accuracy(predicted(model, test), data.test_targets)
