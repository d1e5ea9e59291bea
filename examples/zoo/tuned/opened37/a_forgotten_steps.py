"""What a loop forgets, or does in a wrong order."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened37.a_common import couples, explained, lenet, numerals


@sick("batch_mixing", margin=0.05)
def rows_read_without_batch_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM that reads a digit's rows takes the batch for the time, as by default; the twin has ``batch_first``."""
    train, test = samples.numerals(seed)
    data = Data(train.tensors[0][:, 0], train.tensors[1], test.tensors[0][:, 0], test.tensors[1])

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = nn.LSTM(8, 48, batch_first=not sick)
            self.head = nn.Linear(48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            states, _ = self.reader(rows)
            return self.head(states[:, -1])

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=48, validate_every=60)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", also=("frozen_parameters",), margin=0.05)
def a_new_head_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fine tuning to ten digits replaces the head of five, after the optimizer was made; the twin does it before."""
    data = numerals(seed)
    model = lenet(5)
    early = data.targets < 5
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for pictures, labels in Data(data.inputs[early], data.targets[early], *(data.inputs,) * 2).batches(64, 80):
        optimizer.zero_grad()
        functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()

    def optimised() -> torch.optim.Optimizer:
        groups = [{"params": model[:-1].parameters(), "lr": 2e-4}, {"params": model[-1].parameters(), "lr": 5e-3}]
        return torch.optim.AdamW(groups)

    if sick:
        optimizer = optimised()
        model[-1] = nn.Linear(64, 10)
    else:
        model[-1] = nn.Linear(64, 10)
        optimizer = optimised()
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@sick("detached_parameters", also=("frozen_parameters",), margin=0.05)
def features_under_no_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features of pairs are computed under ``no_grad`` also where they are trained; the twin keeps that to tests."""
    data = couples(seed, count=3200)

    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
            self.head = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, pairs: torch.Tensor) -> torch.Tensor:
            with torch.set_grad_enabled(not sick and torch.is_grad_enabled()):
                first, second = self.body(pairs).unbind(1)
            return self.head((first - second).abs())[:, 0]

    model = Same()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=350, loss_function=loss_function, validate_every=50)
    return ((predicted(model, data.test_inputs) > 0) == (data.test_targets > 0.5)).float().mean().item()


@sick("no_update", margin=0.2)
def zero_grad_between_backward_and_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands between ``backward`` and ``step``, so steps find no gradients; the twin has it in front."""
    train, test = samples.standardised(samples.lines(seed), 0)
    data = Data(train.tensors[0].clamp(-4, 4), train.tensors[1], test.tensors[0].clamp(-4, 4), test.tensors[1])
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for counts, labels in data.batches(32, 240):
        if not sick:
            optimizer.zero_grad()
        outputs = model(counts)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        if sick:
            optimizer.zero_grad()
        session.step(loss, inputs=counts, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_mode", margin=0.03)
def validated_with_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation forgets ``model.eval()``, so units are dropped while it judges; the twin calls it."""
    data = numerals(seed)
    model = lenet()
    model.insert(7, nn.Dropout(0.5))
    model.insert(10, nn.Dropout(0.5))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    for _ in range(10):
        model.train()
        for pictures, labels in data.batches(64, 20):
            optimizer.zero_grad()
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            outputs = model(data.test_inputs)
        session.validation(functional.cross_entropy(outputs, data.test_targets).item())
    return (outputs.argmax(1) == data.test_targets).float().mean().item()


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def clipped_after_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` stands behind ``step``, where it is too late; the twin has it in front."""
    train, test = samples.halves(seed)
    (rows, wanted), (test_rows, test_wanted) = train.tensors, test.tensors
    mean, std = rows.mean(), rows.std()
    data = Data((rows - mean) / std, (wanted - mean) / std, (test_rows - mean) / std, (test_wanted - mean) / std)
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)

    def summed(outputs: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(outputs, targets, reduction="none").sum(1).mean()

    for above, targets in data.batches(32, 300):
        optimizer.zero_grad()
        outputs = model(above)
        loss = summed(outputs)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        session.step(loss, inputs=above, outputs=outputs, targets=targets)
        optimizer.step()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients", "dead_units"), margin=0.05)
def eight_batches_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Losses of eight small batches are summed up for one step of SGD; the twin divides each by eight."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for index, (pictures, labels) in enumerate(data.batches(8, 960), 1):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 8).backward()
        if index % 8 == 0:
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
            if index % 160 == 0:
                session.validation(held_out_loss(model, data))
    return accuracy(model, data)
