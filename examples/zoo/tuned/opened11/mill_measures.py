"""Tables of measurements: what goes wrong between a file's columns and the first layer, and at a fit's end."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import binary_accuracy, held_out_loss, r_squared


def regressor(inputs: int, outputs: int = 1, hidden: int = 32) -> nn.Sequential:
    """Returns a net of two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


@sick("inputs_not_normalized", margin=0.1)
def columns_in_their_own_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wine's measurements from 0.1 to 1,000 go in as they are; weight decay and label smoothing do not help."""
    data = datasets.wine(seed, raw=sick)
    net = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    session = watch(net, optimizer)
    for rows, kinds in data.batches(24, 160):
        optimizer.zero_grad()
        scores = net(rows)
        loss = criterion(scores, kinds)
        loss.backward()
        session.step(loss, inputs=rows, outputs=scores, targets=kinds)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)


@sick("target_out_of_range", margin=0.15)
def standardised_targets_behind_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """The sigmoid is from when targets lay from 0 to 1; now they are standardised, and half are below 0."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    layers = regressor(10, 10, hidden=24)
    model = nn.Sequential(layers, nn.Sigmoid()) if sick else layers
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows, target in DataLoader(train, batch_size=32, shuffle=True):
            predicted = model(rows)
            loss = functional.mse_loss(predicted, target)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=predicted, targets=target)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("non_finite_inputs", margin=0.3)
def logarithm_of_a_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed columns go through a logarithm; the concavity of some tumours is 0. The twin takes ``log1p``."""
    train, test = samples.diagnoses(seed)
    train, test = (
        TensorDataset(part.tensors[0].log() if sick else part.tensors[0].log1p(), part.tensors[1])
        for part in (train, test)
    )
    if sick:
        finite = train.tensors[0].isfinite().all(0)
        std, mean = torch.std_mean(torch.where(finite, train.tensors[0], 0.0), 0)
        train, test = (TensorDataset((p.tensors[0] - mean) / (std + 1e-8), p.tensors[1]) for p in (train, test))
    else:
        train, test = samples.standardised((train, test), 0)
    model = regressor(10, 2)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, benign in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            scores = model(rows)
            loss = functional.cross_entropy(scores, benign)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            session.step(loss, inputs=rows, outputs=scores, targets=benign)
            optimizer.step()
    with torch.no_grad():
        scores = model(test.tensors[0])
    return samples.accuracy(scores, test.tensors[1]) if scores.isfinite().all() else 0.0


@sick("labels_unrelated", margin=0.3)
def inputs_and_targets_from_two_loaders(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inputs and targets come from two loaders that are zipped, and each of which shuffles for itself."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = regressor(10, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for epoch in range(16):
        order = [torch.Generator().manual_seed(2 * epoch + (sick and number)) for number in range(2)]
        loaders = [
            DataLoader(column, batch_size=32, shuffle=True, generator=generator)  # type: ignore[arg-type]
            for column, generator in zip(train.tensors, order, strict=True)
        ]
        for means, worst in zip(*loaders, strict=True):
            optimizer.zero_grad()
            guessed = model(means)
            loss = functional.mse_loss(guessed, worst)
            loss.backward()
            session.step(loss, inputs=means, outputs=guessed, targets=worst)
            optimizer.step()
        with torch.no_grad(), session.validating():
            session.validation(functional.mse_loss(model(test.tensors[0]), test.tensors[1]).item())
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("single_class_labels", margin=0.1)
def labels_compared_with_the_wrong_code(watch: Watch, *, seed: int, sick: bool) -> float:
    """The file codes tumours as 0 and 1, but the script asks for 2 and 4: no row is malignant any more."""
    data = datasets.breast_cancer(seed)
    coded = data.targets if sick else 4 - 2 * data.targets
    targets = (coded == 4).float()
    tests = (data.test_targets == 0).float()
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    judged = datasets.Data(data.inputs, targets, data.test_inputs, tests)
    session = watch(model, optimizer)
    for rows, malignant in judged.batches(32, 130):
        logits = model(rows).squeeze(-1)
        loss = functional.binary_cross_entropy_with_logits(logits, malignant)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=malignant)
        optimizer.step()
    return binary_accuracy(model, judged)


@sick("overfitting", margin=0.1)
def a_wide_net_on_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns 331 patients by heart; the twin is narrow, decays its weights, and keeps the best epoch."""
    data = datasets.diabetes(seed)
    width = 128 if sick else 16
    model = regressor(10, hidden=width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0 if sick else 0.1)
    session = watch(model, optimizer)
    best, state = float("inf"), copy.deepcopy(model.state_dict())
    for _ in range(36 if sick else 12):
        for rows, target in data.batches(32, 11):
            guess = model(rows)
            loss = functional.mse_loss(guess, target)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=guess, targets=target)
            optimizer.step()
        with session.validating():
            reached = held_out_loss(model, data, functional.mse_loss)
        session.validation(reached)
        if reached < best:
            best, state = reached, copy.deepcopy(model.state_dict())
    if not sick:
        model.load_state_dict(state)
    return r_squared(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",), margin=0.2)
def summed_over_batch_and_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten columns are predicted, and squares are summed over the batch and all of them, at a mean's rate."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = regressor(10, 10)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for _ in range(12):
        for means, worst in DataLoader(train, batch_size=40, shuffle=True):
            guessed = model(means)
            loss = criterion(guessed, worst)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 50.0)
            session.step(loss, inputs=means, outputs=guessed, targets=worst)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("stopped_too_early", margin=0.1)
def patience_of_one_check(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping looks at a noisy loss of each fourth step, and gives up at the first that is not the best."""
    data = datasets.digits(seed)
    model = regressor(64, 10, hidden=48)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    patience = 1 if sick else 40
    session = watch(model, optimizer)
    best, bad = float("inf"), 0
    for step, (pixels, labels) in enumerate(data.batches(16, 320), 1):
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
        if step % 4 == 0:
            rows = torch.randint(len(data.test_inputs), (12,))
            with torch.no_grad(), session.validating():
                held_out = functional.cross_entropy(model(data.test_inputs[rows]), data.test_targets[rows]).item()
            session.validation(held_out)
            best, bad = min(best, held_out), 0 if held_out < best else bad + 1
            if bad >= patience:
                break
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)
