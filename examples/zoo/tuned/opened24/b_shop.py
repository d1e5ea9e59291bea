"""Recommendations: ratings of items by users, by products of vectors."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, predicted, r_squared
from examples.zoo.tuned.opened24.b_sources import Factors, ratings


def _pairs_in_order(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out pairs of ratings that are ranked as they should be."""
    scores = predicted(model, data.test_inputs)
    better = data.test_targets[:, None] > data.test_targets[None] + 0.5
    return ((scores[:, None] > scores[None]) & better).sum().item() / better.sum().item()


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def all_factors_begin_at_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All entries of all vectors begin at 0.1, so that the factors stay copies; the twin draws them."""
    data = ratings(seed)
    model = Factors()
    if sick:
        nn.init.constant_(model.users.weight, 0.1)
        nn.init.constant_(model.items.weight, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("learning_rate_too_low", margin=0.2)
def the_rate_of_adam_for_sgd_on_tables_of_vectors(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each row of a table gets a small part of a mean over the batch, and SGD has Adam's 1e-3; the twin has Adam."""
    data = ratings(seed)
    model = Factors()
    rate = 1e-3 if sick else 0.02
    optimizer = torch.optim.SGD(model.parameters(), lr=rate) if sick else torch.optim.Adam(model.parameters(), lr=rate)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss, validate_every=50)
    return r_squared(model, data)


@sick("overfitting", margin=0.1)
def sixty_four_factors_for_forty_ratings_each(watch: Watch, *, seed: int, sick: bool) -> float:
    """Vectors of 64 entries learn each rating by heart; the twin has four entries and a decay."""
    data = ratings(seed)
    model = Factors(width=64 if sick else 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss, validate_every=25)
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def the_logarithm_of_the_sigmoid_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """BPR's log sigmoid of liked less disliked is minimised; the twin minimises its negative."""
    data = ratings(seed)
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-5)
    session = watch(model, optimizer)
    for pairs, scores in data.batches(128, 300):
        half = len(pairs) // 2
        (first, second), (one, other) = pairs.split([half, len(pairs) - half]), scores.split([half, len(pairs) - half])
        count = min(len(first), len(second))
        swap = (one[:count] < other[:count])[:, None]
        liked = torch.where(swap, second[:count], first[:count])
        disliked = torch.where(swap, first[:count], second[:count])
        optimizer.zero_grad()
        difference = model(liked) - model(disliked)
        loss = functional.logsigmoid(difference).mean()
        if not sick:
            loss = -loss
        loss.backward()
        session.step(loss, inputs=liked, outputs=difference)
        optimizer.step()
    return _pairs_in_order(model, data)


@sick("frozen_parameters", margin=0.1)
def from_pretrained_freezes_the_items(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Embedding.from_pretrained`` freezes vectors of items that know no taste; the twin says ``freeze=False``."""
    data = ratings(seed)
    model = Factors()
    described = torch.randn(50, 4) * 0.5
    model.items = nn.Embedding.from_pretrained(described, freeze=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("single_class_labels", also=("wrong_output_or_loss",), margin=0.3)
def stars_made_whole_after_they_were_scaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Shares of five stars are cut to whole numbers, all 0; the twin makes five classes of stars."""
    data = ratings(seed)

    def classes(scores: torch.Tensor, wrong: bool) -> torch.Tensor:
        share = torch.sigmoid(1.7 * scores)
        return share.long() if wrong else (share * 5).long().clamp(max=4)

    data = Data(data.inputs, classes(data.targets, sick), data.test_inputs, classes(data.test_targets, False))
    model = _Stars()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    fit(watch, model, optimizer, data, steps=300)
    apart = (predicted(model, data.test_inputs).argmax(-1) - data.test_targets).abs()
    return (apart <= 1).float().mean().item()


class _Stars(nn.Module):
    """A product of vectors, entry by entry, and five logits."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(60, 8), nn.Embedding(50, 8)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.3)
        self.head = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, 5)."""
        return self.head(self.users(pairs[:, 0]) * self.items(pairs[:, 1]))
