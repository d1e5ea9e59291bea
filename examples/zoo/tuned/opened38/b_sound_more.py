"""More sound trainings that look odd: whole batches, noise, rivals within a network, and counts."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened38.b_common import TAGS, matched, tagged


@healthy(at_least=0.8)
def all_rows_in_each_step(watch: Watch, *, seed: int) -> float:
    """A graph network sees all of its nodes in each step, and knows the labels of one in three."""
    drawn = datasets.digits(seed)
    pixels, labels = drawn.inputs[:500], drawn.targets[:500]
    nodes = (pixels - pixels.mean()) / pixels.std()
    near = torch.cdist(nodes, nodes).topk(6, largest=False).indices
    edges = torch.zeros(500, 500).scatter_(1, near, 1.0)
    edges = edges / edges.sum(1, keepdim=True)

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.drop, self.second = nn.Linear(64, 32), nn.Dropout(0.5), nn.Linear(32, 10)

        def forward(self, nodes: torch.Tensor) -> torch.Tensor:
            return edges @ self.second(self.drop((edges @ self.first(nodes)).relu()))

    model = Graph()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    session = watch(model, optimizer)
    known = torch.arange(500) % 3 == 0
    for _ in range(100):
        optimizer.zero_grad()
        outputs = model(nodes)
        loss = functional.cross_entropy(outputs[known], labels[known])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs[known], targets=labels[known])
        optimizer.step()
    return (predicted(model, nodes).argmax(1) == labels)[~known].float().mean().item()


@healthy(at_least=0.5)
def noise_is_the_target(watch: Watch, *, seed: int) -> float:
    """A small diffusion model says which noise was added to a digit; its loss falls fast and stays far above 0."""
    drawn = datasets.digits(seed)
    train, test = ((part - 0.3) / 0.37 for part in (drawn.inputs, drawn.test_inputs))
    model = nn.Sequential(nn.Linear(65, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def noised(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        time, noise = torch.rand(len(pixels), 1), torch.randn_like(pixels)
        mixed = (1.57 * time).cos() * pixels + (1.57 * time).sin() * noise
        return torch.cat([mixed, 2 * time - 1], 1), noise

    for pixels, _ in Data(train, drawn.targets, test, drawn.test_targets).batches(64, 350):
        inputs, noise = noised(pixels)
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=noise)
        optimizer.step()
    inputs, noise = noised(test)
    return samples.explained(predicted(model, inputs), noise)


class _Turned(torch.autograd.Function):
    @staticmethod
    def forward(_: object, values: torch.Tensor) -> torch.Tensor:
        """Returns the values."""
        return values.view_as(values)

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        """Returns the opposite of the gradient, made smaller."""
        return -0.2 * gradient


@healthy(at_least=0.8)
def features_that_hide_a_domain(watch: Watch, *, seed: int) -> float:
    """A second head tells inverted digits from others through a reversed gradient, and should not succeed."""
    drawn = datasets.digits(seed)
    mean, std = drawn.inputs.mean(), drawn.inputs.std()
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    model = nn.ModuleDict({"body": body, "number": nn.Linear(32, 10), "domain": nn.Linear(32, 2)})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in drawn.batches(64, 300):
        inverted = (torch.rand(len(pixels)) < 0.5).long()
        inputs = (torch.where(inverted[:, None] > 0, 0.6 - pixels, pixels) - mean) / std
        features = model["body"](inputs)
        outputs = model["number"](features)
        domain = model["domain"](_Turned.apply(features))
        loss = functional.cross_entropy(outputs, labels) + functional.cross_entropy(domain, inverted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    tests = (drawn.test_inputs - mean) / std
    found = predicted(nn.Sequential(model["body"], model["number"]), tests).argmax(1)
    return (found == drawn.test_targets).float().mean().item()


@healthy(at_least=0.4)
def counts_with_a_loss_below_zero(watch: Watch, *, seed: int) -> float:
    """A Poisson loss of a digit's ink, counted from 0 to 16 a pixel, is below 0 from early on, and goes on so."""
    drawn = datasets.digits(seed)
    data = Data(
        (drawn.inputs[:, :32] - 0.3) / 0.37,
        drawn.inputs[:, 32:].mul(16).view(-1, 4, 8).mean(2),
        (drawn.test_inputs[:, :32] - 0.3) / 0.37,
        drawn.test_inputs[:, 32:].mul(16).view(-1, 4, 8).mean(2),
    )
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.poisson_nll_loss, validate_every=50)
    return samples.explained(predicted(model, data.test_inputs).exp(), data.test_targets)


@healthy(at_least=0.7)
def seldom_tags_with_a_focal_loss(watch: Watch, *, seed: int) -> float:
    """Numbers and comments are rare among characters, and a focal loss leaves little gradient of what is known."""
    data = tagged(seed)

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(datasets.CHARACTERS, 24)
            self.near, self.far = nn.Conv1d(24, 48, 5, padding=2), nn.Conv1d(48, 48, 5, padding=4, dilation=2)
            self.head = nn.Linear(48, TAGS)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            near = self.near(self.letters(codes).mT).relu()
            return self.head((near + self.far(near).relu()).mT)

    def focal(outputs: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        losses = functional.cross_entropy(outputs.flatten(0, 1), tags.flatten(), reduction="none")
        return ((1 - (-losses).exp()).square() * losses).mean()

    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=focal)
    return matched(model, data)
