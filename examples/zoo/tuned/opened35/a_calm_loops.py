"""Sound trainings whose loops look odd: restarts, lessons, tiny batches, parts that stay, and masks."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened35.a_common import Spelling, columns, explained, images, joined, seeing, turned


@healthy(at_least=0.85)
def warm_restarts_of_a_forecast(watch: Watch, *, seed: int) -> float:
    """The rate falls to almost nothing and starts again, five times."""
    data = columns(seed)
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 60)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, scheduler=scheduler)
    return explained(model, data)


@healthy(at_least=0.6)
def short_names_before_long_ones(watch: Watch, *, seed: int) -> float:
    """Short names come first, then longer ones, so the loss rises with each lesson."""
    data = joined(samples.names(seed))
    lengths = (data.inputs > 0).sum(1)
    model = Spelling(samples.LETTERS, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for longest in (12, 16, 24, 24):
        chosen = lengths <= longest
        lesson = Data(data.inputs[chosen], data.targets[chosen], data.test_inputs, data.test_targets)
        for names, labels in lesson.batches(32, 50):
            optimizer.zero_grad()
            logits = model(names)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@healthy(at_least=0.9)
def three_wines_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of three make a loss that jumps about; layer norms do not mind."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=350, batch_size=3, validate_every=70)
    return accuracy(model, data)


@healthy(at_least=0.85)
def features_that_stay_random(watch: Watch, *, seed: int) -> float:
    """300 random features stay as they were drawn, and a linear layer learns from them."""
    data = images(seed, noise=0.3)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 300), nn.ReLU()).requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(300, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.6)
def counts_that_are_mostly_zero(watch: Watch, *, seed: int) -> float:
    """Four in five counts of characters are 0, and some characters never come."""
    drawn = joined(samples.lines(seed))
    data = Data(drawn.inputs.sqrt(), drawn.targets, drawn.test_inputs.sqrt(), drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.5), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.2)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.8)
def a_body_whose_norms_stay_in_eval_mode(watch: Watch, *, seed: int) -> float:
    """A body that told quarters of a turn is tuned to digits, while its norms keep their statistics on purpose."""
    old, data = turned(seed), images(seed, noise=0.3)
    body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    first = nn.Sequential(body, nn.Linear(144, 4))
    optimizer = torch.optim.Adam(first.parameters(), lr=3e-3)
    for pixels, labels in old.batches(32, 100):
        optimizer.zero_grad()
        functional.cross_entropy(first(pixels), labels).backward()
        optimizer.step()
    model = nn.Sequential(body, nn.Linear(144, 10))
    body[1].requires_grad_(False)
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        body[1].eval()
        for pixels, labels in data.batches(32, 42):
            optimizer.zero_grad()
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@healthy(at_least=0.65)
def pixels_that_were_hidden(watch: Watch, *, seed: int) -> float:
    """A third of the pixels is hidden by zeros, and the loss sees these alone, as in a masked autoencoder."""
    data = images(seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for images_, _ in data.batches(64, 350):
        pixels = images_.flatten(1)
        hidden = torch.rand_like(pixels) < 0.33
        outputs = model(pixels.masked_fill(hidden, 0))
        loss = (outputs - pixels)[hidden].square().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    test = data.test_inputs.flatten(1)
    hidden = torch.rand(test.shape, generator=torch.Generator().manual_seed(seed)) < 0.33
    with torch.no_grad():
        error = (model(test.masked_fill(hidden, 0)) - test)[hidden].square().mean()
    return (1 - error / test[hidden].var()).item()


@healthy(at_least=0.85)
def rare_eights_drawn_more_often(watch: Watch, *, seed: int) -> float:
    """One digit in twelve is an eight, and a sampler draws, with replacement, as many of them as of others."""
    drawn = images(seed, noise=0.3)
    data = Data(drawn.inputs, (drawn.targets == 8).long(), drawn.test_inputs, (drawn.test_targets == 8).long())
    weights = 1.0 / data.targets.bincount()[data.targets].float()
    loader = DataLoader(
        TensorDataset(data.inputs, data.targets), 32, sampler=WeightedRandomSampler(weights, len(weights))
    )
    model = seeing(2, width=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for _ in range(5):
        for pixels, labels in loader:
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
    found = predicted(model, data.test_inputs).argmax(1)
    return sum((found[data.test_targets == kind] == kind).float().mean().item() for kind in (0, 1)) / 2


@healthy(at_least=0.6)
def eight_small_batches_averaged(watch: Watch, *, seed: int) -> float:
    """Gradients of eight batches of 4 are averaged for one step, with a warm-up and a fall of the rate."""
    data = joined(samples.names(seed))
    model = Spelling(samples.LETTERS, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=100)
    session = watch(model, optimizer)
    for index, (names, labels) in enumerate(data.batches(4, 800), 1):
        logits = model(names)
        loss = functional.cross_entropy(logits, labels) / 8
        loss.backward()
        if index % 8 == 0:
            session.step(loss * 8, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return accuracy(model, data)
