"""Sound trainings with losses of other kinds: adversaries, rewards, pairs, paths, densities, equations."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened7.builds import convnet, explained, mlp, outputs_of, right, separated, share
from examples.zoo.tuned.opened7.drills import drill, falling, rounds
from examples.zoo.tuned.opened7.supplies import Batches, Rows, anew, fresh, images, moons, pixels

Told = dict[str, Tensor]


@healthy(at_least=0.5)
def two_that_fight(watch: Watch, *, seed: int) -> float:
    """A generator and a critic of points on a ring; quality: the share of points that lie near it."""
    make, judge = mlp(4, 48, 48, 2), mlp(2, 48, 48, 1, act=lambda: nn.LeakyReLU(0.2))
    makes = optim.Adam(make.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judges = optim.Adam(judge.parameters(), lr=4e-3, betas=(0.5, 0.99))
    first, second = watch(make, makes), watch(judge, judges)
    for _ in range(400):
        angle = 6.2832 * torch.rand(96)
        real = 1.4 * torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(96, 2)
        made = make(torch.randn(96, 4))
        judges.zero_grad()
        loss = F.softplus(-judge(real)).mean() + F.softplus(judge(made.detach())).mean()
        loss.backward()
        second.step(loss, inputs=real)
        judges.step()
        makes.zero_grad()
        loss = F.softplus(-judge(made)).mean()
        loss.backward()
        first.step(loss)
        makes.step()
    radius = outputs_of(make, torch.randn(1000, 4)).norm(dim=1)
    return ((radius - 1.4).abs() < 0.35).float().mean().item()


@healthy(at_least=0.85)
def rewards_of_single_choices(watch: Watch, *, seed: int) -> float:
    """REINFORCE with a baseline: the right one of three choices earns 1, with noise; the loss says nothing."""
    rows = moons(seed, noise=0.15)
    model = mlp(2, 32, 32, 2)
    optimizer = optim.Adam(model.parameters(), lr=8e-3)
    usual = torch.tensor(0.5)

    def objective() -> tuple[Tensor, Told]:
        index = torch.randint(len(rows.x), (96,))
        policy = torch.distributions.Categorical(logits=model(rows.x[index]))
        choice = policy.sample()
        reward = (choice == rows.y[index]).float() + 0.3 * torch.randn(96)
        loss = -(policy.log_prob(choice) * (reward - usual)).mean() - 0.01 * policy.entropy().mean()
        usual.lerp_(reward.mean(), 0.1)
        return loss, {"inputs": rows.x[index]}

    rounds(watch, model, optimizer, 350, objective, after=falling(optimizer, 350))
    return right(model, rows)


@healthy(at_least=0.8)
def views_of_one_picture(watch: Watch, *, seed: int) -> float:
    """SimCLR: samples of a batch are compared by intention; quality: how near pictures of one class are."""
    rows = pixels(seed)
    model = mlp(64, 96, 24)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)

    def objective() -> tuple[Tensor, Told]:
        x = rows.x[torch.randint(len(rows.x), (64,))]
        one, two = (F.normalize(model(x + 0.5 * torch.randn_like(x)), dim=1) for _ in range(2))
        scores, same = one @ two.T / 0.2, torch.arange(64)
        return (F.cross_entropy(scores, same) + F.cross_entropy(scores.T, same)) / 2, {"inputs": x}

    rounds(watch, model, optimizer, 200, objective, after=falling(optimizer, 200))
    return _alike(model, rows)


def _alike(model: nn.Module, rows: Rows) -> float:
    places = outputs_of(model, rows.x_test)
    places = F.normalize(places, dim=1)
    return separated((places @ places.T).flatten(), (rows.y_test[:, None] == rows.y_test).flatten().long())


@healthy(at_least=0.9)
def triplets_mostly_in_order(watch: Watch, *, seed: int) -> float:
    """After a while nearly all triplets are in order, and most rows have no gradient."""
    rows = pixels(seed)
    model = mlp(64, 64, 16)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    def objective() -> tuple[Tensor, Told]:
        first = torch.randint(len(rows.x), (64,))
        same = (rows.y[first][:, None] == rows.y).float()
        anchor, near, far = (F.normalize(model(rows.x[index]), dim=1) for index in (
            first, same.multinomial(1)[:, 0], (1 - same).multinomial(1)[:, 0]))  # fmt: skip
        return F.triplet_margin_loss(anchor, near, far, margin=0.4), {"inputs": rows.x[first]}

    rounds(watch, model, optimizer, 220, objective, after=falling(optimizer, 220))
    return _alike(model, rows)


def _written(size: int) -> tuple[Tensor, Tensor]:
    """Noisy strokes (N, 15, 5), in which three of five signs last for some time each, and the signs (N, 3)."""
    signs = torch.randint(1, 5, (size, 3))
    place = torch.arange(15).expand(size, 15)
    lasts = place // 5
    shown = signs.gather(1, lasts) * ((place % 5) < torch.randint(2, 4, (size, 1))) * ((place % 5) > 0)
    return F.one_hot(shown, 5) * 2.0 + 0.5 * torch.randn(size, 15, 5), signs


@healthy(at_least=0.85)
def paths_of_unknown_length(watch: Watch, *, seed: int) -> float:
    """CTC: the net says blank everywhere for a while, before it begins to say signs; quality: of places."""
    model = nn.Sequential(
        _Turned(), nn.Conv1d(5, 32, 3, padding=1), nn.ReLU(), nn.Conv1d(32, 5, 3, padding=1), _Turned()
    )
    optimizer = optim.Adam(model.parameters(), lr=8e-3)

    def ctc(out: Tensor, signs: Tensor) -> Tensor:
        likely = out.log_softmax(2).transpose(0, 1)
        size = len(signs)
        return F.ctc_loss(likely, signs, torch.full((size,), 15), torch.full((size,), 3))

    drill(watch, model, optimizer, fresh(_written, 32, 260), ctc, after=falling(optimizer, 260))
    torch.manual_seed(seed + 1)
    x, signs = _written(300)
    said = outputs_of(model, x).argmax(2)
    found = [[int(code) for code in row.unique_consecutive() if code] for row in said]
    return sum(row == sign.tolist() for row, sign in zip(found, signs, strict=True)) / 300


class _Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mT


@healthy(at_least=0.75)
def tables_of_tastes(watch: Watch, *, seed: int) -> float:
    """Factors of users and films with biases; most factors get no gradient in a step; quality: R² of new marks."""
    random = torch.Generator().manual_seed(seed)
    taste, film = torch.randn(80, 3, generator=random), torch.randn(60, 3, generator=random)
    mood = 0.7 * torch.randn(80, generator=random)

    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.user, self.film, self.bias = nn.Embedding(80, 4), nn.Embedding(60, 4), nn.Embedding(80, 1)
            nn.init.normal_(self.user.weight, std=0.5)
            nn.init.normal_(self.film.weight, std=0.5)
            nn.init.zeros_(self.bias.weight)

        def forward(self, pair: Tensor) -> Tensor:
            user, film_ = pair.unbind(1)
            return (self.user(user) * self.film(film_)).sum(1) + self.bias(user)[:, 0]

    def marks(size: int) -> tuple[Tensor, Tensor]:
        user, which = torch.randint(80, (size,)), torch.randint(60, (size,))
        return torch.stack([user, which], 1), (taste[user] * film[which]).sum(1) / 1.7 + mood[user] + 0.3 * torch.randn(
            size
        )

    model = Factors()
    optimizer = optim.AdamW(model.parameters(), lr=5e-2, weight_decay=1e-2)
    drill(watch, model, optimizer, fresh(marks, 128, 350), F.mse_loss, after=falling(optimizer, 350))
    return explained(model, anew(marks, 2000, seed))


@healthy(at_least=0.9)
def taught_by_a_larger_net(watch: Watch, *, seed: int) -> float:
    """Distillation: a small net follows the softened probabilities of a large one, and the loss ends above 0."""
    rows = images(seed)
    teacher = convnet(16)
    learns = optim.Adam(teacher.parameters(), lr=5e-3)
    for x, y in rows.draws(48, 120):
        learns.zero_grad()
        F.cross_entropy(teacher(x), y, label_smoothing=0.1).backward()
        learns.step()
    teacher.eval().requires_grad_(False)
    model = convnet(6)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def softened() -> Batches:
        for x, _ in rows.epochs(32, 220):
            yield x, (teacher(x) / 3).log_softmax(1)

    def follow(out: Tensor, aim: Tensor) -> Tensor:
        return 9 * F.kl_div((out / 3).log_softmax(1), aim, reduction="batchmean", log_target=True)

    drill(watch, model, optimizer, softened(), follow, after=falling(optimizer, 220))
    return right(model, rows)


@healthy(at_least=0.9)
def a_density_above_one(watch: Watch, *, seed: int) -> float:
    """A mixture density of a narrow curve: the negative log-likelihood falls below zero, and stays; quality: R²."""

    def curve(size: int) -> tuple[Tensor, Tensor]:
        x = torch.rand(size, 1) * 4 - 2
        return x, (x[:, 0] * 1.5).sin() + 0.08 * torch.randn(size)

    model = mlp(1, 48, 48, 2, act=nn.Tanh)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def likelihood(out: Tensor, y: Tensor) -> Tensor:
        mean, log_std = out[:, 0], out[:, 1].clamp(-4, 3)
        return (log_std + 0.5 * ((y - mean) * (-log_std).exp()).square()).mean()

    drill(watch, model, optimizer, fresh(curve, 96, 350), likelihood, after=falling(optimizer, 350))
    torch.manual_seed(seed + 1)
    x, y = curve(1000)
    return share(outputs_of(model, x)[:, 0], y)


@healthy(at_least=0.9)
def margins_kept(watch: Watch, *, seed: int) -> float:
    """A multi-class hinge loss with a strong ridge: many rows are beyond the margin."""
    rows = pixels(seed)
    model = nn.Linear(64, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-3)
    drill(watch, model, optimizer, rows.epochs(48, 240), nn.MultiMarginLoss(), after=falling(optimizer, 240))
    return right(model, rows)
