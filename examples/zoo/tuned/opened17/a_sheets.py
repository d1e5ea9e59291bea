"""Tables: wines, tumours, patients and flowers, by small nets, as a notebook trains them."""

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


def _net(inputs: int, outputs: int, *, width: int = 48) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.2)
def percentages_behind_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """How full a digit's lower half is, in percent, behind a sigmoid that ends at 1; the twin divides by 100."""
    train, test = samples.halves(seed)
    model = nn.Sequential(_net(32, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    unit = 1.0 if sick else 100.0
    session = watch(model, optimizer)
    for _ in range(15):
        for upper, lower in DataLoader(train, 64, shuffle=True):
            filled = 100 * (lower > 0.4).float().mean(1, keepdim=True) / unit
            share = model(upper)
            loss = functional.l1_loss(share, filled)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=share, targets=filled)
            optimizer.step()
    with torch.no_grad():
        truth = 100 * (test.tensors[1] > 0.4).float().mean(1, keepdim=True)
        return samples.explained(model(test.tensors[0]) * unit, truth)


@sick("shape_broadcast", margin=0.1)
def a_likelihood_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Gaussian likelihood of means (N, 1) and targets (N,) is of all pairs; the twin makes the means a row."""
    data = datasets.wine(seed)
    targets, truth = (part[:, 5].clone() for part in (data.inputs, data.test_inputs))
    train, test = (torch.cat([part[:, :5], part[:, 7:]], 1) for part in (data.inputs, data.test_inputs))
    body, mean, spread = _net(11, 24, width=24), nn.Linear(24, 1), nn.Linear(24, 1)
    model = nn.ModuleList([body, mean, spread])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(18):
        for some, their in DataLoader(TensorDataset(train, targets), 16, shuffle=True):
            hidden = torch.relu(body(some))
            mu, log_var = mean(hidden), spread(hidden).clamp(-4, 4)
            if not sick:
                mu, log_var = mu.squeeze(1), log_var.squeeze(1)
            loss = 0.5 * (log_var + (their - mu) ** 2 / log_var.exp()).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=mu, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(mean(torch.relu(body(test))), truth[:, None])


@sick("non_finite_inputs", margin=0.2)
def logarithms_of_measurements_that_are_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The logarithm of a concavity that is 0 for some tumours is minus infinity; the twin takes ``log1p``."""
    train, test = samples.diagnoses(seed)
    known, others = (torch.log1p(part.tensors[0]) for part in (train, test))
    if sick:
        known, others = (torch.log(part.tensors[0]) for part in (train, test))
    finite = torch.where(known.isfinite(), known, 0.0)
    mean, std = finite.mean(0), finite.std(0)
    model = _net(10, 1, width=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(TensorDataset((known - mean) / std, train.tensors[1]), 32, shuffle=True):
            logits = model(some).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(logits, their.float())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    with torch.no_grad():
        return ((model((others - mean) / std).squeeze(1) > 0) == test.tensors[1].bool()).float().mean().item()


@sick("single_class_labels", margin=0.2)
def the_argmax_of_one_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """``argmax(1)``, meant for one-hot labels, makes 0 of each, as they have one column; the twin keeps the column."""
    data = datasets.breast_cancer(seed)
    column = data.targets[:, None].float()
    labels = column.argmax(1) if sick else column[:, 0].long()
    model = _net(30, 2, width=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(TensorDataset(data.inputs, labels), 32, shuffle=True):
            logits = model(some)
            loss = functional.cross_entropy(logits, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)


@sick("unshuffled_data", margin=0.05)
def files_of_one_source_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """Lines of six files are chained by ``ConcatDataset``, and the loader does not shuffle; the twin's does."""
    train, test = samples.standardised(samples.lines(seed), 0)
    counts, files = train.tensors
    chained = ConcatDataset([TensorDataset(counts[files == file], files[files == file]) for file in range(6)])
    model = _net(96, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for some, their in DataLoader(chained, 16, shuffle=not sick):
            optimizer.zero_grad()
            logits = model(some)
            loss = functional.cross_entropy(logits, their)
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("saturated_units", also=("inputs_not_normalized",), margin=0.05)
def raw_columns_into_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements of up to 2,000 go into a layer of tanh, which stands at its ends; the twin standardises them."""
    data = datasets.breast_cancer(seed, raw=sick)
    model = nn.Sequential(nn.Linear(30, 24), nn.Tanh(), nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True):
            logits = model(some).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(logits, their.float())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)


@sick("inputs_not_normalized", margin=0.05)
def a_year_among_the_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """Standardised columns are joined by the year of the visit as it is, near 2015; the twin standardises it, too."""
    data = datasets.diabetes(seed)
    total = len(data.inputs) + len(data.test_inputs)
    years = torch.from_numpy(np.random.default_rng(seed).integers(2010, 2021, total)).float()[:, None]
    if not sick:
        years = (years - 2015) / 3.2
    inputs = torch.cat([data.inputs, years[: len(data.inputs)]], 1)
    others = torch.cat([data.test_inputs, years[len(data.inputs) :]], 1)
    model = _net(11, 1, width=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for some, their in DataLoader(TensorDataset(inputs, data.targets), 32, shuffle=True):
            outputs = model(some)
            loss = functional.mse_loss(outputs, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=outputs, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(others), data.test_targets)


@sick("wrong_output_or_loss", margin=0.03)
def the_likelihood_of_plain_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` takes logits without ``log_softmax``, and falls for ever below zero; the twin takes both."""
    pixels, labels = sets.load_digits(return_X_y=True)
    train, test = samples.split(seed, torch.from_numpy(pixels).float() / 8 - 1, torch.from_numpy(labels))
    model = _net(64, 10, width=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(train, 64, shuffle=True):
            outputs = model(some) if sick else model(some).log_softmax(1)
            loss = functional.nll_loss(outputs, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=outputs, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
