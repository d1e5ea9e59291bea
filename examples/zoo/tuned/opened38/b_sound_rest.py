"""Yet more sound trainings that look odd: restarts, many heads, and views."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened38.b_common import WORDS, chapters, matched


@healthy(at_least=0.75)
def three_descents_and_a_mean(watch: Watch, *, seed: int) -> float:
    """The rate restarts three times along a cosine, labels are smoothed, and words are dropped."""
    data = chapters(seed)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 32), nn.Dropout(0.4), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=90)
    smoothed = nn.CrossEntropyLoss(label_smoothing=0.1)
    fit(watch, model, optimizer, data, steps=270, loss_function=smoothed, scheduler=schedule)
    return matched(model, data)


@healthy(at_least=0.85)
def heads_at_each_depth(watch: Watch, *, seed: int) -> float:
    """Each of three blocks has a head with a loss of its own, and the last one is used."""
    train, test = samples.numerals(seed)
    data = Data(train.tensors[0].flatten(1), train.tensors[1], test.tensors[0].flatten(1), test.tensors[1])

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(3))
            self.heads = nn.ModuleList(nn.Linear(64, 10) for _ in range(3))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            found = []
            for block, head in zip(self.blocks, self.heads, strict=True):
                pixels = block(pixels)
                found.append(head(pixels))
            return torch.stack(found) if self.training else found[-1]

    model = Deep()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = sum(
            weight * functional.cross_entropy(one, labels) for weight, one in zip((0.3, 0.3, 1.0), outputs, strict=True)
        )
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs[-1], targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def views_that_agree_and_columns_that_do_not(watch: Watch, *, seed: int) -> float:
    """Barlow's twins: two noisy views correlate, other pairs of features do not; a neighbour is asked at the end."""
    drawn = datasets.digits(seed)
    train, test = ((part - 0.3) / 0.37 for part in (drawn.inputs, drawn.test_inputs))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pixels, _ in Data(train, drawn.targets, test, drawn.test_targets).batches(128, 200):
        one, other = (model(pixels + 0.4 * torch.randn_like(pixels)) for _ in range(2))
        one, other = ((view - view.mean(0)) / (view.std(0) + 1e-5) for view in (one, other))
        errors = (one.T @ other / len(pixels) - torch.eye(24)).square()
        loss = errors.diagonal().sum() + 0.05 * (errors.sum() - errors.diagonal().sum())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels)
        optimizer.step()
    nearest = torch.cdist(predicted(model, test), predicted(model, train)).argmin(1)
    return (drawn.targets[nearest] == drawn.test_targets).float().mean().item()
