"""Sound trainings of models with masks, signs, sines, graphs, gaps and copies."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened7.builds import Flat, convnet, explained, mlp, outputs_of, right
from examples.zoo.tuned.opened7.drills import Trainer, drill, falling, rounds
from examples.zoo.tuned.opened7.supplies import anew, communities, fresh, images, pixels

Told = dict[str, Tensor]


def _padded(size: int, *, length: int = 14) -> tuple[Tensor, Tensor]:
    """Words (N, length) of 2 to all places, then zeros; the class is which of two words is more frequent."""
    words = torch.randint(1, 20, (size, length))
    words = torch.where(torch.rand(size, length) < 0.3, torch.randint(1, 3, (size, 1)), words)
    words[torch.arange(length) >= torch.randint(4, length + 1, (size, 1))] = 0
    return words, ((words == 1).sum(1) > (words == 2).sum(1)).long()


@healthy(at_least=0.85)
def mostly_padding(watch: Watch, *, seed: int) -> float:
    """An embedding with a row of zeros for padding, which never gets a gradient, and a sum over words."""

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.body = nn.Embedding(20, 8, padding_idx=0), mlp(8, 16, 2)

        def forward(self, words: Tensor) -> Tensor:
            return self.body(self.embed(words).sum(1) / 2)

    model = Bag()
    optimizer = optim.Adam(model.parameters(), lr=2e-2)
    drill(watch, model, optimizer, fresh(_padded, 48, 220), after=falling(optimizer, 220))
    return right(model, anew(_padded, 1000, seed))


class Signs(nn.Module):
    """A hidden layer of signs, with the straight-through estimator."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 96), nn.Linear(96, 10)

    def forward(self, x: Tensor) -> Tensor:
        soft = self.first(x).tanh()
        return self.last(soft + (soft.sign() - soft).detach()) / 3


@healthy(at_least=0.85)
def a_binary_hidden_layer(watch: Watch, *, seed: int) -> float:
    """Hidden units are -1 or 1, and gradients pass as if they were not."""
    rows = pixels(seed)
    model = Signs()
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    drill(watch, model, optimizer, rows.epochs(48, 240), after=falling(optimizer, 240))
    return right(model, rows)


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (12.0 * x).sin()


@healthy(at_least=0.85)
def sines_of_large_arguments(watch: Watch, *, seed: int) -> float:
    """SIREN: a surface is fitted by sines whose arguments are scaled by 12, with its own initialisation."""

    def surface(size: int) -> tuple[Tensor, Tensor]:
        at = torch.rand(size, 2) * 2 - 1
        return at, (5 * at[:, 0]).sin() * (4 * at[:, 1]).cos() * 1.5 + 0.05 * torch.randn(size)

    model = Flat(mlp(2, 48, 48, 1, act=Sine))
    for index, layer in enumerate(layer for layer in model.body if isinstance(layer, nn.Linear)):
        bound = 1 / 2 / 4 if index == 0 else math.sqrt(6 / 48) / 12
        nn.init.uniform_(layer.weight, -bound, bound)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    drill(watch, model, optimizer, fresh(surface, 96, 350), F.mse_loss, after=falling(optimizer, 350))
    return explained(model, anew(surface, 1000, seed))


class Convolved(nn.Module):
    """Two rounds of averaging over neighbours."""

    def __init__(self, graph: Tensor) -> None:
        super().__init__()
        self.register_buffer("graph", graph)
        self.first, self.last, self.drop = nn.Linear(12, 8), nn.Linear(8, 4), nn.Dropout(0.5)

    def forward(self, features: Tensor) -> Tensor:
        return self.graph @ self.last(self.drop((self.graph @ self.first(features)).relu()))


@healthy(at_least=0.8)
def one_graph_in_each_step(watch: Watch, *, seed: int) -> float:
    """A graph net sees the same people in each step, and the loss counts those whose group is known."""
    rows, graph = communities(seed)
    graph = graph + torch.eye(len(graph))
    degree = graph.sum(1)
    model = Convolved(graph / (degree[:, None] * degree).sqrt())
    optimizer = optim.Adam(model.parameters(), lr=2e-2, weight_decay=2e-2)
    same = ((rows.x, rows.y) for _ in range(100))
    drill(watch, model, optimizer, same, lambda out, y: F.cross_entropy(out, y, ignore_index=-1))
    guess = outputs_of(model, rows.x_test).argmax(1)
    return (guess == rows.y_test)[rows.y_test >= 0].float().mean().item()


@healthy(at_least=0.85)
def blocks_skipped_by_chance(watch: Watch, *, seed: int) -> float:
    """Stochastic depth: in each step some residual blocks are left out and get no gradient."""

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(64, 48), nn.Linear(48, 10)
            self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(48), mlp(48, 48, 48)) for _ in range(5))

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            for block in self.blocks:
                if not self.training or torch.rand(()) < 0.7:
                    x = x + block(x) * (1.0 if self.training else 0.7)
            return self.last(x)

    rows = pixels(seed)
    model = Deep()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    decay = optim.lr_scheduler.CosineAnnealingLR(optimizer, 6 * 39)
    Trainer(model, optimizer, scheduler=decay).fit(watch, rows, epochs=6)
    return right(model, rows)


@healthy(at_least=0.85)
def a_teacher_that_follows(watch: Watch, *, seed: int) -> float:
    """Mean teacher: few labels, and a copy that averages the student's weights tells what noisy pictures are."""
    rows = images(seed)
    model = convnet()
    teacher = copy.deepcopy(model).requires_grad_(False)
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    labelled = torch.arange(400)

    def objective() -> tuple[Tensor, Told]:
        index, other = labelled[torch.randint(400, (32,))], torch.randint(len(rows.x), (48,))
        out = model(rows.x[index])
        noisy = model(rows.x[other] + 0.3 * torch.randn(48, 1, 8, 8))
        agree = F.mse_loss(noisy.softmax(1), teacher(rows.x[other]).softmax(1))
        loss = F.cross_entropy(out, rows.y[index], label_smoothing=0.05) + 2.0 * agree
        return loss, {"inputs": rows.x[index], "outputs": out, "targets": rows.y[index]}

    def follow() -> None:
        for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast.detach(), 0.1)

    rounds(watch, model, optimizer, 180, objective, after=follow)
    return right(model, rows)
