"""Arithmetic that is not defined, or too narrow, for some of the numbers that it meets."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, predicted


def classify(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    *,
    epochs: int,
    batch_size: int,
    criterion: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.cross_entropy,
) -> float:
    """Trains for some epochs and returns the accuracy."""
    session = watch(model, optimizer)
    for _ in range(epochs):
        for inputs, labels in DataLoader(TensorDataset(data.inputs, data.targets), batch_size, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("non_finite_forward", also=("inputs_not_normalized",))
def exponentials_of_raw_measurements(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax by hand, ``exp(x) / exp(x).sum()``, overflows where a feature is in the thousands."""
    data = datasets.wine(seed, raw=sick)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def by_hand(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        shares = outputs.exp() / outputs.exp().sum(1, keepdim=True)
        return -shares.gather(1, labels[:, None]).log().mean()

    return classify(watch, model, optimizer, data, epochs=15, batch_size=16, criterion=by_hand)


class _MeanLetter(nn.Module):
    """Takes the mean over a name's letters, without the padding."""

    def __init__(self, at_least: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 16)
        self.out = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, len(samples.SCRIPTS)))
        self.at_least = at_least

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        mask = (codes > 0).unsqueeze(-1)
        return self.out((self.embed(codes) * mask).sum(1) / mask.sum(1).clamp(min=self.at_least))


@sick("non_finite_forward")
def the_mean_of_no_letter(watch: Watch, *, seed: int, sick: bool) -> float:
    """One name in fifty is missing, and its mean is zero divided by zero."""
    (names, scripts), (test_names, test_scripts) = (part.tensors for part in samples.names(seed))
    missing = torch.rand(len(names), 1) < 0.02
    data = Data(names.masked_fill(missing, 0), scripts, test_names, test_scripts)
    model = _MeanLetter(0.0 if sick else 1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return classify(watch, model, optimizer, data, epochs=12, batch_size=32)


class _BatchStatistics(nn.Module):
    """A batch norm by hand, without running statistics."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values - values.mean(0)) / (values.std(0) + 1e-5)


@sick("non_finite_forward")
def a_last_batch_of_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """One sample is left over in each epoch, and has no deviation; the twin drops it."""
    data = datasets.wine(seed)
    count = 121
    rows = TensorDataset(data.inputs[:count], data.targets[:count])
    model = nn.Sequential(nn.Linear(13, 16), _BatchStatistics(), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, labels in DataLoader(rows, batch_size=20, shuffle=True, drop_last=not sick):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("non_finite_backward")
def the_distance_to_oneself(watch: Watch, *, seed: int, sick: bool) -> float:
    """All distances in a batch, with those of samples to themselves: the square root has no slope at zero."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(48, 150):
        codes = model(inputs)
        squares = (codes[:, None] - codes[None]).square().sum(2)
        distances = squares.sqrt() if sick else (squares + 1e-4).sqrt()
        same = labels[:, None] == labels[None]
        loss = torch.where(same, distances.square(), functional.relu(2 - distances).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=codes, targets=labels)
        optimizer.step()
    near = torch.cdist(predicted(model, data.test_inputs), predicted(model, data.inputs)).argmin(1)
    return (data.targets[near] == data.test_targets).float().mean().item()


class _Rooted(nn.Module):
    """Takes the square root of each unit where it is above zero."""

    def __init__(self, *, clamped: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(96, 48), nn.Linear(48, len(samples.FILES))
        self.clamped = clamped

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        found = self.first(counts)
        roots = (found.clamp(min=1e-2) if self.clamped else found).sqrt()
        return self.last(torch.where(found > 0, roots, 0.0))


@sick("non_finite_backward")
def a_root_behind_a_where(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.where`` hides the roots of negative numbers in the forward pass; in the backward pass they are NaN."""
    (counts, files), (test_counts, test_files) = (part.tensors for part in samples.standardised(samples.lines(seed), 0))
    data = Data(counts, files, test_counts, test_files)
    model = _Rooted(clamped=not sick)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    return classify(watch, model, optimizer, data, epochs=6, batch_size=32)


@sick("fp16_underflow")
def a_light_loss_in_float16(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reconstruction weighs 0.0001 in a sum of losses; in float16, without a scaler, its gradients are zero."""
    (upper, lower), (test_upper, test_lower) = (part.tensors for part in samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(30):
        for rows in torch.randperm(len(upper)).split(128):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                outputs = model(upper[rows])
                loss = 1e-4 * (outputs - lower[rows].half()).square().mean()
            scaler.scale(loss).backward()
            session.step(loss, inputs=upper[rows], outputs=outputs, targets=lower[rows])
            scaler.step(optimizer)
            scaler.update()
    return samples.explained(predicted(model, test_upper), test_lower)


@healthy(at_least=0.9)
def autocast_to_bfloat16(watch: Watch, *, seed: int) -> float:
    """Autocast to bfloat16, which needs no scaler."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 150):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs.float(), labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.58)
def shares_from_a_log_softmax(watch: Watch, *, seed: int) -> float:
    """A likelihood by hand, as it should be, on counts whose logarithm is taken with one added."""
    (counts, files), (test_counts, test_files) = (part.tensors for part in samples.lines(seed))
    data = Data(counts.log1p(), files, test_counts.log1p(), test_files)
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, len(samples.FILES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def likelihood(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.nll_loss(functional.log_softmax(outputs, 1), labels)

    return classify(watch, model, optimizer, data, epochs=8, batch_size=40, criterion=likelihood)
