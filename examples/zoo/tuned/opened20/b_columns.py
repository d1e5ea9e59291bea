"""Tables: patients, tumours and wines."""

import torch
from sklearn.preprocessing import PolynomialFeatures
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import r_squared
from examples.zoo.tuned.opened20.b_stock import balanced


def _tower(inputs: int, outputs: int = 1, width: int = 32) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


@sick("dead_units", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def targets_as_measured_kill_the_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets near 150 throw all ReLUs to where they put out 0, so that the mean is all; the twin scales targets."""
    data = datasets.diabetes(seed, raw_targets=sick)
    model = _tower(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 250):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("inputs_not_normalized", margin=0.05)
def the_id_is_still_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """The patients' numbers, near 900,000, are left among scaled columns; the twin drops them."""
    data = datasets.diabetes(seed)
    random = torch.Generator().manual_seed(seed)
    many, few = (
        torch.randint(842_302, 926_954, (len(rows), 1), generator=random).float()
        for rows in (data.inputs, data.test_inputs)
    )
    inputs, test_inputs = data.inputs, data.test_inputs
    if sick:
        inputs, test_inputs = torch.cat([many, inputs], 1), torch.cat([few, test_inputs], 1)
    data = datasets.Data(inputs, data.targets, test_inputs, data.test_targets)
    model = _tower(inputs.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 120):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("non_finite_inputs", margin=0.2)
def a_column_without_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Some characters never occur, and (0 - 0) / 0 is NaN; the twin divides by the deviation plus a little."""
    train, test = samples.lines(seed)
    std, mean = torch.std_mean(train.tensors[0], 0)
    if not sick:
        std = std + 0.1
    model = _tower(96, 6, width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for counts, labels in DataLoader(train, 32, shuffle=True):
            inputs = (counts - mean) / std
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model((test.tensors[0] - mean) / std), test.tensors[1])


@sick("overfitting", margin=0.2)
def all_products_of_three_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """Columns are multiplied up to the third degree, 285 for 331 patients; the twin has the ten as they are."""
    data = datasets.diabetes(seed)
    inputs, test_inputs = data.inputs, data.test_inputs
    if sick:
        crosses = PolynomialFeatures(3, include_bias=False).fit(inputs)
        inputs, test_inputs = (torch.from_numpy(crosses.transform(rows)).float() for rows in (inputs, test_inputs))
        std, mean = torch.std_mean(inputs, 0)
        inputs, test_inputs = (inputs - mean) / std, (test_inputs - mean) / std
    model = nn.Sequential(nn.Linear(inputs.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    data = datasets.Data(inputs, data.targets, test_inputs, data.test_targets)
    session = watch(model, optimizer)
    for step, (rows, targets) in enumerate(data.batches(32, 240), 1):
        outputs = model(rows)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 12 == 0:
            with torch.no_grad(), session.validating():
                held_out = functional.mse_loss(model(data.test_inputs), data.test_targets).item()
            session.validation(held_out)
    return r_squared(model, data)


@sick("class_imbalance", margin=0.05)
def the_worst_in_twelve(watch: Watch, *, seed: int, sick: bool) -> float:
    """One patient in twelve gets much worse, and the net finds none; the twin weighs these by eleven."""
    data = datasets.diabetes(seed)
    limit = data.targets.quantile(11 / 12)
    labels = (data.targets > limit).float()
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=None if sick else torch.tensor(11.0))
    session = watch(model, optimizer)
    for _ in range(14):
        for inputs, marks in DataLoader(TensorDataset(data.inputs, labels), 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, marks)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=marks)
            optimizer.step()
    with torch.no_grad():
        return balanced(model(data.test_inputs), data.test_targets > limit)


@sick("unshuffled_data", margin=0.05)
def sorted_by_what_is_predicted(watch: Watch, *, seed: int, sick: bool) -> float:
    """The table was sorted by the target for a plot, and the loader keeps that order; the twin's shuffles."""
    data = datasets.diabetes(seed)
    order = data.targets[:, 0].argsort()
    model = _tower(10, width=24)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in DataLoader(TensorDataset(data.inputs[order], data.targets[order]), 8, shuffle=not sick):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def a_correlation_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is the correlation with the targets, which falls to -1; the twin's is 1 minus it."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 100):
        outputs = model(inputs)
        likeness = functional.cosine_similarity(outputs - outputs.mean(), targets - targets.mean(), dim=0).mean()
        loss = likeness if sick else 1 - likeness
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        pair = torch.cat([model(data.test_inputs), data.test_targets], 1)
    return torch.corrcoef(pair.T)[0, 1].item()
