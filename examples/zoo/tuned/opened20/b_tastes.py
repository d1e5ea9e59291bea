"""Recommenders: digits that rate pixels, and halves that look for each other."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened20.b_stock import ratings


class _Factors(nn.Module):
    """A rating as the product of two vectors and two biases, around 3 stars or squeezed between 0 and 1."""

    def __init__(self, squeezed: bool = False) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(200, 6), nn.Embedding(64, 6)
        self.user_bias, self.item_bias = nn.Embedding(200, 1), nn.Embedding(64, 1)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.3)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)
        self._squeezed = squeezed

    def forward(self, who: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
        biases = self.user_bias(who) + self.item_bias(what)
        score = (self.users(who) * self.items(what)).sum(-1) + biases[:, 0]
        return torch.sigmoid(score) if self._squeezed else 2.2 + score


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units"), margin=0.2)
def stars_from_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sigmoid is left from clicks, and cannot give more than 1 of 5 stars; the twin's score is free."""
    train, test = ratings(seed)
    model = _Factors(squeezed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for _ in range(6):
        for who, what, stars in DataLoader(train, 256, shuffle=True):
            outputs = model(who, what)
            loss = functional.mse_loss(outputs, stars)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=(who, what), outputs=outputs, targets=stars)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(*test.tensors[:2])[:, None], test.tensors[2][:, None])


class _Collaborative(nn.Module):
    """Two vectors go through a tower of layers, which says how many stars there are."""

    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(200, 16), nn.Embedding(64, 16)
        layers: list[nn.Module] = []
        for _ in range(9):
            layers += [nn.Linear(32, 32), activation()]
        self.tower = nn.Sequential(*layers, nn.Linear(32, 1))

    def forward(self, who: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
        return self.tower(torch.cat([self.users(who), self.items(what)], 1))[:, 0]


@sick("vanishing_gradients", margin=0.2)
def a_tower_of_sigmoids_above_embeddings(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nine sigmoids lie between the stars and the embeddings, which get no gradient; the twin has leaky ReLUs."""
    train, test = ratings(seed)
    model = _Collaborative(nn.Sigmoid if sick else nn.LeakyReLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for who, what, stars in DataLoader(train, 256, shuffle=True):
            targets = (stars - 2.2) / 1.5
            outputs = model(who, what)
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=(who, what), outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(*test.tensors[:2])[:, None], (test.tensors[2][:, None] - 2.2) / 1.5)


@sick("parameters_not_in_optimizer", margin=0.03)
def more_rows_for_new_users(watch: Watch, *, seed: int, sick: bool) -> float:
    """The tables of users are made larger after the optimizer has its parameters; the twin makes the optimizer last."""
    train, test = ratings(seed)
    model = _Factors()
    model.users, model.user_bias = nn.Embedding(120, 6), nn.Embedding(120, 1)

    def optimizer_of() -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=2e-2)

    optimizer = optimizer_of()
    for name in ("users", "user_bias"):
        old = getattr(model, name)
        new = nn.Embedding(200, old.embedding_dim)
        nn.init.normal_(new.weight, std=0.3)
        new.weight.data[:120] = 0.3 * old.weight.data
        setattr(model, name, new)
    if not sick:
        optimizer = optimizer_of()
    session = watch(model, optimizer)
    for _ in range(6):
        for who, what, stars in DataLoader(train, 256, shuffle=True):
            outputs = model(who, what)
            loss = functional.mse_loss(outputs, stars)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=(who, what), outputs=outputs, targets=stars)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(*test.tensors[:2])[:, None], test.tensors[2][:, None])


@healthy(at_least=0.5)
def likes_are_told_from_random_items(watch: Watch, *, seed: int) -> float:
    """Only likes are known, and new negatives are drawn in each step, of which some are wrong: the loss stays high."""
    train, test = ratings(seed)
    liked = train.tensors[2] > 2.5
    fans, things = train.tensors[0][liked], train.tensors[1][liked]
    users, items = nn.Embedding(200, 12), nn.Embedding(64, 12)
    bias = nn.Embedding(64, 1)
    for table in (users, items, bias):
        nn.init.normal_(table.weight, std=0.1)
    model = nn.ModuleDict({"fans": users, "things": items, "bias": bias})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)

    def score(who: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
        return (users(who) * items(what)).sum(-1) + bias(what)[:, 0]

    for _ in range(10):
        for rows in torch.randperm(len(fans)).split(128):
            who = fans[rows].repeat(3)
            what = torch.cat([things[rows], torch.randint(64, (2 * len(rows),))])
            targets = torch.cat([torch.ones(len(rows)), torch.zeros(2 * len(rows))])
            outputs = score(who, what)
            loss = functional.binary_cross_entropy_with_logits(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=(who, what), outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        found = score(*test.tensors[:2])
    likes = test.tensors[2] > 2.5
    return (found[likes][:, None] > found[~likes][None, :]).float().mean().item()


@healthy(at_least=0.4)
def halves_find_each_other_in_the_batch(watch: Watch, *, seed: int) -> float:
    """Two towers: the other rows of a batch are the wrong answers, and the targets are 0, 1, 2 …, always in order."""
    train, test = samples.halves(seed)
    model = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 24)) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)

    def compared(upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        first, second = (functional.normalize(tower(rows)) for tower, rows in zip(model, (upper, lower), strict=True))
        return 12 * first @ second.T

    for _ in range(12):
        for upper, lower in DataLoader(train, 64, shuffle=True, drop_last=True):
            logits, targets = compared(upper, lower), torch.arange(len(upper))
            loss = (functional.cross_entropy(logits, targets) + functional.cross_entropy(logits.T, targets)) / 2
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=(upper, lower), outputs=logits, targets=targets)
            optimizer.step()
    with torch.no_grad():
        logits = compared(*(values[:100] for values in test.tensors))
        return (logits.topk(5).indices == torch.arange(100)[:, None]).any(1).float().mean().item()
