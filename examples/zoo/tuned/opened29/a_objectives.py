"""Objectives and budgets: terms that outweigh others, rare classes, roots, sums, and numbers of rows."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened29.a_stock import advance, drawn, judged


class _Variational(nn.Module):
    """A variational autoencoder of the lower halves of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 32))

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(pictures).chunk(2, 1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decoder(mean + noise * (log_variance / 2).exp()), mean, log_variance


@sick("over_regularized", margin=0.2)
def a_mean_beside_a_sum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors are a mean over batch and pixels, the divergence a sum over both: the code is empty; the twin sums errors.

    Both terms of the twin are sums over pixels and codes, and means over the batch. Quality: R².
    """
    train, test = (part.tensors[1] - 0.3 for part in samples.halves(seed))
    model = _Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(350):
        (pictures,) = drawn(64, train)
        found, mean, log_variance = model(pictures)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        if sick:
            loss = functional.mse_loss(found, pictures) + divergence
        else:
            loss = (10 * functional.mse_loss(found, pictures, reduction="sum") + divergence) / len(pictures)
        advance(session, optimizer, loss, pictures, found, pictures)
    return samples.explained(judged(model, test)[0], test)


class _Clinic(nn.Module):
    """A net of measurements, and of who was measured if it is told."""

    def __init__(self, *, known: bool) -> None:
        super().__init__()
        self.who = nn.Embedding(442, 16) if known else None
        self.net = nn.Sequential(nn.Linear(26 if known else 10, 12), nn.Tanh(), nn.Linear(12, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.who is None:
            return self.net(rows[:, 1:])
        return self.net(torch.cat([self.who(rows[:, 0].long()), rows[:, 1:]], 1))


@sick("overfitting", margin=0.1)
def the_number_of_the_patient_is_a_feature(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each patient's number has an embedding, and is learnt by heart; the twin leaves the column out. Quality: R²."""
    data = datasets.diabetes(seed)
    numbers = torch.arange(442)[:, None].float()
    rows = torch.cat([numbers[: len(data.inputs)], data.inputs], 1)
    test = torch.cat([numbers[len(data.inputs) :], data.test_inputs], 1)
    model = _Clinic(known=sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for _ in range(20):
        model.train()
        for some, truth in DataLoader(TensorDataset(rows, data.targets), 20, shuffle=True):
            found = model(some)
            advance(session, optimizer, functional.mse_loss(found, truth), some, found, truth)
        session.validation(functional.mse_loss(judged(model, test), data.test_targets).item())
    return samples.explained(judged(model, test), data.test_targets)


@sick("class_imbalance", margin=0.1)
def two_frauds_in_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two of 100 payments are frauds, and none is found; the twin draws as many of each. Quality: mean recall."""
    random = torch.Generator().manual_seed(seed)
    frauds = (torch.rand(6000, generator=random) < 0.02).long()
    shift = torch.tensor([0.9, -0.8, 0.7, 0.6, 0.0, 0.0, 0.0, 0.0])
    payments = torch.randn(6000, 8, generator=random) + frauds[:, None] * shift
    rows, labels = payments[:4000], frauds[:4000]
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    weights = torch.ones(4000) if sick else 1 / labels.bincount()[labels]
    session = watch(model, optimizer)
    for _ in range(250):
        chosen = torch.multinomial(weights, 64)
        logits = model(rows[chosen])
        loss = functional.cross_entropy(logits, labels[chosen])
        advance(session, optimizer, loss, rows[chosen], logits, labels[chosen])
    found, truth = judged(model, payments[4000:]).argmax(1), frauds[4000:]
    return sum((found[truth == label] == label).float().mean().item() for label in (0, 1)) / 2


class _Bilinear(nn.Module):
    """Pooled products of two channels, their signed roots, and a head, as in bilinear nets for fine classes."""

    def __init__(self, *, edge: float) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU())
        self.head, self.edge = nn.Linear(144, 2), edge

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features = self.body(pictures).flatten(2)
        products = (features @ features.transpose(1, 2) / features.shape[2]).flatten(1)
        return self.head(functional.normalize((products + self.edge).sqrt()))


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.1)
def roots_of_pooled_products(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bilinear net takes roots of products, and some are zero after a ReLU; the twin adds 1e-4 before."""
    train, test = samples.scenes(seed, count=900)
    model = _Bilinear(edge=0.0 if sick else 1e-4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, labels in DataLoader(train, 32, shuffle=True):
            logits = model(pictures)
            advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])


@sick("gradients_not_zeroed", also=("learning_rate_too_high",), margin=0.03)
def a_method_that_is_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` stands without parentheses, so that gradients add up; the twin calls it."""
    train, test = samples.standardised(samples.lines(seed, each=220), 0)
    model = nn.Sequential(nn.Linear(96, 40), nn.GELU(), nn.Dropout(0.3), nn.Linear(40, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    session = watch(model, optimizer)
    for _ in range(9):
        for rows, labels in DataLoader(train, 32, shuffle=True):
            if sick:
                optimizer.zero_grad  # noqa: B018
            else:
                optimizer.zero_grad()
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])


@sick("stopped_too_early", margin=0.05)
def patience_for_single_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training ends when 8 batches in a row were not better than the best one; the twin asks the validation."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    for step, (pictures, labels) in enumerate(data.batches(16, 400), 1):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        advance(session, optimizer, loss, pictures, logits, labels)
        asked = loss.item()
        if step % 40 == 0:
            validated = functional.cross_entropy(judged(model, data.test_inputs), data.test_targets).item()
            session.validation(validated)
            asked = asked if sick else validated
        elif not sick:
            continue
        best, waited = min(asked, best), 0 if asked < best else waited + 1
        if waited >= (8 if sick else 3):
            break
    return accuracy(model, data)
