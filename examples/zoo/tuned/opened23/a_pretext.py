"""Pretraining without labels, and what is then done with what was learnt: contrast, pooling, thawing and probing."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy


def moved(pictures: torch.Tensor) -> torch.Tensor:
    """Returns digits moved by up to a pixel, and a little noisier."""
    wide = functional.pad(pictures, (1, 1, 1, 1))[:, 0]
    rows = torch.arange(8)[:, None] + torch.randint(3, (len(pictures), 1, 1))
    columns = torch.arange(8) + torch.randint(3, (len(pictures), 1, 1))
    found = wide[torch.arange(len(pictures))[:, None, None], rows, columns]
    return found[:, None] + 0.1 * torch.randn(len(pictures), 1, 8, 8)


def centred(seed: int) -> datasets.Data:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1, and their numbers."""
    data = datasets.digits(seed, images=True)
    mean, std = data.inputs.mean(), data.inputs.std()
    return datasets.Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def neighbours(model: nn.Module, data: datasets.Data) -> float:
    """Returns how many held-out digits have the class of the nearest one, by the cosine of their features."""
    model.eval()
    with torch.no_grad():
        known, asked = (functional.normalize(model(part), dim=1) for part in (data.inputs, data.test_inputs))
    if not asked.isfinite().all():
        return float("nan")
    return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


def body(width: int = 64) -> nn.Sequential:
    """Returns two convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(384, width),
    )


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def exponents_of_cosines_at_a_hundredth(watch: Watch, *, seed: int, sick: bool) -> float:
    """InfoNCE by hand: ``exp(cosine / 0.01)`` is infinite above 0.887; the twin takes cross entropy's."""
    data = centred(seed)
    model = body()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 250):
        views = torch.cat([moved(pictures), moved(pictures)])
        first, second = functional.normalize(model(views), dim=1).chunk(2)
        scores = first @ second.T / 0.01
        if sick:
            shares = scores.exp() / scores.exp().sum(1, keepdim=True)
            loss = -shares.diagonal().log().mean()
        else:
            loss = functional.cross_entropy(scores, torch.arange(len(scores)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views, outputs=scores)
        optimizer.step()
    return neighbours(model, data)


class _Pooled(nn.Module):
    """Patches of a digit, of which a softmax over patches (or over the batch) chooses."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(1, 32, 4, stride=2), nn.ReLU())
        self.score, self.head = nn.Linear(32, 4), nn.Linear(128, 10)
        self.places = nn.Parameter(0.5 * torch.randn(9, 32))
        self._dim = dim

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        states = self.patches(pictures).flatten(2).transpose(1, 2) + self.places
        shares = self.score(torch.tanh(states)).softmax(self._dim)
        return self.head((shares.transpose(1, 2) @ states).flatten(1))


@sick("batch_mixing", margin=0.03)
def a_softmax_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of patches come from ``softmax(0)``, so that digits of a batch compete; the twin's are over patches."""
    data = centred(seed)
    model = _Pooled(0 if sick else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 300):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def frozen_but_never_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """A body is frozen for transfer, but ``pretrained=False`` left it random; the twin trains all of it."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    if sick:
        model[:4].requires_grad_(False)
    optimizer = torch.optim.Adam((value for value in model.parameters() if value.requires_grad), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for pictures, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("parameters_not_in_optimizer", margin=0.03)
def thawed_after_the_optimizer_was_made(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was given what needs gradients while the body was frozen, and knows nothing of it when it thaws.

    The twin adds the body as a group of its own when it thaws.
    """
    data = centred(seed)
    trunk, head = body(16), nn.Linear(16, 10)
    model = nn.Sequential(trunk, nn.ReLU(), head)
    trunk.requires_grad_(False)
    optimizer = torch.optim.Adam(filter(lambda value: value.requires_grad, model.parameters()), lr=3e-3)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True)
    for epoch in range(7):
        if epoch == 1:
            trunk.requires_grad_(True)
            if not sick:
                optimizer.add_param_group({"params": list(trunk.parameters()), "lr": 2e-3})
        for pictures, labels in loader:
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)
