"""Slips in the loop: steps, zeroed gradients, clipping, schedules, and what is trained."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, binary_accuracy, fit
from examples.zoo.tuned.opened21.a_stock import series


def _cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


@sick("gradients_not_zeroed", margin=0.03)
def zero_grad_without_parentheses(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` names the method and does not call it; the twin calls it."""
    train, test = samples.names(seed)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 12), nn.Flatten(), nn.Linear(288, 48), nn.ReLU())
    model.append(nn.Linear(48, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for letters, labels in DataLoader(train, 32, shuffle=True):
            if sick:
                optimizer.zero_grad  # noqa: B018
            else:
                optimizer.zero_grad()
            outputs = model(letters)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=letters, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("clipping_too_strong", also=("no_update",), margin=0.2)
def zero_that_meant_no_clipping(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max_grad_norm: 0`` means no clipping in some trainers, and nothing but zeros here; the twin clips at 1."""
    data = datasets.digits(seed, images=True)
    model = _cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(32, 160):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.0 if sick else 1.0)
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients",), margin=0.05)
def clipped_the_averaged_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of the slow copy are clipped, which has none, and spikes hit the net; the twin clips the net's."""
    train, test = series(seed)
    model = nn.ModuleDict({"gru": nn.GRU(1, 32, batch_first=True), "head": nn.Linear(32, 6)})
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            spikes = 100 * (torch.rand(len(targets), 1) < 0.003)
            outputs = model["head"](model["gru"](inputs)[0][:, -1])
            loss = functional.mse_loss(outputs, targets + spikes)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_((slow if sick else model).parameters(), 1.0)
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets + spikes)
            optimizer.step()
            with torch.no_grad():
                for kept, new in zip(slow.parameters(), model.parameters(), strict=True):
                    kept.lerp_(new, 0.05)
    with torch.no_grad():
        return samples.explained(slow["head"](slow["gru"](test.tensors[0])[0][:, -1]), test.tensors[1])


@sick("no_update", also=("schedule_collapsed",), margin=0.2)
def planned_steps_rounded_down_to_none(watch: Watch, *, seed: int, sick: bool) -> float:
    """A linear decay gets ``rows // (batch * accumulate * devices)`` steps, which is 0; the twin divides at the end."""
    data = datasets.wine(seed)
    epochs, batch = 30, 16
    total = len(data.inputs) // (batch * 4 * 4) * epochs if sick else len(data.inputs) * epochs // batch + epochs
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, (total - step) / max(1, total)))
    fit(watch, model, optimizer, data, steps=9 * epochs, batch_size=batch, scheduler=schedule)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def a_factor_for_the_first_rate_applied_to_the_last(watch: Watch, *, seed: int, sick: bool) -> float:
    """``0.5 ** (epoch // 3)`` is for the first rate, but multiplies the present one; the twin multiplies the first."""
    train, test = samples.numerals(seed)
    model, rate = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()), 0.04
    for _ in range(2):
        model.extend([nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()])
    model.extend([nn.AvgPool2d(4), nn.Flatten(), nn.Linear(64, 10)])
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    session = watch(model, optimizer)
    for epoch in range(12):
        for group in optimizer.param_groups:
            group["lr"] = (group["lr"] if sick else rate) * 0.5 ** (epoch // 3)
        for images, labels in DataLoader(train, 64, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("parameters_not_in_optimizer", margin=0.05)
def weight_norm_after_the_optimizer_was_made(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weight norm puts new parameters in the weights' place, the optimizer has the old ones; the twin's has these."""
    train, test = samples.names(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(24 * samples.LETTERS, 48), nn.ReLU(), nn.Linear(48, 8))

    def normed() -> None:
        for layer in (model[1], model[3]):
            nn.utils.parametrizations.weight_norm(layer)

    if not sick:
        normed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    if sick:
        normed()
    session = watch(model, optimizer)
    for _ in range(5):
        for letters, labels in DataLoader(train, 32, shuffle=True):
            inputs = functional.one_hot(letters, samples.LETTERS).float()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(functional.one_hot(test.tensors[0], samples.LETTERS).float()), test.tensors[1])


@sick("stopped_too_early", margin=0.03)
def patience_that_wants_a_lower_accuracy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping watches the accuracy, but waits for it to fall, as a loss would; the twin waits for it to rise."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(torch.utils.data.TensorDataset(data.inputs, data.targets), 64, shuffle=True)
    session = watch(model, optimizer)
    best, waited = float("-inf"), 0
    for _ in range(18):
        for inputs, labels in loader:
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        score = accuracy(model, data) * (-1 if sick else 1)
        best, waited = (score, 0) if score > best else (best, waited + 1)
        if waited == 3:
            break
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.03)
def a_backward_pass_for_each_of_sixteen_parts(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch is split into 16 parts for memory, whose gradients are added as they are; the twin divides each loss."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(128, 70):
        optimizer.zero_grad()
        for rows, marks in zip(inputs.split(8), labels.float()[:, None].split(8), strict=True):
            outputs = model(rows)
            loss = functional.binary_cross_entropy_with_logits(outputs, marks)
            (loss if sick else loss / 16).backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=marks)
        optimizer.step()
    return binary_accuracy(model, data)
