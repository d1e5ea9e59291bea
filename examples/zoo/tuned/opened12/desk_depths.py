"""Deep nets without a ramp or with doubled sums, dead or saturated units, early ends, sums for means."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted


class PostNorm(nn.Module):
    """A block that normalises the sum of what it got and what it found."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.find = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.find(x))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def sixteen_post_norm_blocks_without_a_ramp(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam starts at its highest rate, which the blocks stand once they are on their way, but not at the start."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 24), *(PostNorm(24) for _ in range(16)), nn.Linear(24, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1.1e-2)
    ramp = 1 if sick else 60
    schedule = lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / ramp, 1.0, (120 - step) / 60))
    fit(watch, model, optimizer, data, steps=120, batch_size=32, scheduler=schedule)
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization",), margin=0.05)
def residual_that_is_added_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """The block returns ``x + f(x)``, and the loop over blocks adds x once more: all doubles with each of them."""
    data = datasets.digits(seed)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(12)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for block in self.blocks:
                found = x + block(x)
                x = x + found if sick else found
            return self.head(x)

    model = Net()
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), data, steps=160)
    return accuracy(model, data)


@sick("dead_units", margin=0.05)
def batch_norm_bias_far_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The biases of the norms before the ReLUs begin at -4, taken over from a net with another activation."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    for module in model:
        if sick and isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.bias, -4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("saturated_units", margin=0.04)
def gates_of_a_sigmoid_sharpened_by_fifty(watch: Watch, *, seed: int, sick: bool) -> float:
    """A step function is wanted as activation, and ``sigmoid(50 * x)`` is taken for it in three layers."""
    data = datasets.digits(seed)
    steepness = 50.0 if sick else 1.0

    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(steepness * x)

    model = nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), Gate(), nn.Linear(64, 64), nn.BatchNorm1d(64), Gate(),
        nn.Linear(64, 64), nn.BatchNorm1d(64), Gate(), nn.Linear(64, 10),
    )  # fmt: skip
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=140)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.03)
def patience_of_one_look_at_a_single_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """After sixty steps, training ends at the first batch that is worse than the best; the twin asks a validation."""
    train, test = samples.numerals(seed)
    data = datasets.Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session, best, waited = watch(model, optimizer), float("inf"), 0
    for step, (images, labels) in enumerate(data.batches(64, 300), 1):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        if sick and step >= 60:
            judged, patience = loss.item(), 1
        elif not sick and step % 20 == 0:
            judged, patience = held_out_loss(model, data), 5
            session.validation(judged)
        else:
            continue
        waited = 0 if judged < best else waited + 1
        best = min(best, judged)
        if waited >= patience:
            break
    return accuracy(model, data)


@sick("memory_leak", margin=0.5)
def running_loss_summed_with_its_graphs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``running += loss`` keeps the graph of every step until the end; quality: 1 if the sum is a number."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session, running = watch(model, optimizer), 0.0
    for images, labels in data.batches(64, 150):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        running += loss if sick else loss.item()
    return float(not isinstance(running, torch.Tensor))


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def squared_errors_of_all_pixels_summed_with_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """``((a - b) ** 2).sum()`` over 64 rows and 32 pixels, by an SGD whose rate suits a mean over rows."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for upper, lower in DataLoader(train, batch_size=64, shuffle=True):
            drawn = model(upper)
            loss = (drawn - lower).square().sum()
            if not sick:
                loss = loss / len(upper)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=drawn, targets=lower)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def twenty_windows_added_up_for_one_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """An accumulation of twenty batches without ``loss / 20``, in a regression by SGD with momentum."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = datasets.Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for index, (features, worst) in enumerate(data.batches(8, 1600), 1):
        guess = model(features)
        loss = functional.mse_loss(guess, worst)
        (loss if sick else loss / 20).backward()
        if index % 20 == 0:
            session.step(loss, inputs=features, outputs=guess, targets=worst)
            optimizer.step()
            optimizer.zero_grad()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])
