"""Graphs of neighbouring rows, molecules of points, and sets whose order means nothing."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import (
    digits,
    explained,
    measurements,
    neighbourhood,
    share_right,
    shuffled,
)


def _joined(seed: int, name: str, labelled: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns all rows of a table, their labels, which are told, and the graph of the nearest rows."""
    rows, labels, more_rows, more_labels = measurements(name, seed, share=0.5)
    rows, labels = torch.cat([rows, more_rows]), torch.cat([labels, more_labels])
    return rows, labels, torch.arange(len(rows)) < labelled, neighbourhood(rows)


class _Convolutions(nn.Module):
    """Graph convolutions, each of which takes the mean of neighbours, and a head."""

    def __init__(self, sizes: list[int], squash: nn.Module, *, skip: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(sizes[0], sizes[1])
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes[1:-1]))
        self.head = nn.Linear(sizes[-2], sizes[-1])
        self.squash, self.skip = squash, skip

    def forward(self, rows: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        states = self.squash(graph @ self.first(rows))
        for layer in self.layers:
            after = self.squash(graph @ layer(states))
            states = states + after if self.skip else after
        return self.head(states)


@sick("vanishing_gradients", margin=0.15)
def nine_logistic_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nine graph convolutions with a sigmoid each, one on the other; the twin has a short cut around each."""
    rows, labels, told, graph = _joined(seed, "breast_cancer", 250)
    net = _Convolutions([30] + [24] * 9 + [2], nn.Sigmoid(), skip=not sick)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, opt)
    for _ in range(150):
        logits = net(rows, graph)
        loss = functional.cross_entropy(logits[told], labels[told])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits[told], targets=labels[told])
        opt.step()
    with torch.no_grad():
        return share_right(net(rows, graph)[~told], labels[~told])


@sick("over_regularized", margin=0.1)
def decay_of_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """The weight decay of the paper, 5e-4, is written 5e-1, and the weights of a graph network go to zero."""
    rows, labels, told, graph = _joined(seed, "wine", 60)
    net = _Convolutions([13, 16, 16, 3], nn.ReLU())
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-1 if sick else 5e-4)
    session = watch(net, opt)
    for _ in range(160):
        logits = net(functional.dropout(rows, 0.3), graph)[told]
        loss = functional.nll_loss(logits.log_softmax(1), labels[told])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels[told])
        opt.step()
    with torch.no_grad():
        return share_right(net(rows, graph)[~told], labels[~told])


def _springs(seed: int, count: int = 500) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns places (count, 6, 2) of six joined masses, and the energy of their springs."""
    places = 0.8 * torch.randn(count, 6, 2, generator=torch.Generator().manual_seed(seed))
    lengths = torch.cdist(places, places)
    return places, (0.5 * (lengths - 1).square().sum((1, 2)) / 30)[:, None]


class _Distances(nn.Module):
    """Embeds masses in a plane, and sums messages that depend on their distances."""

    def __init__(self, *, safe: bool) -> None:
        super().__init__()
        self.safe = safe
        self.embed = nn.Linear(2, 3)
        self.message = nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 16))
        self.read = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        states = self.embed(places)
        squares = (states[:, :, None] - states[:, None]).square().sum(-1, keepdim=True)
        distances = (squares + 1e-6).sqrt() if self.safe else squares.sqrt()
        return self.read(self.message(distances).mean((1, 2)))


@sick("non_finite_backward", margin=0.3)
def distance_of_a_mass_from_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """The root of a distance of zero, of each mass from itself, has an infinite slope; the twin adds 1e-6 first."""
    places, energy = _springs(seed)
    net = _Distances(safe=not sick)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(40, 200, places[:400], energy[:400]):
        outputs = net(rows)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(places[400:]), energy[400:])


class _Attention(nn.Module):
    """Looks at those points of a digit that are inked; an empty quarter has none."""

    def __init__(self, *, with_itself: bool) -> None:
        super().__init__()
        self.with_itself = with_itself
        self.key, self.value, self.query = nn.Linear(3, 16), nn.Linear(3, 24), nn.Parameter(torch.randn(4, 16) / 4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10))

    def forward(self, points: torch.Tensor, inked: torch.Tensor) -> torch.Tensor:
        points, inked = points.view(-1, 4, 16, 3), inked.view(-1, 4, 16)
        scores = (self.key(points) * self.query[:, None]).sum(-1)
        if self.with_itself:
            scores = torch.cat([scores.masked_fill(~inked, -torch.inf), torch.zeros_like(scores[..., :1])], -1)
            return self.head((scores.softmax(-1)[..., :-1, None] * self.value(points)).sum(2))
        return self.head((scores.masked_fill(~inked, -torch.inf).softmax(-1)[..., None] * self.value(points)).sum(2))


