"""Generated data: series, drawings, graphs, sets, sequences of tokens, and small worlds."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Session
from examples.zoo.datasets import Data


def drawn(seed: int) -> torch.Generator:
    """Returns a generator of its own, so that data does not depend on what else is drawn."""
    return torch.Generator().manual_seed(7919 + seed)


def parted(inputs: Tensor, targets: Tensor, share: float = 0.75) -> Data:
    """Returns rows as they come, the first share of them to train on."""
    cut = int(share * len(inputs))
    return Data(inputs[:cut], targets[:cut], inputs[cut:], targets[cut:])


def waves(seed: int, *, count: int = 800, length: int = 32, noise: float = 0.3) -> Data:
    """Series (N, length) of four kinds with any phase: sine, square, saw, and a chirp."""
    random = drawn(seed)
    kinds = torch.randint(4, (count,), generator=random)
    time = torch.linspace(0, 3, length)[None] + torch.rand(count, 1, generator=random)
    turn = 2 * math.pi * time
    shapes = torch.stack([turn.sin(), turn.sin().sign(), 2 * (time % 1) - 1, (turn * time / 2).sin()], 1)
    series = shapes[torch.arange(count), kinds] + noise * torch.randn(count, length, generator=random)
    return parted(series, kinds)


def forecast(seed: int, *, count: int = 800, length: int = 20, ahead: int = 1, noise: float = 0.1) -> Data:
    """Windows (N, length) of two sines and noise, deviation about one; targets (N, ahead) are what follows."""
    random = drawn(seed)
    time = torch.arange(count + length + ahead).float()
    series = (0.37 * time).sin() + 0.8 * (0.11 * time + 1).sin() + noise * torch.randn(len(time), generator=random)
    windows = series.unfold(0, length + ahead, 1)[:count]
    windows = windows[torch.randperm(len(windows), generator=random)]
    return parted(windows[:, :length].contiguous(), windows[:, length:].contiguous())


def drawings(seed: int, *, count: int = 1000, side: int = 12, noise: float = 0.2) -> tuple[Data, Tensor, Tensor]:
    """Pictures (N, 1, side, side) of a disk, a box or a cross on noise, kinds 0 to 2; masks to train and test on."""
    random = drawn(seed)
    kinds = torch.randint(3, (count,), generator=random)
    centre = torch.rand(count, 2, 1, 1, generator=random) * (side - 6) + 3
    radius = torch.rand(count, 1, 1, generator=random) * 1.3 + 1.8
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    down, along = (rows - centre[:, 0]).abs(), (columns - centre[:, 1]).abs()
    disk = down.square() + along.square() <= radius.square()
    box = torch.maximum(down, along) <= radius * 0.9
    cross = (torch.minimum(down, along) <= 0.6) & (torch.maximum(down, along) <= radius + 1)
    masks = torch.stack([disk, box, cross], 1)[torch.arange(count), kinds].float()[:, None]
    images = 2 * masks - 0.3 + noise * torch.randn(count, 1, side, side, generator=random)
    cut = int(0.75 * count)
    return parted(images, kinds), masks[:cut], masks[cut:]


def community(seed: int, *, nodes: int = 150, groups: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A graph: features (N, 8) that say little, the adjacency with loops, groups, and which nodes are to train on."""
    random = drawn(seed)
    kinds = torch.randint(groups, (nodes,), generator=random)
    near = torch.where(kinds[:, None] == kinds[None], 0.15, 0.01)
    edges = torch.rand(nodes, nodes, generator=random).triu(1) < near.triu(1)
    adjacency = (edges | edges.T).float() + torch.eye(nodes)
    centres = torch.randn(groups, 8, generator=random)
    features = 0.5 * centres[kinds] + torch.randn(nodes, 8, generator=random)
    return features, adjacency, kinds, torch.rand(nodes, generator=random) < 0.5


def clouds(seed: int, *, count: int = 700, size: int = 12) -> Data:
    """Sets (N, size, 2) of points; the target (N, 1) is the standardised area of their bounding box."""
    random = drawn(seed)
    points = torch.randn(count, size, 2, generator=random) * (0.5 + torch.rand(count, 1, 2, generator=random))
    area = (points.amax(1) - points.amin(1)).prod(1, keepdim=True)
    return parted(points, (area - area.mean()) / area.std())


