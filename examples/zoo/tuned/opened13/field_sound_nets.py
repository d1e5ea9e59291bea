"""Sound trainings of nets that look odd inside: fixed features, tied weights, branches of zero, hard units."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened13.field_tools import judged, springs


@healthy(at_least=0.9)
def random_features_that_stay(watch: Watch, *, seed: int) -> float:
    """A kernel method: 400 random features of a sine are fixed on purpose, and the optimizer gets the readout alone."""
    train, test = samples.standardised(springs(seed), 0, 1)
    features = nn.Linear(4, 400)
    nn.init.normal_(features.weight, std=0.5)
    nn.init.uniform_(features.bias, 0, 6.28)
    features.requires_grad_(False)
    readout = nn.Linear(400, 1)
    optimizer = torch.optim.Adam(readout.parameters(), lr=5e-3)
    session = watch(readout, optimizer)
    for _ in range(18):
        for rows, places in DataLoader(train, batch_size=50, shuffle=True):
            found = torch.sin(features(rows))
            outputs = readout(found)
            loss = functional.mse_loss(outputs, places)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=found, outputs=outputs, targets=places)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(readout(torch.sin(features(test.tensors[0]))), test.tensors[1])


class _Branched(nn.Module):
    """A residual net whose branches end in weights of zero, so that it starts as a linear model."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.branches = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4)
        )
        for branch in self.branches:
            last = branch.get_submodule("3")
            for parameter in last.parameters():
                nn.init.zeros_(parameter)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        stream = self.stem(images.flatten(1))
        for branch in self.branches:
            stream = stream + branch(stream)
        logits: torch.Tensor = self.head(stream)
        return logits


@healthy(at_least=0.9)
def branches_that_start_at_zero(watch: Watch, *, seed: int) -> float:
    """The last layer of each residual branch is zero at first, so that the layers before it get no gradient at once."""
    train, test = samples.numerals(seed)
    model = _Branched()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=48, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


class _Tied(nn.Module):
    """An autoencoder whose decoder has the encoder's weights, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(20, 30))
        nn.init.orthogonal_(self.weight)
        self.hidden, self.visible = nn.Parameter(torch.zeros(20)), nn.Parameter(torch.zeros(30))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        codes = functional.leaky_relu(functional.linear(rows, self.weight, self.hidden), 0.3)
        return functional.linear(codes, self.weight.T, self.visible)


@healthy(at_least=0.8)
def tied_weights_of_a_decoder(watch: Watch, *, seed: int) -> float:
    """Encoder and decoder share one matrix, which gets gradients from both."""
    data = datasets.breast_cancer(seed)
    model = _Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(32, 280):
        rebuilt = model(rows)
        loss = functional.mse_loss(rebuilt, rows)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=rebuilt, targets=rows)
        optimizer.step()
    return judged(model, TensorDataset(data.test_inputs, data.test_inputs), samples.explained)


class _Hard(nn.Module):
    """Units that are -1 or 1; their gradients are those of a clipped line."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(64, 128), nn.BatchNorm1d(128), nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        soft = functional.hardtanh(self.norm(self.first(images.flatten(1))))
        logits: torch.Tensor = self.last(soft + (soft.sign() - soft).detach())
        return logits


@healthy(at_least=0.9)
def signs_with_a_gradient_of_their_own(watch: Watch, *, seed: int) -> float:
    """A net of binary units learns through a straight-through estimator, with a ``detach`` that belongs there."""
    train, test = samples.numerals(seed)
    model = _Hard()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.9)
def bfloat16_under_autocast(watch: Watch, *, seed: int) -> float:
    """Convolutions run in bfloat16 under autocast, weights and loss are float32, and nothing needs a scaler."""
    train, test = samples.scenes(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, batch_size=56, shuffle=True):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(images)
            loss = functional.cross_entropy(logits.float(), labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)
