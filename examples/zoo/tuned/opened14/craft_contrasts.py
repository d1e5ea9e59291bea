"""Self-supervised learning: pairs that belong together, views of one thing, angles, and memories."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import SYMBOLS, digits, passages, share_right, shuffled


class _TwoTowers(nn.Module):
    """A tower for the upper halves of digits and one for the lower halves, on a unit sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.upper = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
        self.lower = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        """Returns the similarity of each upper half with each lower one."""
        return functional.normalize(self.upper(upper), dim=1) @ functional.normalize(self.lower(lower), dim=1).T


def _matched(net: _TwoTowers, test: torch.Tensor) -> float:
    """Returns how often the right lower half is among the ten most similar of a hundred."""
    with torch.no_grad():
        found = [net(part[:, :32], part[:, 32:]).topk(10).indices for part in test[:400].split(100)]
    return sum((one == torch.arange(100)[:, None]).any(1).float().mean().item() for one in found) / len(found)


@sick("labels_unrelated", margin=0.3)
def each_view_with_its_own_order(watch: Watch, *, seed: int, sick: bool) -> float:
    """Upper and lower halves come from two loaders that shuffle each for itself: no pair belongs together."""
    pixels, _, test, _ = digits(seed)
    net = _TwoTowers()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    others = shuffled(64, 220, pixels[:, 32:])
    for (both,) in shuffled(64, 220, pixels):
        lower = next(others)[0] if sick else both[:, 32:]
        scores = net(both[:, :32], lower) / 0.1
        own = torch.arange(64)
        loss = (functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)) / 2
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=both[:, :32], outputs=scores, targets=own)
        opt.step()
    return _matched(net, test)


@sick("flipped_loss_sign", margin=0.3)
def distances_taken_for_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """Cross entropy gets distances where their negatives belong: what belongs together is pushed apart."""
    pixels, _, test, _ = digits(seed)
    net = _TwoTowers()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for (both,) in shuffled(50, 220, pixels):
        distances = 2 - 2 * net(both[:, :32], both[:, 32:])
        scores = 5 * distances if sick else -5 * distances
        loss = functional.cross_entropy(scores, torch.arange(50))
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=both[:, :32], outputs=scores, targets=torch.arange(50))
        opt.step()
    return _matched(net, test)


@sick("non_finite_backward", margin=0.3)
def angle_between_a_thing_and_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """The arc cosine has an infinite slope at 1, a digit's similarity with itself; the twin leaves that pair out."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 12))
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(40, 150, pixels, numbers):
        points = functional.normalize(net(rows), dim=1)
        cosines = (points @ points.T).clamp(-1, 1)
        if not sick:
            cosines = 0.999 * cosines.masked_fill(torch.eye(40, dtype=torch.bool), 0.0)
        angles = cosines.acos()
        alike = (wanted[:, None] == wanted).float().fill_diagonal_(0.0)
        apart = (wanted[:, None] != wanted).float()
        loss = (alike * angles).sum() / alike.sum() + (apart * (1.5 - angles).clamp(min=0)).sum() / apart.sum()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        opt.step()
    with torch.no_grad():
        known, asked = functional.normalize(net(pixels), dim=1), functional.normalize(net(test), dim=1)
        return share_right(asked @ known.T @ functional.one_hot(numbers, 10).float() / 100, test_numbers)


class _Spelling(nn.Module):
    """Reads a passage into a point."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 24)
        self.mix = nn.Sequential(nn.Conv1d(24, 64, 4), nn.ReLU())
        self.last = nn.Linear(64, 24)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states = self.mix(self.embedding(codes).transpose(1, 2))
        return functional.normalize(self.last(states.mean(2)), dim=1)


@healthy(at_least=0.5)
def two_pieces_of_one_passage(watch: Watch, *, seed: int) -> float:
    """Two overlapping pieces of a passage belong together; the temperature is learnt, as CLIP does it.

    Quality: how often the other piece is found among a hundred.
    """
    train, test = passages(seed, 48, 3000, "shutil.py", "random.py", "configparser.py")
    net, scale = _Spelling(), nn.Parameter(torch.tensor(2.0))
    net.scale = scale
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for (rows,) in shuffled(50, 220, train):
        scores = scale.clamp(max=4.6).exp() * net(rows[:, :36]) @ net(rows[:, 12:]).T
        own = torch.arange(len(rows))
        loss = (functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)) / 2
        opt.zero_grad()
        loss.backward()
        session.step(loss)
        opt.step()
    with torch.no_grad():
        found = [share_right(net(part[:, :36]) @ net(part[:, 12:]).T, torch.arange(100)) for part in test.split(100)]
    return sum(found) / len(found)


@healthy(at_least=0.75)
def views_that_foretell_each_other(watch: Watch, *, seed: int) -> float:
    """SimSiam: a stopped gradient on one side of each pair, a cosine as the loss, which is below zero.

    Quality: the accuracy of the nearest mean of a digit's points.
    """
    pixels, numbers, test, test_numbers = digits(seed)
    coder = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32), nn.BatchNorm1d(32))
    guesser = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))
    net = nn.ModuleDict({"coder": coder, "guesser": guesser})
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    session = watch(net, opt)
    for (rows,) in shuffled(96, 200, pixels):
        one, two = (coder(rows * (torch.rand_like(rows) > 0.25) + 0.05 * torch.randn_like(rows)) for _ in "ab")
        loss = -functional.cosine_similarity(guesser(one), two.detach()).mean() / 2
        loss = loss - functional.cosine_similarity(guesser(two), one.detach()).mean() / 2
        opt.zero_grad()
        loss.backward()
        session.step(loss)
        opt.step()
    net.eval()
    with torch.no_grad():
        points, asked = functional.normalize(coder(pixels), dim=1), functional.normalize(coder(test), dim=1)
        means = functional.one_hot(numbers, 10).float().T @ points
    return share_right(asked @ functional.normalize(means, dim=1).T, test_numbers)
