"""Tables: survival, ranking, rare classes, counts, customers, and the layers and modes of their networks."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


def lives(seed: int, *, raw: bool) -> tuple[TensorDataset, TensorDataset]:
    """Measurements of tumours, how long one lives (N,), and whether that was seen, which it is of seven in ten."""
    random = torch.Generator().manual_seed(seed)
    plain, scaled = datasets.breast_cancer(seed, raw=True), datasets.breast_cancer(seed)
    shown = plain if raw else scaled
    parts = []
    for rows, known in ((shown.inputs, scaled.inputs), (shown.test_inputs, scaled.test_inputs)):
        risk = known[:, 22] + 0.7 * known[:, 27] - 0.5 * known[:, 9]
        time = -torch.rand(len(rows), generator=random).log() * torch.exp(-risk)
        end = -3 * torch.rand(len(rows), generator=random).log() * torch.exp(-risk.median())
        parts.append(TensorDataset(rows, torch.minimum(time, end), (time <= end).float()))
    return parts[0], parts[1]


def partial_likelihood(risk: torch.Tensor, time: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Cox's loss: how likely it is that who died first is the one who did."""
    order = time.argsort(descending=True)
    risk, seen = risk[order], seen[order]
    return -((risk - risk.logcumsumexp(0)) * seen).sum() / seen.sum().clamp(min=1)


def concordance(risk: torch.Tensor, time: torch.Tensor, seen: torch.Tensor) -> float:
    """Returns in which share of pairs the one of the higher risk died first."""
    pairs = (time[:, None] < time[None]) & (seen[:, None] > 0)
    return (risk[:, None] > risk[None])[pairs].float().mean().item()


@sick("inputs_not_normalized", also=("dead_units", "exploding_gradients"), margin=0.04)
def survival_from_areas_and_smoothness(watch: Watch, *, seed: int, sick: bool) -> float:
    """DeepSurv gets areas of 2,000 beside smoothness of 0.1; the twin gets them standardised. Quality: concordance."""
    train, test = lives(seed, raw=sick)
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows, time, seen in DataLoader(train, 64, shuffle=True):
            risk = model(rows)[:, 0]
            loss = partial_likelihood(risk, time, seen)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=risk, targets=time)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return concordance(model(test.tensors[0])[:, 0], *test.tensors[1:])


@sick("labels_unrelated", margin=0.06)
def features_sorted_by_query_and_grades_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """RankNet: features are sorted by query and joined with the grades by row, and those are not; the twin sorts both.

    Quality: in which share of all pairs the better one is first.
    """
    data = datasets.diabetes(seed)
    query = torch.arange(len(data.inputs)) % 6
    query = query[torch.randperm(len(query))]
    order = query.argsort(stable=True)
    grades = data.targets[:, 0] if sick else data.targets[order, 0]
    loader = DataLoader(TensorDataset(data.inputs[order], grades, query[order]), 48, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows, relevance, asked in loader:
            scores = model(rows)[:, 0]
            better = (relevance[:, None] > relevance[None]) & (asked[:, None] == asked[None])
            loss = functional.softplus(scores[None] - scores[:, None])[better].mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=scores, targets=relevance)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = model(data.test_inputs)[:, 0]
    better = data.test_targets > data.test_targets.T
    return (scores[:, None] > scores[None])[better].float().mean().item()


def _balanced(logits: torch.Tensor, labels: torch.Tensor) -> float:
    right = ((logits > 0) == (labels > 0.5)).float()
    return (right[labels > 0.5].mean().item() + right[labels < 0.5].mean().item()) / 2


@sick("class_imbalance", margin=0.1)
def one_fraud_in_fifty(watch: Watch, *, seed: int, sick: bool) -> float:
    """One row in fifty is a fraud, and a plain loss finds none; the twin's ``pos_weight`` counts them 49 times.

    Quality: the mean accuracy of both classes.
    """
    random = torch.Generator().manual_seed(seed)
    labels = (torch.rand(4000, generator=random) < 0.02).float()
    rows = torch.randn(4000, 12, generator=random)
    rows[:, :4] += 0.8 * labels[:, None]
    train, test = samples.split(seed, rows, labels)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    criterion = nn.BCEWithLogitsLoss(pos_weight=None if sick else torch.tensor(49.0))
    session = watch(model, optimizer)
    for _ in range(8):
        for batch, truth in DataLoader(train, 128, shuffle=True):
            logits = model(batch)[:, 0]
            loss = criterion(logits, truth)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=logits, targets=truth)
            optimizer.step()
    with torch.no_grad():
        return _balanced(model(test.tensors[0])[:, 0], test.tensors[1])


@sick("dead_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def the_prior_of_the_rare_in_every_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.apply`` sets all biases to log(1 / 99), which was meant for the last one; the twin sets that one."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    for layer in model if sick else model[-1:]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, -4.6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 150):
        logits = model(rows)[:, 0]
        loss = functional.binary_cross_entropy_with_logits(logits, labels.float())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return _balanced(model(data.test_inputs)[:, 0], data.test_targets.float())


@sick("wrong_mode", also=("inputs_not_normalized",), margin=0.1)
def a_check_of_the_validation_before_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A check of the validation calls ``model.eval()`` before training, and a first BatchNorm never learns the scales.

    The twin calls ``model.train()`` in each epoch.
    """
    train, test = samples.proline(seed)
    mean, std = train.tensors[1].mean(), train.tensors[1].std()
    model = nn.Sequential(nn.BatchNorm1d(12), nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def validated() -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            return model(test.tensors[0])

    validated()
    for _ in range(30):
        if not sick:
            model.train()
        for rows, proline in DataLoader(train, 16, shuffle=True, drop_last=True):
            targets = (proline - mean) / std
            outputs = model(rows)
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=targets)
            optimizer.step()
        outputs = validated()
        session.validation(functional.mse_loss(outputs, (test.tensors[1] - mean) / std).item())
    return samples.explained(validated(), (test.tensors[1] - mean) / std)
