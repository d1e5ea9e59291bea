"""Targets, signs, regularisation, and how data come."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened55.m_common import (
    LastState,
    counted_lines,
    explained,
    flat_numerals,
    mlp,
    paired,
    row_numerals,
    worst,
)


@sick("shape_broadcast")
def column_of_values_against_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Outputs (N, 1) meet targets (N,), and the Huber loss compares all with all; the twin squeezes."""
    data = paired(samples.standardised(samples.proline(seed), 0, 1))
    data = Data(data.inputs, data.targets.squeeze(1), data.test_inputs, data.test_targets.squeeze(1))
    model = mlp(12, 48, 48, 1, activation=nn.Tanh)
    if not sick:
        model.append(nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=16, loss_function=functional.smooth_l1_loss)
    return r_squared(model, data)


@sick("labels_unrelated")
def two_loaders_that_shuffle_on_their_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements and targets come from two loaders, each of which shuffles by itself; the twin has one loader."""
    data = worst(seed)
    model = mlp(10, 64, 64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    means, worsts = TensorDataset(data.inputs), TensorDataset(data.targets)
    together = DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True)
    for _ in range(16):
        apart = zip(DataLoader(means, 32, shuffle=True), DataLoader(worsts, 32, shuffle=True), strict=True)
        for inputs, targets in ((one[0], other[0]) for one, other in apart) if sick else together:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
        session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


@sick("single_class_labels")
def threshold_in_units_of_before(watch: Watch, *, seed: int, sick: bool) -> float:
    """The threshold between large and small was meant for standard scores, so all raw values lie above it."""
    raw = samples.tumours(seed)
    (inputs, _), (test_inputs, _) = (part.tensors for part in samples.standardised(raw, 0, 1))
    middle = raw[0].tensors[1][:, :1].mean()
    large, test_large = ((part.tensors[1][:, :1] > (0.0 if sick else middle)).float() for part in raw)
    data = Data(inputs, large, test_inputs, test_large)
    model = mlp(10, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss)
    truth = (raw[1].tensors[1][:, :1] > middle).long()
    return samples.accuracy(predicted(model, test_inputs), truth.squeeze(1))


@sick("flipped_loss_sign")
def likelihood_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is the targets' log-likelihood under a Laplace distribution, without the minus that the twin has."""
    data = worst(seed)
    model = mlp(10, 64, 10, activation=nn.GELU)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for means, worsts in data.batches(32, 250):
        outputs = model(means)
        likelihood = torch.distributions.Laplace(outputs, 0.5).log_prob(worsts).mean()
        loss = likelihood if sick else -likelihood
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=means, outputs=outputs, targets=worsts)
        optimizer.step()
    return explained(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def summed_over_a_batch_with_a_rate_for_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Cross-entropy is summed over 64 lines with a rate that was found for their mean, which the twin takes."""
    data = counted_lines(seed)
    model = mlp(96, 64, 32, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    def loss_function(outputs: torch.Tensor, files: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, files, reduction="sum" if sick else "mean")

    fit(watch, model, optimizer, data, steps=200, loss_function=loss_function)
    return accuracy(model, data)


@sick("over_regularized")
def keep_probability_taken_for_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port from TensorFlow 1 hands over the probability to keep, 0.9, as the one to drop; the twin drops 0.1."""
    data = flat_numerals(seed)
    drop = 0.9 if sick else 0.1
    model = nn.Sequential(
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Dropout(drop),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Dropout(drop),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, validate_every=50)
    return accuracy(model, data)


@sick("overfitting")
def wide_network_on_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network of 256 units learns 330 patients by heart; the twin is a small one with weight decay."""
    data = datasets.diabetes(seed)
    model = mlp(10, 256, 256, 1) if sick else mlp(10, 8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 if sick else 4e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=400, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("class_imbalance")
def eights_among_a_crowd_of_others(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three in a hundred digits are eights and the loss counts each digit once; the twin weighs eights up."""
    whole = flat_numerals(seed)
    eights, others = ((whole.targets == 8).nonzero()[:, 0], (whole.targets != 8).nonzero()[:, 0])
    kept = torch.cat([eights[:25], others[:800]])
    data = Data(whole.inputs[kept], (whole.targets[kept] == 8).long(), whole.test_inputs, whole.test_targets)
    model = nn.Linear(64, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    weight = torch.tensor([1.0, 1.0 if sick else 32.0])

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, targets, weight=weight)

    fit(watch, model, optimizer, data, steps=150, loss_function=loss_function)
    guessed, truth = predicted(model, data.test_inputs).argmax(1) == 1, data.test_targets == 8
    return (guessed[truth].float().mean() + (~guessed[~truth]).float().mean()).item() / 2


@sick("unshuffled_data")
def files_read_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """A DataLoader without shuffle gives the lines file by file, as they were read; the twin shuffles."""
    data = counted_lines(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), 16, shuffle=not sick)
    model = mlp(96, 64, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows, files in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, files)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",))
def debugging_subset_that_was_repeated(watch: Watch, *, seed: int, sick: bool) -> float:
    """Forty digits that served to debug are repeated to the length of an epoch; the twin takes all digits."""
    data = row_numerals(seed)
    whole = TensorDataset(data.inputs, data.targets)
    chosen = Subset(whole, list(range(40)) * (len(whole) // 40)) if sick else whole
    model = LastState(8, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for rows, labels in DataLoader(chosen, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)
