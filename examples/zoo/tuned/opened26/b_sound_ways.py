"""Sound trainings in unusual ways: streams of text, gradients by hand, pupils of each other, and quantiles."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened26.b_seasons import Recurrent
from examples.zoo.tuned.opened26.b_stock import columns, sales


@healthy(at_least=0.35)
def streams_that_are_read_in_their_order(watch: Watch, *, seed: int) -> float:
    """Streams of characters are read on from window to window with a detached state, and are never shuffled."""
    text = datasets.text(seed, length=401, count=44).inputs
    model = nn.ModuleDict(
        {
            "read": nn.Embedding(datasets.CHARACTERS, 24),
            "rnn": nn.GRU(24, 64, batch_first=True),
            "write": nn.Linear(64, datasets.CHARACTERS),
        }
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(5):
        state = torch.zeros(1, len(text), 64)
        for start in range(0, 400, 10):
            window, following = text[:, start : start + 10], text[:, start + 1 : start + 11]
            states, state = model["rnn"](model["read"](window), state.detach())
            logits = model["write"](states)
            loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=window, outputs=logits, targets=following)
            optimizer.step()
    data = datasets.text(seed + 100, length=50, count=400)
    with torch.no_grad():
        logits = model["write"](model["rnn"](model["read"](data.inputs))[0])
    return (logits.argmax(-1) == data.targets).float().mean().item()


@healthy(at_least=0.9)
def gradients_that_do_not_pull_against_each_other(watch: Watch, *, seed: int) -> float:
    """PCGrad: the digit and whether it is large are learnt, and each task's gradient loses what harms the other."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(48, 11))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    session = watch(model, optimizer)
    weights = list(model.parameters())
    for digits, labels in data.batches(64, 300):
        outputs = model(digits)
        first = functional.cross_entropy(outputs[:, :10], labels)
        second = functional.binary_cross_entropy_with_logits(outputs[:, 10], (labels > 4).float())
        ones = torch.autograd.grad(first, weights, retain_graph=True)
        others = torch.autograd.grad(second, weights)
        against = sum((one * other).sum() for one, other in zip(ones, others, strict=True))
        share = against.clamp(max=0) / sum(other.square().sum() for other in others)
        back = against.clamp(max=0) / sum(one.square().sum() for one in ones)
        for weight, one, other in zip(weights, ones, others, strict=True):
            weight.grad = one - share * other + other - back * one
        session.step(first + second, inputs=digits, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs)[:, :10].argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def two_pupils_that_teach_each_other(watch: Watch, *, seed: int) -> float:
    """Mutual learning: each net follows the labels and the other's detached chances."""
    data = datasets.digits(seed)
    pupils = nn.ModuleList(
        nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 10)) for width in (24, 48)
    )
    optimizer = torch.optim.AdamW(pupils.parameters(), lr=5e-3)
    session = watch(pupils, optimizer)
    for digits, labels in data.batches(64, 250):
        left, right = (pupil(digits) for pupil in pupils)
        loss = functional.cross_entropy(left, labels) + functional.cross_entropy(right, labels)
        for ours, theirs in ((left, right), (right, left)):
            loss = loss + functional.kl_div(ours.log_softmax(-1), theirs.detach().softmax(-1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=digits, outputs=left, targets=labels)
        optimizer.step()
    return min(accuracy(pupil, data) for pupil in pupils)


@healthy(at_least=0.85)
def sales_that_are_exceeded_once_in_ten_days(watch: Watch, *, seed: int) -> float:
    """A ninth decile is forecast, well above most targets. Quality: 1 minus twice the error of its share."""
    (windows, values), (test_windows, test_values) = columns(sales(seed))
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 180)
    session = watch(model, optimizer)
    for _ in range(180):
        batch = torch.randint(len(windows), (64,))
        outputs = model(windows[batch])
        gap = values[batch] - outputs
        loss = torch.maximum(0.9 * gap, -0.1 * gap).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows[batch], outputs=outputs, targets=values[batch])
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return 1 - 2 * abs((test_values < model(test_windows)).float().mean().item() - 0.9)
