"""Trainings on tables: of patients, wines, tumours and lines of code, in loops around their columns."""

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick


@sick("inputs_not_normalized", margin=0.05)
def blood_as_it_was_measured(watch: Watch, *, seed: int, sick: bool) -> float:
    """``load_diabetes(scaled=False)`` has cholesterol near 190 beside a sex of 1 or 2; the twin standardises it."""
    values, progress = load_diabetes(return_X_y=True, scaled=False)
    columns = torch.from_numpy(values).float(), torch.from_numpy(progress).float()[:, None]
    train, test = samples.standardised(samples.split(seed, *columns), *((1,) if sick else (0, 1)))
    model = nn.Sequential(nn.Linear(10, 32), nn.PReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(12):
        for inputs, targets in DataLoader(train, 16, shuffle=True):
            outputs = model(inputs)
            loss = functional.huber_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("non_finite_inputs", margin=0.2)
def seconds_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A column of seconds since 1970 is kept in float16, which ends at 65,504; the twin counts days of one year."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(14, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)

    def table(features: torch.Tensor) -> torch.Tensor:
        days = torch.arange(len(features), dtype=torch.float64)[:, None]
        when = 1.7e9 + 86400 * days if sick else days / 365
        return torch.cat([features.half(), when.half()], 1)

    train = TensorDataset(table(data.inputs), data.targets)
    for _ in range(20):
        for inputs, labels in DataLoader(train, 16, shuffle=True):
            outputs = model(inputs.float())
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(table(data.test_inputs).float()), data.test_targets)


@sick("unshuffled_data", margin=0.05)
def rows_sorted_by_their_target(watch: Watch, *, seed: int, sick: bool) -> float:
    """A query ends in ``ORDER BY worst_radius``, and rows are read as they come; the twin's loader shuffles."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    order = train.tensors[1][:, 0].argsort()
    train = TensorDataset(*(column[order] for column in train.tensors))
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for inputs, targets in DataLoader(train, 20, shuffle=not sick):
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def one_buffer_for_all_chunks(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reader fills one buffer for each chunk, and the list holds it over and over; the twin appends a clone."""
    train, test = samples.standardised(samples.lines(seed), 0)
    counts, files = train.tensors
    buffer, chunks = torch.empty(50, 96), []
    marks, labels = torch.empty(50, dtype=torch.long), []
    for start in range(0, len(counts) - 49, 50):
        buffer.copy_(counts[start : start + 50])
        marks.copy_(files[start : start + 50])
        chunks.append(buffer if sick else buffer.clone())
        labels.append(marks if sick else marks.clone())
    table = TensorDataset(torch.cat(chunks), torch.cat(labels))
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for inputs, targets in DataLoader(table, 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("detached_parameters", also=("no_update",), margin=0.2)
def a_loss_made_from_a_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.tensor(loss.item(), requires_grad=True)`` hushes an error and cuts the graph; the twin keeps the loss."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    model = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, targets in DataLoader(train, 16, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = (outputs - targets).abs().mean()
            if sick:
                loss = torch.tensor(loss.item(), requires_grad=True)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class _Lazy(nn.Module):
    """A net for any number of columns: the first layer is made when it sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.first: nn.Module | None = None
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(12, 6))

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        if self.first is None:
            self.first = nn.Linear(counts.shape[1], 12)
        return self.rest(self.first(counts))


@sick("parameters_not_in_optimizer", margin=0.05)
def a_layer_made_in_the_first_forward(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first layer is made when the first batch comes, after the optimizer; the twin shows the net a row before."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = _Lazy()
    if not sick:
        model(train.tensors[0][:1])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def one_row_at_a_time(watch: Watch, *, seed: int) -> float:
    """Stochastic gradient descent as it was meant: a batch is one tumour, and the loss jumps from step to step."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for inputs, labels in DataLoader(train, 1, shuffle=True):
        outputs = model(inputs)[:, 0]
        loss = functional.binary_cross_entropy_with_logits(outputs, labels.float())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
