"""Sound trainings of distances: pairs, triplets, contrasts, proxies, students and teachers."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted

from . import material
from .material import descend


def _nearest(net: nn.Module, data: datasets.Data) -> float:
    """Returns the share of held-out rows whose nearest training row has their label."""
    known, asked = predicted(net, data.inputs), predicted(net, data.test_inputs)
    return (data.targets[torch.cdist(asked, known).argmin(1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def twins_that_tell_pairs_apart(watch: Watch, *, seed: int) -> float:
    """A siamese net under a contrastive loss: one net, called twice a step; distances are rooted with an epsilon."""
    data = datasets.digits(seed)
    net = material.mlp(64, 40, 8)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for one, two in torch.randint(len(data.inputs), (300, 2, 96)):
        same = (data.targets[one] == data.targets[two]).float()
        left, right = net(data.inputs[one]), net(data.inputs[two])
        apart = ((left - right).square().sum(1) + 1e-6).sqrt()
        loss = (4 * same * apart.square() + (1 - same) * (1.5 - apart).clamp(min=0).square()).mean()
        descend(session, optimizer, loss, inputs=data.inputs[one], outputs=left)
    return _nearest(net, data)


@healthy(at_least=0.85)
def hardest_triplets_of_the_batch(watch: Watch, *, seed: int) -> float:
    """Batch-hard triplets: the loss stands near the margin for a while, as only the hardest count, and then falls."""
    data = datasets.digits(seed)
    net = material.mlp(64, 48, 8)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 260):
        found = net(x)
        apart = ((found[:, None] - found[None]).square().sum(2) + 1e-6).sqrt()
        same = y[:, None] == y[None]
        far = torch.where(same, apart, -1.0).amax(1)
        near = torch.where(same, 1e6, apart).amin(1)
        descend(session, optimizer, F.softplus(far - near).mean(), inputs=x, outputs=found, targets=y)
    return _nearest(net, data)


@healthy(at_least=0.7)
def two_noisy_views_under_nt_xent(watch: Watch, *, seed: int) -> float:
    """NT-Xent between two noisy views of each digit: a loss that cannot reach zero."""
    data = datasets.digits(seed)
    net = material.mlp(64, 64, 16)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(64, 200):
        views = [F.dropout(x + 0.1 * torch.randn_like(x), 0.2) for _ in range(2)]
        found = F.normalize(net(torch.cat(views)), dim=1)
        near = (found @ found.T / 0.2).masked_fill(torch.eye(len(found), dtype=torch.bool), -1e4)
        asked = torch.arange(len(found)).roll(len(x))
        descend(session, optimizer, F.cross_entropy(near, asked), inputs=views[0], outputs=near, targets=asked)
    return _nearest(net, data)


@healthy(at_least=0.7)
def views_without_negatives(watch: Watch, *, seed: int) -> float:
    """BYOL: an averaged target net that gets no gradient, a predictor, and nothing that pushes apart."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    slow, guess = copy.deepcopy(net).requires_grad_(False), material.mlp(16, 32, 16)
    model = nn.ModuleDict({"net": net, "guess": guess})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for x, _ in data.batches(64, 200):
        one, two = (F.dropout(x + 0.1 * torch.randn_like(x), 0.2) for _ in range(2))
        with torch.no_grad():
            asked = F.normalize(torch.cat([slow(two), slow(one)]), dim=1)
        said = F.normalize(guess(net(torch.cat([one, two]))), dim=1)
        descend(session, optimizer, 2 - 2 * (said * asked).sum(1).mean(), inputs=one, outputs=said, targets=asked)
        with torch.no_grad():
            for mean, value in zip(slow.parameters(), net.parameters(), strict=True):
                mean.lerp_(value, 0.02)
    return _nearest(net, data)


@healthy(at_least=0.7)
def redundancy_is_reduced(watch: Watch, *, seed: int) -> float:
    """Barlow twins: correlations over the batch are wanted here, so rows of a batch do influence each other's loss."""
    data = datasets.digits(seed)
    net = material.mlp(64, 64, 12)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(96, 200):
        one, two = (net(F.dropout(x, 0.25)) for _ in range(2))
        one, two = ((value - value.mean(0)) / (value.std(0) + 1e-4) for value in (one, two))
        cross = one.T @ two / len(x)
        loss = (cross.diagonal() - 1).square().sum() + 0.05 * (cross - cross.diagonal().diag()).square().sum()
        descend(session, optimizer, loss, inputs=x, outputs=one)
    return _nearest(net, data)


@healthy(at_least=0.85)
def a_student_of_soft_answers(watch: Watch, *, seed: int) -> float:
    """Distillation at a temperature of four from a teacher in eval mode, without gradients; mixed with labels."""
    data = datasets.digits(seed)
    teacher, net = material.mlp(64, 96, 10), material.mlp(64, 16, 10)
    before = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for x, y in data.batches(64, 120):
        before.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        before.step()
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 240):
        out = net(x)
        soft = F.kl_div(
            (out / 4).log_softmax(1), (teacher(x) / 4).log_softmax(1), reduction="batchmean", log_target=True
        )
        loss = 0.7 * 16 * soft + 0.3 * F.cross_entropy(out, y)
        descend(session, optimizer, loss, inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.85)
def angles_with_a_margin(watch: Watch, *, seed: int) -> float:
    """ArcFace: cosines times sixteen with a margin at the true class, so that the loss begins above log K."""
    data = datasets.digits(seed)

    class Angles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.centres = material.mlp(64, 48, 16), nn.Parameter(torch.randn(10, 16))

        def forward(self, x: Tensor) -> Tensor:
            return F.normalize(self.body(x), dim=1) @ F.normalize(self.centres, dim=1).T

    net = Angles()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 240):
        near = net(x)
        out = 16 * (near - 0.2 * F.one_hot(y, 10))
        descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.75)
def better_ones_ranked_first(watch: Watch, *, seed: int) -> float:
    """RankNet: differences of scores of random pairs under a logistic loss. Quality: share of pairs in order."""
    data = material.curve(seed)
    net = material.mlp(4, 40, 1, act=nn.SiLU)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3, weight_decay=1e-3)
    session = watch(net, optimizer)
    for one, two in torch.randint(len(data.inputs), (300, 2, 48)):
        out = net(data.inputs[one]) - net(data.inputs[two])
        asked = (data.targets[one] > data.targets[two]).float()
        loss = F.binary_cross_entropy_with_logits(out, asked)
        descend(session, optimizer, loss, inputs=data.inputs[one], outputs=out, targets=asked)
    score, truth = predicted(net, data.test_inputs), data.test_targets
    return ((score > score.T) == (truth > truth.T)).float().mean().item()


@healthy(at_least=0.7)
def a_few_examples_and_a_query(watch: Watch, *, seed: int) -> float:
    """Prototypical episodes: five classes, four examples and six queries each; the loss differs from task to task."""
    data = datasets.digits(seed)
    rows = [(data.targets == one).nonzero()[:, 0] for one in range(10)]
    net = material.mlp(64, 48, 12)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for _ in range(260):
        kinds = torch.randperm(10)[:5]
        picked = torch.stack([rows[kind][torch.randperm(len(rows[kind]))[:10]] for kind in kinds.tolist()])
        found = net(data.inputs[picked])
        centres, asked = found[:, :4].mean(1), torch.arange(5).repeat_interleave(6)
        out = -torch.cdist(found[:, 4:].flatten(0, 1), centres).square()
        descend(session, optimizer, F.cross_entropy(out, asked), inputs=data.inputs[picked], outputs=out, targets=asked)
    return _nearest(net, data)
