"""Rates, limits, micro-batches and ends: how much a training is given."""

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as tnf
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


def _net(features: int = 64, classes: int = 10, hidden: int = 40) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@torch.no_grad()
def _accuracy(net: nn.Module, test: TensorDataset) -> float:
    return samples.accuracy(net.eval()(test.tensors[0]), test.tensors[1])


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def a_polynomial_over_epochs_in_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``PolynomialLR`` over eight iterations, meant as epochs: the rate is zero from the ninth batch on."""
    train, test = samples.numerals(seed)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(train, 40, shuffle=True)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=8 if sick else 8 * len(loader), power=1.0)
    session = watch(net, optimizer)
    for _ in range(8):
        for images, labels in loader:
            optimizer.zero_grad()
            logits = net(images)
            loss = tnf.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            schedule.step()
    return _accuracy(net, test)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def a_decay_by_hand_inside_the_wrong_loop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``group["lr"] *= 0.8`` is indented once too often: it decays with every batch instead of every epoch."""
    train, test = samples.lines(seed)
    net = nn.Sequential(nn.LayerNorm(96), _net(96, len(samples.FILES)))
    optimizer = torch.optim.RMSprop([{"params": net[0].parameters()}, {"params": net[1].parameters()}], lr=2e-3)
    session = watch(net, optimizer)

    def decay() -> None:
        for group in optimizer.param_groups:
            group["lr"] *= 0.8

    for _ in range(7):
        for counts, labels in DataLoader(train, 32, shuffle=True):
            logits = net(counts)
            loss = tnf.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=labels)
            optimizer.step()
            if sick:
                decay()
        if not sick:
            decay()
    return _accuracy(net, test)


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def clipped_before_it_is_unscaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to 1 while they are multiplied by the scaler's 16384, and divided by it afterwards."""
    train, test = samples.numerals(seed)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    session = watch(net, optimizer, scaler=scaler)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                logits = net(images)
            loss = tnf.cross_entropy(logits.float(), labels)
            scaler.scale(loss).backward()
            if not sick:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            scaler.step(optimizer)
            scaler.update()
    return _accuracy(net, test)


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def hooks_that_clamp_to_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each parameter has a hook that clamps its gradient to 1e-5, where 1e5 was meant."""
    data = datasets.diabetes(seed)
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    limit = 1e-5 if sick else 1e5
    for parameter in net.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-limit, limit))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    session = watch(net, optimizer)
    for rows, scores in data.batches(48, 200):
        optimizer.zero_grad()
        outputs = net(rows)
        loss = tnf.huber_loss(outputs, scores)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=scores)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(net(data.test_inputs), data.test_targets)


class _Doubling(nn.Module):
    """A recurrent cell by hand over the rows of a digit, twice; its recurrence may amplify."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.read, self.keep, self.out = nn.Linear(8, 32), nn.Linear(32, 32, bias=False), nn.Linear(32, 10)
        nn.init.orthogonal_(self.keep.weight, gain)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(images), 32)
        for row in images.view(-1, 8, 8).repeat(1, 2, 1).unbind(1):
            state = (self.read(row) + self.keep(state)).relu()
        return self.out(state)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"))
def a_cell_by_hand_that_grows(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recurrent weights of a cell start with a gain of 2.2: after sixteen rows, little is left of the last one."""
    train, test = samples.numerals(seed)
    net = _Doubling(2.2 if sick else 1.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 50, shuffle=True):
            logits = net(images)
            loss = tnf.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _accuracy(net, test)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"))
def an_iterator_that_is_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``net.parameters()`` is kept as an iterator: the optimizer has read it to its end, and clipping finds nothing."""
    train, test = samples.numerals(seed)
    net = _Doubling(1.0)
    kept: Any = net.parameters() if sick else list(net.parameters())
    optimizer = torch.optim.SGD(kept, lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 50, shuffle=True):
            logits = net(images)
            loss = tnf.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(kept, 0.5)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _accuracy(net, test)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def sixteen_parts_of_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch is cut into sixteen parts to fit into memory, and each part's mean counts in full."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
    session = watch(net, optimizer)
    parts = 16
    for inputs, labels in data.batches(96, 100):
        optimizer.zero_grad()
        for few, their in zip(inputs.chunk(parts), labels.chunk(parts), strict=True):
            logits = net(few)
            loss = tnf.cross_entropy(logits, their)
            (loss if sick else loss / parts).backward()
        session.step(loss, inputs=few, outputs=logits, targets=their)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)


@sick("stopped_too_early", also=("learning_rate_too_low",))
def patience_with_too_large_a_delta(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping wants an improvement of 0.6 in each epoch, as for a loss of another size."""
    train, test = samples.numerals(seed)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    session, best, patience = watch(net, optimizer), math.inf, 2
    for _ in range(12):
        net.train()
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = net(images)
            loss = tnf.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        net.eval()
        with torch.no_grad(), session.validating():
            found = tnf.cross_entropy(net(test.tensors[0]), test.tensors[1]).item()
        session.validation(found)
        patience = 2 if found < best - (0.6 if sick else 1e-4) else patience - 1
        best = min(best, found)
        if patience == 0:
            break
    return _accuracy(net, test)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"))
def clipping_a_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """What is clipped is the copy that is kept for an average; its parameters have no gradients."""
    data = datasets.digits(seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNN(8, 32, nonlinearity="relu", batch_first=True)
            nn.init.orthogonal_(self.cell.weight_hh_l0)
            self.out = nn.Linear(32, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.out(self.cell(pixels.view(-1, 8, 8).repeat(1, 2, 1))[0][:, -1])

    net = Rows()
    average = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for pixels, labels in data.batches(50, 150):
        logits = net(pixels)
        loss = tnf.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_((average if sick else net).parameters(), 0.5)
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), net.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
    with torch.no_grad():
        return samples.accuracy(average(data.test_inputs), data.test_targets)


@sick("stopped_too_early", also=("learning_rate_too_low",))
def a_break_one_level_too_deep(watch: Watch, *, seed: int, sick: bool) -> float:
    """A limit of 70 batches, which was meant for one epoch, ends the training."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.7)
    session = watch(net, optimizer)
    for number, (pixels, labels) in enumerate(data.batches(32, 400)):
        if sick and number == 70:
            break
        logits = net(pixels)
        loss = tnf.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)
