"""Regressions and counts whose output, loss or batches do not fit, and rates that do not move anything."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import r_squared
from examples.zoo.tuned.opened15.a_motion import released, swing


@sick("target_out_of_range")
def a_rectified_output_for_signed_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """The net ends in a ReLU, as the illness is never negative; but its targets were standardised."""
    data = datasets.diabetes(seed)
    layers: list[nn.Module] = [nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 1)]
    model = nn.Sequential(*layers, *([nn.ReLU()] if sick else []))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    criterion = nn.HuberLoss()
    session = watch(model, optimizer)
    for patients, illness in data.batches(30, 150):
        outputs = model(patients)
        loss = criterion(outputs, illness)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=patients, outputs=outputs, targets=illness)
        optimizer.step()
    return r_squared(model, data)


_E = ord("e") - 32


def _letters(seed: int) -> samples.Pair:
    """Returns the roots of how often all other characters stand in three lines, and how often an e does."""
    train, test = (part.tensors[0] for part in samples.lines(seed))
    others = torch.arange(96) != _E
    pair = [TensorDataset(part[:, others].sqrt(), part[:, [_E]]) for part in (train, test)]
    return pair[0], pair[1]


@sick("wrong_output_or_loss")
def a_poisson_loss_that_expects_logarithms(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net puts out rates through a softplus; ``PoissonNLLLoss`` takes them as logarithms unless it is told."""
    train, test = _letters(seed)
    model = nn.Sequential(nn.Linear(95, 48), nn.ReLU(), nn.Linear(48, 1), nn.Softplus())
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    criterion = nn.PoissonNLLLoss(log_input=sick)
    session = watch(model, optimizer)
    for _ in range(12):
        for characters, counts in DataLoader(train, batch_size=50, shuffle=True):
            rates = model(characters)
            loss = criterion(rates, counts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=characters, outputs=rates, targets=counts)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("duplicated_data", also=("overfitting",))
def the_first_batch_of_a_new_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in each step begins anew, and a loader with a fixed order gives its first batch."""
    train, test = samples.names(seed)
    order = torch.randperm(len(train))
    mixed = TensorDataset(*(column[order] for column in train.tensors))
    loader = DataLoader(mixed, batch_size=32)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 16), nn.Flatten(), nn.Linear(384, 48), nn.Tanh())
    model.append(nn.Linear(48, len(samples.SCRIPTS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session, batches = watch(model, optimizer), iter(loader)
    for _ in range(190):
        if sick:
            names, labels = next(iter(loader))
        else:
            found = next(batches, None)
            if found is None:
                batches = iter(DataLoader(mixed, batch_size=32, shuffle=True))
                found = next(batches)
            names, labels = found
        logits = model(names)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=names, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("learning_rate_too_low")
def a_rate_that_is_multiplied_with_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """``LambdaLR`` takes a factor, but its function returns a rate: 0.01 of 0.01 is left."""
    paths = swing(released(seed, 900), 10)
    train, test = samples.split(seed, paths[:, 0], paths[:, -1])
    model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
    base = 0.01
    optimizer = torch.optim.SGD(model.parameters(), lr=base, momentum=0.9)

    def wanted(step: int) -> float:
        decayed = base / (1 + 0.005 * step)
        return decayed if sick else decayed / base

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, wanted)
    session = watch(model, optimizer)
    for _ in range(22):
        for states, ends in DataLoader(train, batch_size=42, shuffle=True):
            outputs = model(states)
            loss = functional.mse_loss(outputs, ends)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=states, outputs=outputs, targets=ends)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("labels_unrelated")
def a_column_sorted_on_its_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows are put in the order of their proline, but only the proline itself moves: a sort of one column."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    features, proline = train.tensors
    order = proline[:, 0].argsort()
    proline = proline[order]
    if not sick:
        features = features[order]
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(30):
        for rows, amounts in DataLoader(TensorDataset(features, proline), batch_size=20, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, amounts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=amounts)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])
