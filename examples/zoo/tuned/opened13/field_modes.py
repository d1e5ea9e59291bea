"""Modes left over from a validation, and further faults of rates and ends of a training."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, springs, throws


@sick("wrong_mode", margin=0.1)
def a_check_before_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A check before training sets eval mode, so that batch norms never see a batch; the twin sets train mode again."""
    train, test = samples.numerals(seed)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 48)]
    for _ in range(5):
        layers += [nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 48)]
    model = nn.Sequential(*layers, nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    with session.validating(), torch.no_grad():
        session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item())
    if not sick:
        model.train()
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("wrong_mode", margin=0.05)
def judged_with_units_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validations leave the model in train mode, with most units dropped; the twin sets eval mode."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.6), nn.Linear(576, 32), nn.ReLU(), nn.Dropout(0.6),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    found = 0.0
    for _ in range(7):
        model.train()
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            logits = model(test.tensors[0])
            found = samples.accuracy(logits, test.tensors[1])
            validation = functional.cross_entropy(logits, test.tensors[1]).item()
        session.validation(validation, metrics={"accuracy": found})
    return found


@sick("learning_rate_too_low", margin=0.1)
def a_rate_divided_by_the_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is a mean already, and the rate is divided by the number of rows as well; the twin takes it as it is."""
    train, test = samples.scenes(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 12, 2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 1)
    )
    rate = 0.05
    optimizer = torch.optim.SGD(model.parameters(), lr=rate / len(train) if sick else rate, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, photographs in DataLoader(train, batch_size=40, shuffle=True):
            logits = model(images)
            loss = functional.binary_cross_entropy_with_logits(logits[:, 0], photographs.float())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits[:, 0], targets=photographs.float())
            optimizer.step()
    return judged(model, test)


@sick("stopped_too_early", margin=0.05)
def a_limit_of_steps_from_debugging(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ``break`` after 60 steps was left from debugging; the twin trains its fourteen epochs."""
    train, test = samples.standardised(throws(seed), 0, 1)
    model = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    session = watch(model, optimizer)
    step = 0
    for _ in range(14):
        for rows, distances in DataLoader(train, batch_size=42, shuffle=True):
            if sick and step == 60:
                break
            outputs = model(rows)
            loss = functional.mse_loss(outputs, distances)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=distances)
            optimizer.step()
            step += 1
    return judged(model, test, samples.explained)


@sick("saturated_units", also=("poor_initialization",), margin=0.1)
def a_gain_of_thirty_for_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """Xavier's initialisation gets a gain of 30, so that each tanh is at -1 or 1; the twin's gain is 5 / 3."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    for index in (0, 2):
        nn.init.xavier_normal_(model[index].get_parameter("weight"), gain=30 if sick else 5 / 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, places in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, places)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=places)
            optimizer.step()
    return judged(model, test, samples.explained)


class _Corn(nn.Module):
    """Ordinal logits: one score per row, and a threshold for each step between ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        self.thresholds = nn.Parameter(torch.tensor([1.0, 0.0, -1.0]))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.score(rows) + self.thresholds


def _ranked(outputs: torch.Tensor, ranks: torch.Tensor) -> float:
    return ((outputs > 0).sum(1) == ranks).float().mean().item()


@sick("flipped_loss_sign", margin=0.1)
def ordinal_steps_with_a_sign_too_many(watch: Watch, *, seed: int, sick: bool) -> float:
    """A binary cross-entropy for ordinal ranks, written by hand, lacks its minus; the twin has it."""
    train, test = samples.standardised(samples.tumours(seed), 0)
    limits = train.tensors[1][:, 3].quantile(torch.tensor([0.25, 0.5, 0.75]))
    ranks, test_ranks = (torch.bucketize(part.tensors[1][:, 3].contiguous(), limits) for part in (train, test))
    model = _Corn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, rank in DataLoader(TensorDataset(train.tensors[0], ranks), batch_size=32, shuffle=True):
            above = (rank[:, None] > torch.arange(3)).float()
            logits = model(rows)
            likelihood = above * functional.logsigmoid(logits) + (1 - above) * functional.logsigmoid(-logits)
            loss = likelihood.sum(1).mean() if sick else -likelihood.sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=above)
            optimizer.step()
    return judged(model, TensorDataset(test.tensors[0], test_ranks), _ranked)
