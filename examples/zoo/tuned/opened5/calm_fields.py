"""Sound trainings whose outputs are fields, spellings and densities."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import digits, iris
from examples.zoo.loops import predicted
from examples.zoo.tuned.opened5.material import (
    VOCABULARY,
    centres,
    chunks,
    correct,
    dense,
    explained,
    scenery,
)


@healthy(at_least=0.6)
def neighbours_of_words_against_drawn_ones(watch: Watch, *, seed: int) -> float:
    """Skip-grams with drawn negatives: a step touches few rows, others have no gradient. Quality: pairs told apart."""
    data = chunks(seed)
    pairs = torch.stack([data.inputs[:, :-1].flatten(), data.inputs[:, 1:].flatten()], 1)
    test = torch.stack([data.test_inputs[:, :-1].flatten(), data.test_inputs[:, 1:].flatten()], 1)
    model = nn.ModuleDict(
        {"word": nn.Embedding(VOCABULARY, 24, sparse=True), "next": nn.Embedding(VOCABULARY, 24, sparse=True)}
    )
    for table in model.values():
        nn.init.normal_(table.weight, std=0.3)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
    session = watch(model, optimizer)

    def scores(some: torch.Tensor) -> torch.Tensor:
        return (model["word"](some[:, 0]) * model["next"](some[:, 1])).sum(1)

    for rows in torch.randint(len(pairs), (360, 256)):
        near = pairs[rows]
        drawn = torch.stack([near[:, 0], pairs[torch.randint(len(pairs), (256,)), 1]], 1)
        both = torch.cat([scores(near), scores(drawn)])
        truth = torch.cat([torch.ones(256), torch.zeros(256)])
        loss = F.binary_cross_entropy_with_logits(both, truth)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=near, outputs=both, targets=truth)
        optimizer.step()
    with torch.no_grad():
        drawn = torch.stack([test[:, 0], test[torch.randperm(len(test)), 1]], 1)
        return (scores(test) > scores(drawn)).float().mean().item()


@healthy(at_least=0.7)
def slopes_of_a_photograph_beside_its_values(watch: Watch, *, seed: int) -> float:
    """A network of sines learns values and is held to a smooth field by its own derivatives: second-order autograd."""

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.inner, self.out = nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 1)

        def forward(self, places: torch.Tensor) -> torch.Tensor:
            return self.out(self.inner((12 * self.enter(places)).sin()).sin())

    data, model = scenery(seed), Waves()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for places, light in data.batches(100, 260):
        places = places.clone().requires_grad_()
        guess = model(places)
        (slope,) = torch.autograd.grad(guess.sum(), places, create_graph=True)
        loss = F.mse_loss(guess, light) + 1e-4 * slope.square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places, outputs=guess, targets=light)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.45)
def two_digits_read_without_being_told_where(watch: Watch, *, seed: int) -> float:
    """CTC over rows of pictures: for long the answer is all blanks and the loss stands still. Quality: digits read."""
    data = digits(seed)
    data = type(data)(
        data.inputs.view(-1, 8, 8).mT, data.targets, data.test_inputs.view(-1, 8, 8).mT, data.test_targets
    )

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRU(8, 40, batch_first=True, bidirectional=True), nn.Linear(80, 11)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.out(self.cell(rows)[0]).log_softmax(2)

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    lengths, ones = torch.full((40,), 16), torch.full((40,), 2)
    for pairs in torch.randint(len(data.inputs), (240, 40, 2)):
        rows, labels = data.inputs[pairs].flatten(1, 2), data.targets[pairs]
        spelt = model(rows)
        loss = F.ctc_loss(spelt.transpose(0, 1), labels + 1, lengths, ones, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=spelt, targets=labels)
        optimizer.step()
    pairs = torch.arange(len(data.test_inputs) // 2 * 2).view(-1, 2)
    best = predicted(model, data.test_inputs[pairs].flatten(1, 2)).argmax(2)
    hits = 0
    for path, truth in zip(best.unbind(), (data.test_targets[pairs] + 1).tolist(), strict=True):
        hits += [code for code in path.unique_consecutive().tolist() if code] == truth
    return hits / len(pairs)


@healthy(at_least=0.8)
def colours_with_a_spread_of_their_own(watch: Watch, *, seed: int) -> float:
    """A Gaussian likelihood of colours: the loss falls through zero and far below."""
    data = centres(seed)
    model = dense(24, 48, 6, act=nn.GELU)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for near, colour in data.batches(40, 260):
        guess = model(near)
        mean, spread = guess.chunk(2, 1)
        loss = F.gaussian_nll_loss(mean, colour, F.softplus(spread) + 1e-3)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=near, outputs=guess, targets=colour)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[:, :3], data.test_targets)


@healthy(at_least=0.5)
def density_of_flowers_by_couplings(watch: Watch, *, seed: int) -> float:
    """A normalising flow on four columns: a likelihood of densities. Quality: the share of classes it tells apart."""
    data = iris(seed)

    class Coupling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nets = nn.ModuleList(dense(2 + 3, 24, 4, act=nn.Tanh) for _ in range(4))

        def forward(self, rows: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
            known = F.one_hot(kinds, 3).float()
            density = torch.zeros(len(rows))
            for net in self.nets:
                fixed, free = rows.chunk(2, 1)
                shift, scale = net(torch.cat([fixed, known], 1)).chunk(2, 1)
                rows = torch.cat([free * scale.tanh().exp() + shift, fixed], 1)
                density = density + scale.tanh().sum(1)
            return density - rows.square().sum(1) / 2

    model = Coupling()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for rows, kinds in data.batches(28, 200):
        loss = -model(rows + 0.1 * torch.randn_like(rows), kinds).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=rows)
        optimizer.step()
    with torch.no_grad():
        rows = data.test_inputs
        densities = torch.stack([model(rows, torch.full((len(rows),), kind)) for kind in range(3)], 1)
    return correct(densities, data.test_targets)
