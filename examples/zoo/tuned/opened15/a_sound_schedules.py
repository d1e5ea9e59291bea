"""Sound trainings whose rates jump, restart, or end at zero, and which stop and go on."""

import copy
import io
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened15.a_motion import released, swing


@healthy(at_least=0.9)
def warm_restarts_of_a_cosine(watch: Watch, *, seed: int) -> float:
    """SGDR: the rate falls to zero and jumps up again three times, and the loss jumps with it."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 40, 2)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 280):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def one_cycle_to_a_ten_thousandth(watch: Watch, *, seed: int) -> float:
    """One cycle: the rate grows for a third of the steps, then falls to a ten-thousandth, on purpose."""
    train, test = samples.names(seed)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 16), nn.Flatten(), nn.Dropout(0.3), nn.Linear(384, 40))
    model.extend([nn.ReLU(), nn.Linear(40, len(samples.SCRIPTS))])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    loader = DataLoader(train, batch_size=44, shuffle=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, epochs=14, steps_per_epoch=len(loader))
    session = watch(model, optimizer)
    for _ in range(14):
        for names, labels in loader:
            logits = model(names)
            loss = functional.cross_entropy(logits, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def resumed_in_the_middle(watch: Watch, *, seed: int) -> float:
    """A training goes on from a checkpoint of weights, optimizer and schedule: the loss begins low and falls little."""
    paths = swing(released(seed, 900), 8)
    train, test = samples.split(seed, paths[:, 0], paths[:, -1])
    loader = DataLoader(train, batch_size=42, shuffle=True)

    def made() -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
        optimizer = torch.optim.NAdam(model.parameters(), lr=4e-3)
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 24)

    model, optimizer, scheduler = made()
    for _ in range(8):
        for states, ends in loader:
            optimizer.zero_grad()
            functional.mse_loss(model(states), ends).backward()
            optimizer.step()
        scheduler.step()
    file = io.BytesIO()
    torch.save([one.state_dict() for one in (model, optimizer, scheduler)], file)
    file.seek(0)
    model, optimizer, scheduler = made()
    of_model, of_optimizer, of_scheduler = torch.load(file, weights_only=False)
    model.load_state_dict(of_model)
    optimizer.load_state_dict(of_optimizer)
    scheduler.load_state_dict(of_scheduler)
    session = watch(model, optimizer)
    for _ in range(16):
        for states, ends in loader:
            outputs = model(states)
            loss = functional.mse_loss(outputs, ends)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=states, outputs=outputs, targets=ends)
            optimizer.step()
        scheduler.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.6)
def thawed_layer_by_layer(watch: Watch, *, seed: int) -> float:
    """A net that knows six scripts learns all eight: first a new head, then one layer after another below it."""
    train, test = samples.names(seed)
    known = train.tensors[1] < 6
    body = nn.Sequential(nn.Embedding(samples.LETTERS, 20), nn.Flatten(), nn.Linear(480, 48), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(10):
        for rows in torch.randperm(int(known.sum())).split(48):
            optimizer.zero_grad()
            codes, labels = train.tensors[0][known][rows], train.tensors[1][known][rows]
            functional.cross_entropy(model(codes), labels).backward()
            optimizer.step()
    model[1] = nn.Linear(48, len(samples.SCRIPTS))
    body.requires_grad_(False)
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for epoch in range(12):
        if epoch in (3, 6):
            layer = body[2] if epoch == 3 else body[0]
            layer.requires_grad_(True)
            optimizer.add_param_group({"params": list(layer.parameters()), "lr": 2e-3 if epoch == 3 else 1e-3})
        for names, labels in DataLoader(train, batch_size=48, shuffle=True):
            logits = model(names)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def a_rate_that_is_searched_first(watch: Watch, *, seed: int) -> float:
    """A range test raises the rate from 1e-5 to 1; then the weights are reset, and the training begins."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    begun = copy.deepcopy(model.state_dict())
    tried: list[tuple[float, float]] = []
    searching = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    for number, (images, labels) in enumerate(data.batches(64, 60)):
        searching.param_groups[0]["lr"] = 10 ** (-5 + 5 * number / 60)
        loss = functional.cross_entropy(model(images), labels)
        searching.zero_grad()
        loss.backward()
        searching.step()
        tried.append((loss.item() if math.isfinite(loss.item()) else math.inf, searching.param_groups[0]["lr"]))
    model.load_state_dict(begun)
    optimizer = torch.optim.SGD(model.parameters(), lr=min(0.1, min(tried)[1] / 3), momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [160, 220])
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 260):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)
