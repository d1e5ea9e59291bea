"""Sound trainings of nets on graphs, sets, equations, and of nets made of parts."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted

from . import material
from .material import descend


@healthy(at_least=0.85)
def half_of_the_nodes_are_labelled(watch: Watch, *, seed: int) -> float:
    """A graph net with normalised adjacency on all nodes at once; only half of them enter the loss."""
    features, adjacency, kinds, known = material.community(seed)
    root = adjacency.sum(1).rsqrt()
    rule = root[:, None] * adjacency * root
    one, two = nn.Linear(8, 24), nn.Linear(24, 3)
    net = nn.ModuleList([one, two])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-3)
    session = watch(net, optimizer)
    for _ in range(120):
        out = two(rule @ F.dropout(one(rule @ features).relu(), 0.3))
        loss = F.cross_entropy(out[known], kinds[known])
        descend(session, optimizer, loss, inputs=features, outputs=out[known], targets=kinds[known])
    with torch.no_grad():
        return material.hit_rate(two(rule @ one(rule @ features).relu())[~known], kinds[~known])


@healthy(at_least=0.8)
def neighbours_weighed_by_attention(watch: Watch, *, seed: int) -> float:
    """Graph attention: scores of nodes that are no neighbours are masked by a very negative number."""
    features, adjacency, kinds, known = material.community(seed)
    lift, left, right, head = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 1), nn.Linear(16, 3)
    net = nn.ModuleList([lift, left, right, head])

    def forward() -> Tensor:
        values = lift(features)
        scores = F.leaky_relu(left(values) + right(values).T, 0.2).masked_fill(adjacency == 0, -1e9)
        return head(F.elu(scores.softmax(1) @ values))

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-2)
    session = watch(net, optimizer)
    for _ in range(120):
        out = forward()
        loss = F.cross_entropy(out[known], kinds[known])
        descend(session, optimizer, loss, inputs=features, outputs=out[known], targets=kinds[known])
    with torch.no_grad():
        return material.hit_rate(forward()[~known], kinds[~known])


@healthy(at_least=0.85)
def the_area_of_a_cloud(watch: Watch, *, seed: int) -> float:
    """A net on sets that takes the largest of all points: most points of a set get no gradient from it."""
    data = material.clouds(seed)
    each, whole = material.mlp(2, 32, 32), material.mlp(32, 32, 1)
    net = nn.ModuleDict({"each": each, "whole": whole})
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 260):
        out = whole(each(x).amax(1))
        descend(session, optimizer, F.smooth_l1_loss(out, y), inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        return material.fit_of(whole(each(data.test_inputs).amax(1)), data.test_targets)


@healthy(at_least=0.85)
def one_expert_of_four_for_each_row(watch: Watch, *, seed: int) -> float:
    """The best of four experts answers alone, weighted by its gate, with a loss for balance: some rest at times."""
    data = datasets.digits(seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.gate, self.head = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 10)
            self.experts = nn.ModuleList(material.mlp(32, 32, 32) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.lift(x)
            share, one = self.gate(x).softmax(1).max(1)
            found = torch.stack([expert(x) for expert in self.experts], 1)[torch.arange(len(x)), one]
            return self.head(x + share[:, None] * found)

    net = Experts()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 220):
        out = net(x)
        balance = net.gate(net.lift(x)).softmax(1).mean(0).square().sum() * 4
        descend(session, optimizer, F.cross_entropy(out, y) + 0.01 * balance, inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.9)
def an_equation_instead_of_data(watch: Watch, *, seed: int) -> float:
    """U' = -2u + sin t with the start built in: no targets at all, and second derivatives in each step."""
    net = material.mlp(1, 24, 24, 1, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session, random = watch(net, optimizer), material.drawn(seed)
    for _ in range(350):
        time = (2 * torch.rand(64, 1, generator=random)).requires_grad_()
        value = 1 + time * net(time)
        slope = torch.autograd.grad(value.sum(), time, create_graph=True)[0]
        loss = (slope + 2 * value - time.sin()).square().mean()
        descend(session, optimizer, loss, inputs=time, outputs=value)
    time = torch.linspace(0, 2, 50)[:, None]
    truth = 0.4 * time.sin() - 0.2 * time.cos() + 1.2 * (-2 * time).exp()
    with torch.no_grad():
        return material.fit_of(1 + time * net(time), truth)


@healthy(at_least=0.8)
def a_fast_tone_by_fourier_features(watch: Watch, *, seed: int) -> float:
    """A signal of many turns from its time, through random sines and cosines that are buffers and never trained."""
    random = material.drawn(seed)
    time = torch.rand(800, 1, generator=random)
    data = material.parted(2 * time - 1, (25 * time).sin() + 0.5 * (60 * time).cos())

    class Tones(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", 20 * torch.randn(1, 24))
            self.net = material.mlp(48, 32, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(torch.cat([(x * self.turns).sin(), (x * self.turns).cos()], 1))

    net = Tones()
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    fit(watch, net, optimizer, data, steps=260, batch_size=48, loss_function=F.mse_loss)
    return material.fit_of(predicted(net, data.test_inputs), data.test_targets)


@healthy(at_least=0.8)
def a_fixed_point_found_in_the_forward_pass(watch: Watch, *, seed: int) -> float:
    """An equilibrium model: twelve iterations without a graph, and one with it, for the gradient."""
    data = datasets.digits(seed)

    class Equilibrium(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.mix, self.head = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            x = self.lift(x)
            with torch.no_grad():
                state = torch.zeros_like(x)
                for _ in range(12):
                    state = (0.5 * self.mix(state) + x).tanh()
            return self.head((0.5 * self.mix(state) + x).tanh())

    net = Equilibrium()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=4e-3), data, steps=200, batch_size=64)
    return accuracy(net, data)


@healthy(at_least=0.8)
def items_and_users_multiplied(watch: Watch, *, seed: int) -> float:
    """Matrix factorisation by embeddings: in each step most rows have no gradient. Quality: R² of unseen ratings."""
    random = material.drawn(seed)
    left, right = torch.randn(50, 3, generator=random), torch.randn(40, 3, generator=random)
    pairs = torch.stack([torch.randint(50, (1600,), generator=random), torch.randint(40, (1600,), generator=random)], 1)
    ratings = (left[pairs[:, 0]] * right[pairs[:, 1]]).sum(1) + 0.1 * torch.randn(1600, generator=random)
    data = material.parted(pairs, ratings)
    net = nn.ModuleDict({"user": nn.Embedding(50, 4), "item": nn.Embedding(40, 4)})
    for one in net.parameters():
        nn.init.normal_(one, std=0.3)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-2, weight_decay=1e-4)
    session = watch(net, optimizer)

    def forward(pairs: Tensor) -> Tensor:
        return (net["user"](pairs[:, 0]) * net["item"](pairs[:, 1])).sum(1)

    for x, y in data.batches(64, 300):
        out = forward(x)
        descend(session, optimizer, F.mse_loss(out, y), inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        return material.fit_of(forward(data.test_inputs), data.test_targets)
