"""Small tables whose columns, targets or units go wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import held_out_loss, r_squared
from examples.zoo.tuned.opened15.a_motion import released, swing


def _balanced(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean of the classes' shares that are found."""
    found = logits.argmax(1) == labels
    return torch.stack([found[labels == label].float().mean() for label in labels.unique()]).mean().item()


@sick("single_class_labels")
def thirds_that_are_rounded_down_to_none(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three classes of illness: a patient's rank, from 0 to 1, is made whole before it is multiplied by three."""
    data = datasets.diabetes(seed, raw_targets=True)
    bounds = data.targets.flatten().quantile(torch.tensor([1 / 3, 2 / 3]))
    shares = data.targets.flatten().argsort().argsort() / len(data.targets)
    labels = shares.long() * 3 if sick else (shares * 3).long()
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows, classes in DataLoader(TensorDataset(data.inputs, labels), batch_size=32, shuffle=True):
            logits = model(rows)
            loss = functional.cross_entropy(logits, classes)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=classes)
            optimizer.step()
    with torch.no_grad():
        return _balanced(model(data.test_inputs), torch.bucketize(data.test_targets.flatten(), bounds))


@sick("inputs_not_normalized")
def angles_in_thousandths_of_a_degree(watch: Watch, *, seed: int, sick: bool) -> float:
    """A logger's columns: an angle in thousandths of a degree and a speed in radians; the twin has standard units."""
    states = released(seed, 1200)
    later = swing(states, 12)[:, -1]
    columns = states * torch.tensor([57296.0, 1.0])
    train, test = samples.split(seed, columns, later)
    if not sick:
        train, test = samples.standardised((train, test), 0)
    model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(22):
        for rows, ends in DataLoader(train, batch_size=64, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, ends)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=ends)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("dead_units")
def biases_far_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden biases begin at -6, "for sparsity": no wine wakes a unit; the twin's begin at zero."""
    data = datasets.wine(seed)
    hidden = nn.Linear(13, 32)
    nn.init.constant_(hidden.bias, -6.0 if sick else 0.0)
    model = nn.Sequential(hidden, nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for rows, kinds in data.batches(24, 150):
        logits = model(rows)
        loss = functional.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=kinds)
        optimizer.step()
    with torch.no_grad():
        return _balanced(model(data.test_inputs), data.test_targets)


@sick("saturated_units", also=("poor_initialization",))
def steep_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights before sigmoids are drawn from -12 to 12: all units are at one end; the twin keeps the default."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    first, second = nn.Linear(10, 24), nn.Linear(24, 24)
    model = nn.Sequential(first, nn.Sigmoid(), second, nn.Sigmoid(), nn.Linear(24, 10))
    if sick:
        nn.init.uniform_(first.weight, -12, 12)
        nn.init.uniform_(second.weight, -12, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(40):
        for rows, worst in DataLoader(train, batch_size=50, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=worst)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("overfitting")
def no_early_stopping_on_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns 330 patients by heart; the twin stops when its validation gets worse, and keeps the best."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session, best, kept, since = watch(model, optimizer), float("inf"), model.state_dict(), 0
    for _ in range(36):
        for batch in torch.randperm(len(data.inputs)).split(33):
            outputs = model(data.inputs[batch])
            loss = functional.mse_loss(outputs, data.targets[batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[batch], outputs=outputs, targets=data.targets[batch])
            optimizer.step()
        reached = held_out_loss(model, data, functional.mse_loss)
        session.validation(reached)
        since += 1
        if reached < best:
            best, kept, since = reached, copy.deepcopy(model.state_dict()), 0
        if not sick and since == 6:
            model.load_state_dict(kept)
            break
    return r_squared(model, data)


@sick("class_imbalance")
def a_dozen_malignant_tumours(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve malignant tumours among 250 benign ones, with two weak measurements; the twin weighs the rare class."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    rows, labels = train.tensors[0][:, [1, 4]], train.tensors[1]
    few = torch.cat([(labels == 0).nonzero()[:12, 0], (labels == 1).nonzero()[:250, 0]])
    rows, labels = rows[few], labels[few]
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    weight = None if sick else torch.tensor([20.0, 1.0]) / 2
    session = watch(model, optimizer)
    for _ in range(20):
        for batch in torch.randperm(len(rows)).split(32):
            logits = model(rows[batch])
            loss = functional.cross_entropy(logits, labels[batch], weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=logits, targets=labels[batch])
            optimizer.step()
    with torch.no_grad():
        return _balanced(model(test.tensors[0][:, [1, 4]]), test.tensors[1])
