"""Sound trainings that look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy


@healthy(at_least=0.85)
def a_graph_that_is_one_batch(watch: Watch, *, seed: int) -> float:
    """A graph net on neighbours among digits: all nodes at each step, of which a fifth have labels."""
    data = datasets.digits(seed)
    nodes, labels = (
        torch.cat([data.inputs, data.test_inputs])[-1000:],
        torch.cat([data.targets, data.test_targets])[-1000:],
    )
    near = torch.cdist(nodes, nodes).topk(6, largest=False).indices
    edges = torch.zeros(1000, 1000).scatter_(1, near, 1.0)
    edges = edges / edges.sum(1, keepdim=True)
    marked = torch.arange(1000) < 200

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.drop = nn.Linear(64, 32), nn.Linear(32, 10), nn.Dropout(0.3)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return edges @ self.second(self.drop(torch.relu(edges @ self.first(values))))

    model = Graph()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    session = watch(model, optimizer)
    for _ in range(150):
        model.train()
        optimizer.zero_grad()
        outputs = model(nodes)
        loss = functional.cross_entropy(outputs[marked], labels[marked])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs[marked], targets=labels[marked])
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(nodes)[~marked], labels[~marked])


@healthy(at_least=0.9)
def mixed_pairs_of_pictures(watch: Watch, *, seed: int) -> float:
    """Mixup: pictures and labels are blends of two, so that the loss stays high by design."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    blend = torch.distributions.Beta(1.0, 1.0)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 200):
        share, order = blend.sample(), torch.randperm(len(images))
        marks = functional.one_hot(labels, 10).float()
        inputs, targets = share * images + (1 - share) * images[order], share * marks + (1 - share) * marks[order]
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def two_of_five_labels_are_wrong(watch: Watch, *, seed: int) -> float:
    """Annotators err in 40 of 100 rows; the loss stays near 1.7, and a small net finds what is right all the same."""
    data = datasets.digits(seed)
    wrong = torch.rand(len(data.targets)) < 0.4
    labels = torch.where(wrong, torch.randint(10, data.targets.shape), data.targets)
    noisy = datasets.Data(data.inputs, labels, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for inputs, targets in noisy.batches(64, 180):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def one_row_at_a_time(watch: Watch, *, seed: int) -> float:
    """Plain stochastic descent with one tumour at each step: losses jump from 0 to 3 and back."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(1, 380):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def triplets_ever_harder(watch: Watch, *, seed: int) -> float:
    """The hardest triplets of a batch are mined, so that the loss keeps near its margin while neighbours get right."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(96, 200):
        found = functional.normalize(model(images), dim=1)
        likeness, same = found @ found.T, labels[:, None] == labels
        worst = torch.where(same, likeness, 2.0).amin(1)
        nearest = torch.where(same, -2.0, likeness).amax(1)
        loss = torch.relu(nearest - worst + 0.3).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=found, targets=labels)
        optimizer.step()
    with torch.no_grad():
        known, asked = (functional.normalize(model(rows), dim=1) for rows in (data.inputs, data.test_inputs))
    return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


class _Block(nn.Module):
    """A residual block whose last layer starts at zero, so that it is the identity at first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.down(functional.gelu(self.up(self.norm(values))))


@healthy(at_least=0.9)
def blocks_that_start_as_nothing(watch: Watch, *, seed: int) -> float:
    """Six residual blocks end in zeros on purpose, and their first layers have no gradient in the first step."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), *(_Block(32) for _ in range(6)), nn.LayerNorm(32), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 150):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
