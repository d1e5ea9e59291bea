"""Pictures, graphs and tastes, as well-known repositories learn from them."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy


@healthy(at_least=0.85)
def mixed_pictures_and_soft_targets(watch: Watch, *, seed: int) -> float:
    """The recipe of timm: a part of each picture comes from another, and ``sum(-target * log_softmax(outputs))``."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 150):
        side = int(torch.randint(2, 7, ()))
        inputs[:, :, :side, :side] = inputs.flip(0)[:, :, :side, :side]
        smooth = functional.one_hot(labels, 10) * 0.9 + 0.01
        kept = 1 - side * side / 64
        targets = smooth * kept + smooth.flip(0) * (1 - kept)
        outputs = model(inputs)
        loss = torch.sum(-targets * functional.log_softmax(outputs, dim=-1), dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


class _Bayesian(nn.Module):
    """A layer whose weights are drawn from normal distributions, with deviations of log(1 + exp(rho))."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mu = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.2, 0.2))
        self.rho = nn.Parameter(torch.empty(outputs, inputs).uniform_(-5, -4))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        sigma = torch.log1p(torch.exp(self.rho))
        weight = self.mu + sigma * torch.randn_like(sigma)
        prior = -0.5 * weight.square().sum()
        posterior = (-torch.log(sigma) - (weight - self.mu).square() / (2 * sigma**2)).sum()
        self.divergence = posterior - prior
        return functional.linear(values, weight)


@healthy(at_least=0.85)
def weights_with_deviations(watch: Watch, *, seed: int) -> float:
    """Bayes by Backprop: the divergence of all weights is a part of the loss, and rho starts between -5 and -4."""
    data = datasets.digits(seed)
    model = nn.Sequential(_Bayesian(64, 64), nn.ReLU(), _Bayesian(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(100, 200):
        model.zero_grad()
        outputs = functional.log_softmax(model(inputs), dim=1)
        divergence = model[0].divergence + model[2].divergence
        loss = divergence / 14 + functional.nll_loss(outputs, labels, reduction="sum")
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


def _graph(pixels: torch.Tensor) -> torch.Tensor:
    """The five nearest neighbours of each digit, (N, 5)."""
    return torch.cdist(pixels, pixels).topk(6, largest=False).indices[:, 1:]


class _Convolution(nn.Module):
    """Kipf's graph convolutions over a matrix of neighbours, with weights from the left."""

    def __init__(self, adjacency: torch.Tensor) -> None:
        super().__init__()
        self.adjacency = adjacency
        self.first = nn.Parameter(nn.init.xavier_normal_(torch.empty(64, 16)))
        self.second = nn.Parameter(nn.init.xavier_normal_(torch.empty(16, 10)))

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.adjacency @ (nodes @ self.first))
        hidden = functional.dropout(hidden, 0.5, self.training)
        return functional.log_softmax(self.adjacency @ (hidden @ self.second), dim=1)


@healthy(at_least=0.75)
def few_labels_in_a_graph(watch: Watch, *, seed: int) -> float:
    """PyTorch's graph convolution: all nodes at each step, and ``nll_loss`` of the log-probabilities of some."""
    data = datasets.digits(seed)
    nodes, labels = data.inputs[:600], data.targets[:600]
    adjacency = torch.zeros(600, 600).scatter_(1, _graph(nodes), 1.0) + torch.eye(600)
    adjacency = ((adjacency + adjacency.t()) > 0).float()
    root = adjacency.sum(1).rsqrt()
    model = _Convolution(root[:, None] * adjacency * root)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    session = watch(model, optimizer)
    known = torch.arange(140)
    for _ in range(200):
        optimizer.zero_grad()
        outputs = model(nodes)
        loss = functional.nll_loss(outputs[known], labels[known])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs[known], targets=labels[known])
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(nodes)[140:], labels[140:])


class _Sampled(nn.Module):
    """GraphSAGE: each node is joined with the mean of three neighbours, drawn at each call."""

    def __init__(self, nodes: torch.Tensor) -> None:
        super().__init__()
        self.nodes, self.neighbours = nodes, _graph(nodes)
        self.hidden, self.out = nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, chosen: torch.Tensor) -> torch.Tensor:
        drawn = self.neighbours[chosen][:, torch.randperm(5)[:3]]
        both = torch.cat([self.nodes[chosen], self.nodes[drawn].mean(1)], 1)
        return self.out(functional.dropout(functional.relu(self.hidden(both)), 0.5, self.training))


@healthy(at_least=0.9)
def drawn_neighbours(watch: Watch, *, seed: int) -> float:
    """Neighbours are drawn in evaluation, too, and ``functional.dropout`` is told that it rests there."""
    data = datasets.digits(seed)
    nodes, labels = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    model = _Sampled(nodes)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    known, rest = torch.arange(len(data.inputs)), torch.arange(len(data.inputs), len(nodes))
    share = 0.0
    for _ in range(8):
        model.train()
        for chosen in known[torch.randperm(len(known))].split(64):
            outputs = model(chosen)
            loss = functional.cross_entropy(outputs, labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=chosen, outputs=outputs, targets=labels[chosen])
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            share = samples.accuracy(model(rest), labels[rest])
    return share


@healthy(at_least=0.65)
def tastes_in_order(watch: Watch, *, seed: int) -> float:
    """BPR: of two items, the one that a user chose comes first; the loss is summed over pairs, and Adam scales it."""
    users, items = torch.randn(200, 2), torch.pca_lowrank(datasets.digits(seed).inputs[:300], 2)[0] * math.sqrt(300)
    tastes = users @ items.T + 0.5 * torch.randn(200, 300)
    liked = (tastes > 1).nonzero()
    liked = liked[torch.randperm(len(liked))[:9000]]
    model = nn.ModuleDict({"of_users": nn.Embedding(200, 16), "of_items": nn.Embedding(300, 16)})
    for table in model.values():
        nn.init.normal_(table.weight, std=0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-6)
    session = watch(model, optimizer)

    def margin(pairs: torch.Tensor) -> torch.Tensor:
        others = model["of_items"](torch.randint(300, (len(pairs),)))
        return (model["of_users"](pairs[:, 0]) * (model["of_items"](pairs[:, 1]) - others)).sum(-1)

    for _ in range(200):
        pairs = liked[torch.randint(7000, (256,))]
        model.zero_grad()
        loss = -margin(pairs).sigmoid().log().sum()
        loss.backward()
        session.step(loss)
        optimizer.step()
    with torch.no_grad():
        return (margin(liked[7000:]) > 0).float().mean().item()
