"""Recommenders: factors of users and items, and scores of pairs."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened26.b_stock import ITEMS, USERS, columns, preferences, ratings


class Factors(nn.Module):
    """The product of a user's and an item's factors, and a bias of each."""

    def __init__(self, width: int = 8, spread: float = 0.1, *, sparse: bool = False) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, width, sparse=sparse), nn.Embedding(ITEMS, width, sparse=sparse)
        self.user_bias, self.item_bias = nn.Embedding(USERS, 1), nn.Embedding(ITEMS, 1)
        nn.init.normal_(self.users.weight, std=spread)
        nn.init.normal_(self.items.weight, std=spread)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Returns a score (N,) for each pair."""
        biases = self.user_bias(users) + self.item_bias(items)
        return (self.users(users) * self.items(items)).sum(-1) + biases.squeeze(-1)


def _rated(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    pair: samples.Pair,
    *,
    epochs: int,
    penalty: Callable[[], torch.Tensor] | None = None,
) -> float:
    session = watch(model, optimizer)
    for _ in range(epochs):
        for users, items, liked in DataLoader(pair[0], batch_size=128, shuffle=True):
            optimizer.zero_grad()
            scores = model(users, items)
            loss = functional.mse_loss(scores, liked)
            if penalty is not None:
                loss = loss + penalty()
            loss.backward()
            session.step(loss, inputs=users, outputs=scores, targets=liked)
            optimizer.step()
    return _explained(model, pair)


def _explained(model: nn.Module, pair: samples.Pair) -> float:
    users, items, liked = pair[1].tensors
    with torch.no_grad():
        return samples.explained(model(users, items), liked)


@sick("poor_initialization", also=("exploding_gradients",), margin=0.1)
def factors_as_wide_as_torch_draws_them(watch: Watch, *, seed: int, sick: bool) -> float:
    """64 factors with a deviation of 1, as ``nn.Embedding`` draws them, multiply to ±8; the twin draws with 0.05."""
    model = Factors(64, 1.0 if sick else 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return _rated(watch, model, optimizer, ratings(seed), epochs=9)


@sick("unbroken_symmetry", margin=0.1)
def every_factor_starts_at_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All factors are filled with 0.1, so that eight of them stay one; the twin draws them around 0."""
    model = Factors(8, 0.1)
    if sick:
        nn.init.constant_(model.users.weight, 0.1)
        nn.init.constant_(model.items.weight, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return _rated(watch, model, optimizer, ratings(seed), epochs=9)


@sick("over_regularized", margin=0.2)
def both_tables_are_shrunk_in_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The squares of both whole tables, times 0.01, join a batch's mean error; the twin's factor is 0.00001."""
    model = Factors(8, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def penalty() -> torch.Tensor:
        squares = model.users.weight.square().sum() + model.items.weight.square().sum()
        return (1e-2 if sick else 1e-5) * squares

    return _rated(watch, model, optimizer, ratings(seed), epochs=9, penalty=penalty)


@sick("frozen_parameters", margin=0.05)
def vectors_of_items_from_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """Vectors of noise go through ``from_pretrained``, which freezes them; the twin says ``freeze=False``."""
    pair = ratings(seed, count=9000)

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items = nn.Embedding.from_pretrained(0.3 * torch.randn(ITEMS, 16), freeze=sick)
            self.users = nn.Embedding.from_pretrained(0.3 * torch.randn(USERS, 16), freeze=sick)
            self.head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            user, item = self.users(users), self.items(items)
            return self.head(torch.cat([user, item, user * item], -1)).squeeze(-1)

    model = Deep()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return _rated(watch, model, optimizer, pair, epochs=6)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def one_optimizer_of_two_is_cleared(watch: Watch, *, seed: int, sick: bool) -> float:
    """Factors step by SGD and biases by Adam, and only Adam's gradients are zeroed; the twin zeroes both."""
    pair = ratings(seed)
    model = Factors(8, 0.3)
    tables = torch.optim.SGD([model.users.weight, model.items.weight], lr=4.0, momentum=0.5)
    biases = torch.optim.Adam([model.user_bias.weight, model.item_bias.weight], lr=5e-3)
    session = watch(model, [tables, biases])
    for _ in range(10):
        for users, items, liked in DataLoader(pair[0], batch_size=128, shuffle=True):
            biases.zero_grad()
            if not sick:
                tables.zero_grad()
            scores = model(users, items)
            loss = functional.mse_loss(scores, liked)
            loss.backward()
            session.step(loss, inputs=users, outputs=scores, targets=liked)
            tables.step()
            biases.step()
    return _explained(model, pair)


@sick("flipped_loss_sign", margin=0.2)
def the_margin_of_the_item_left_behind(watch: Watch, *, seed: int, sick: bool) -> float:
    """``margin_ranking_loss`` gets the score of the item left behind first; the twin has the liked one first."""
    train, test = columns(preferences(seed))
    model = Factors(8, 0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(10):
        for batch in torch.randperm(len(train[0])).split(128):
            users, liked, left = (column[batch] for column in train)
            good, bad = model(users, liked), model(users, left)
            first, second = (bad, good) if sick else (good, bad)
            loss = functional.margin_ranking_loss(first, second, torch.ones_like(good), margin=0.5)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=users)
            optimizer.step()
    users, liked, left = test
    return (model(users, liked) > model(users, left)).float().mean().item()


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.03)
def preferences_added_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The pairwise loss of 256 preferences is summed, at a rate for their mean; the twin takes the mean."""
    train, test = columns(preferences(seed))
    model = Factors(8, 0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(16):
        for batch in torch.randperm(len(train[0])).split(256):
            users, liked, left = (column[batch] for column in train)
            gap = model(users, liked) - model(users, left)
            losses = -functional.logsigmoid(gap)
            loss = losses.sum() if sick else losses.mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=users)
            optimizer.step()
    users, liked, left = test
    return (model(users, liked) > model(users, left)).float().mean().item()