def _points(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the points (N, 64, 3) of digits, two rows after two, with their places and ink, and which are inked."""
    across, down = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="xy")
    places = torch.stack([across, down], -1).view(64, 2).expand(len(pixels), 64, 2)
    return torch.cat([places, pixels[..., None]], -1), pixels > 0.6


@sick("non_finite_forward", margin=0.3)
def attention_to_nobody(watch: Watch, *, seed: int, sick: bool) -> float:
    """All points of an empty part are masked, and the softmax over no score is NaN; the twin adds an empty seat."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _Attention(with_itself=not sick)
    opt = torch.optim.AdamW(net.parameters(), lr=8e-3)
    session = watch(net, opt)
    for points, inked, wanted in shuffled(64, 200, *_points(pixels), numbers):
        logits = net(points, inked)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=points, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(*_points(test)), test_numbers)


class _Sets(nn.Module):
    """A net for each member, the mean over the set, and a net for that."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 32), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, sets: torch.Tensor) -> torch.Tensor:
        return self.all(self.each(sets).mean(1))


def _handful(pixels: torch.Tensor, numbers: torch.Tensor, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns sets of three digits, and the mean of their numbers, from -1.5 to 1.5."""
    return pixels[chosen], (numbers[chosen].float().mean(1, keepdim=True) - 4.5) / 3


@sick("duplicated_data", also=("overfitting",), margin=0.15)
def a_generator_made_for_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sets of digits are drawn by a generator that is made, with its seed, within the function: always the same 24."""
    pixels, numbers, test, test_numbers = digits(seed)
    lasting = torch.Generator().manual_seed(1234)
    net = _Sets()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    judged = _handful(test, test_numbers, torch.randint(len(test), (400, 3), generator=torch.Generator()))
    for step in range(300):
        random = torch.Generator().manual_seed(1234) if sick else lasting
        rows, wanted = _handful(pixels, numbers, torch.randint(len(pixels), (24, 3), generator=random))
        outputs = net(rows)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
        if step % 50 == 49:
            with torch.no_grad(), session.validating():
                session.validation(functional.mse_loss(net(judged[0]), judged[1]))
    with torch.no_grad():
        return explained(net(judged[0]), judged[1])


@sick("unbroken_symmetry", margin=0.1)
def the_same_constant_in_each_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each weight of the members' net starts at the same number, so that all its units stay equal."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _Sets()
    if sick:
        for layer in (net.each[0], net.each[2]):
            nn.init.constant_(layer.weight, 0.05)
            nn.init.zeros_(layer.bias)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for _ in range(300):
        rows, wanted = _handful(pixels, numbers, torch.randint(len(pixels), (48, 3)))
        outputs = net(rows)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    rows, wanted = _handful(test, test_numbers, torch.randint(len(test), (400, 3)))
    with torch.no_grad():
        return explained(net(rows), wanted)


@healthy(at_least=0.9)
def the_whole_graph_at_each_step(watch: Watch, *, seed: int) -> float:
    """Thirty told labels on a graph of wines, all rows at each step, with dropout on rows, edges and units."""
    rows, labels, told, graph = _joined(seed, "wine", 30)
    net = _Convolutions([13, 24, 24, 3], nn.Sequential(nn.ELU(), nn.Dropout(0.4)))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-3)
    session = watch(net, opt)
    for _ in range(120):
        logits = net(functional.dropout(rows, 0.2), functional.dropout(graph, 0.2))[told]
        loss = functional.cross_entropy(logits, labels[told])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels[told])
        opt.step()
    net.eval()
    with torch.no_grad():
        return share_right(net(rows, graph)[~told], labels[~told])


@healthy(at_least=0.6)
def the_largest_of_a_set(watch: Watch, *, seed: int) -> float:
    """Sets of digits of two to five members: the largest number is asked for, by a maximum over members."""
    pixels, numbers, test, test_numbers = digits(seed)
    each, rest = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48)), nn.Linear(48, 10)
    net = nn.ModuleList([each, rest])
    opt = torch.optim.NAdam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for step in range(350):
        chosen = torch.randint(len(pixels), (40, 2 + step % 4))
        rows, wanted = pixels[chosen], numbers[chosen].max(1).values
        logits = rest(each(rows).max(1).values)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    chosen = torch.randint(len(test), (400, 3))
    with torch.no_grad():
        return share_right(rest(each(test[chosen]).max(1).values), test_numbers[chosen].max(1).values)