def curve(seed: int, *, count: int = 600, noise: float = 0.1) -> Data:
    """A smooth function of four numbers from a normal distribution; targets (N, 1) have a deviation of about one."""
    random = drawn(seed)
    x = torch.randn(count, 4, generator=random)
    y = (x[:, :1] * 1.5).sin() + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.3 * x[:, 3:]
    return parted(x, y + noise * torch.randn(count, 1, generator=random))


def brackets(seed: int, *, count: int = 900, length: int = 12) -> Data:
    """Codes 1 and 2 for opening and closing, (N, length), and whether they balance: half of them do."""
    random = drawn(seed)
    halves = torch.tensor([1] * (length // 2) + [2] * (length // 2))
    rows = torch.stack([halves[torch.randperm(length, generator=random)] for _ in range(6 * count)])
    depth = torch.where(rows == 1, 1, -1).cumsum(1).amin(1)
    good, bad = rows[depth >= 0][: count // 2], rows[depth < 0][: count // 2]
    codes = torch.cat([good, bad])
    labels = torch.cat([torch.ones(len(good)), torch.zeros(len(bad))]).long()
    order = torch.randperm(len(codes), generator=random)
    return parted(codes[order], labels[order])


def sums(seed: int, *, count: int = 900, length: int = 8) -> Data:
    """Digits from 0 to 4, (N, length), and their sum modulo 5 up to each place, (N, length)."""
    codes = torch.randint(5, (count, length), generator=drawn(seed))
    return parted(codes, codes.cumsum(1) % 5)


def reversed_codes(seed: int, *, count: int = 900, length: int = 6) -> Data:
    """Codes from 1 to 9, (N, length), and the same codes backwards."""
    codes = torch.randint(1, 10, (count, length), generator=drawn(seed))
    return parted(codes, codes.flip(1))


def rings(seed: int, *, count: int = 800, noise: float = 0.12) -> Data:
    """Points of the plane on three rings around zero, and on which one they are."""
    random = drawn(seed)
    kinds = torch.randint(3, (count,), generator=random)
    angle = 2 * math.pi * torch.rand(count, generator=random)
    radius = 0.5 + 0.6 * kinds + noise * torch.randn(count, generator=random)
    return parted(torch.stack([radius * angle.cos(), radius * angle.sin()], 1), kinds)


def flags(seed: int, *, count: int = 900) -> Data:
    """Five labels (N, 5) that may all be true, each a rule on twelve normal numbers."""
    random = drawn(seed)
    x = torch.randn(count, 12, generator=random)
    rules = torch.randn(12, 5, generator=random)
    return parted(x, ((x @ rules) / 12**0.5 + 0.2 * torch.randn(count, 5, generator=random) > 0.4).float())


def mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these widths with an activation between each two."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1])


def by_token(logits: Tensor, codes: Tensor) -> Tensor:
    """Returns the cross entropy of logits (N, T, K) and codes (N, T)."""
    return F.cross_entropy(logits.flatten(0, 1), codes.flatten())


def hit_rate(outputs: Tensor, targets: Tensor) -> float:
    """Returns the share of rows, or tokens, whose largest output is at the target."""
    return (outputs.argmax(-1) == targets).float().mean().item()


def fit_of(outputs: Tensor, targets: Tensor) -> float:
    """Returns R², -1 at least, NaN if it is NaN."""
    return (1 - (outputs - targets).square().mean() / targets.var()).clamp(min=-1).item()


def balanced(guess: Tensor, labels: Tensor) -> float:
    """Returns the mean over the classes of the share of their rows that are guessed."""
    return torch.stack([(guess[labels == one] == one).float().mean() for one in labels.unique()]).mean().item()


def descend(session: Session, optimizer: torch.optim.Optimizer, loss: Tensor, **told: object) -> None:
    """Takes one ordinary step, and tells the session what the loop knows."""
    optimizer.zero_grad()
    loss.backward()
    session.step(loss, **told)
    optimizer.step()
