"""Sound trainings whose loss says little by itself, falls below zero, or is made of several."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


def _nearest(codes: torch.Tensor, labels: torch.Tensor, asked: torch.Tensor, wanted: torch.Tensor) -> float:
    return (labels[torch.cdist(asked, codes).argmin(1)] == wanted).float().mean().item()


@healthy(at_least=0.8)
def two_views_of_each_digit(watch: Watch, *, seed: int) -> float:
    """Contrastive: the two noisy views of a digit find each other in the batch; no labels."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(128, 150):
        views = [pixels + 0.15 * torch.randn(pixels.shape) for _ in range(2)]
        first, second = (functional.normalize(model(view), dim=1) for view in views)
        alike = first @ second.T / 0.2
        own = torch.arange(len(pixels))
        loss = (functional.cross_entropy(alike, own) + functional.cross_entropy(alike.T, own)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels)
        optimizer.step()
    with torch.no_grad():
        return _nearest(model(data.inputs), data.targets, model(data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def triplets_of_flowers(watch: Watch, *, seed: int) -> float:
    """Siamese: a triplet loss, which is zero for more and more triplets."""
    data = datasets.iris(seed)
    model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    by_kind = [(data.targets == one).nonzero()[:, 0] for one in range(3)]
    for _ in range(150):
        kinds = torch.randint(3, (32,))
        others = (kinds + torch.randint(1, 3, (32,))) % 3

        def draw(wanted: torch.Tensor) -> torch.Tensor:
            chosen = [by_kind[one][torch.randint(len(by_kind[one]), ())] for one in wanted.tolist()]
            return data.inputs[torch.stack(chosen)]

        anchor, positive, negative = (model(draw(one)) for one in (kinds, kinds, others))
        loss = functional.triplet_margin_loss(anchor, positive, negative, margin=1.0)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    with torch.no_grad():
        return _nearest(model(data.inputs), data.targets, model(data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def two_tasks_that_weigh_themselves(watch: Watch, *, seed: int) -> float:
    """Which digit it is, and how dark; each task's weight is learnt, and its logarithm takes the loss below zero."""
    data = datasets.digits(seed)
    model = nn.ModuleDict({
        "body": nn.Sequential(nn.Linear(64, 48), nn.ReLU()), "kind": nn.Linear(48, 10), "ink": nn.Linear(48, 1),
        "spread": nn.Embedding(2, 1),
    })  # fmt: skip
    nn.init.zeros_(model["spread"].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    ink = data.inputs.mean(1)
    mean, std = ink.mean(), ink.std()
    for pixels, labels in data.batches(64, 220):
        hidden = model["body"](pixels)
        wanted = (pixels.mean(1) - mean) / std
        spread = model["spread"](torch.arange(2))[:, 0]
        logits = model["kind"](hidden)
        losses = torch.stack(
            [functional.cross_entropy(logits, labels), functional.mse_loss(model["ink"](hidden)[:, 0], wanted)]
        )
        loss = (losses * (-spread).exp() + spread).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model["kind"](model["body"](data.test_inputs)), data.test_targets)


@healthy(at_least=0.85)
def mixed_pairs(watch: Watch, *, seed: int) -> float:
    """Mixup: each input is a mean of two digits, and so is its target; the loss stays high."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    session = watch(model, optimizer)
    mixing = torch.distributions.Beta(0.4, 0.4)
    for pixels, labels in data.batches(64, 220):
        share, other = mixing.sample((len(pixels), 1)), torch.randperm(len(pixels))
        wanted = functional.one_hot(labels, 10).float()
        pixels, wanted = (share * one + (1 - share) * one[other] for one in (pixels, wanted))
        logits = model(pixels)
        loss = functional.cross_entropy(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=wanted)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)


@healthy(at_least=0.8)
def an_actor_and_its_critic(watch: Watch, *, seed: int) -> float:
    """Policy, value and entropy in one loss, which may rise while the reward does."""
    data = datasets.wine(seed)
    body, actor, critic = nn.Sequential(nn.Linear(13, 32), nn.Tanh()), nn.Linear(32, 3), nn.Linear(32, 1)
    model = nn.ModuleList([body, actor, critic])
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for states, answers in data.batches(30, 250):
        hidden = body(states)
        policy, value = torch.distributions.Categorical(logits=actor(hidden)), critic(hidden)[:, 0]
        actions = policy.sample()
        rewards = (actions == answers).float()
        advantage = (rewards - value).detach()
        loss = -(advantage * policy.log_prob(actions)).mean() + 0.5 * (rewards - value).square().mean()
        loss = loss - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(actor(body(data.test_inputs)), data.test_targets)


class _Experts(nn.Module):
    """Six experts, the better two of which answer, and how evenly they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 6, bias=False)
        self.first = nn.Parameter(torch.randn(6, 64, 24) / 8)
        self.second = nn.Parameter(torch.randn(6, 24, 10) / 5)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chances = self.gate(pixels).softmax(1)
        best, chosen = chances.topk(2, 1)
        kept = torch.zeros_like(chances).scatter(1, chosen, best / best.sum(1, keepdim=True))
        hidden = torch.einsum("bi,eih->beh", pixels, self.first).relu()
        answers = torch.einsum("beh,eho->beo", hidden, self.second)
        uneven = 6 * ((kept > 0).float().mean(0) * chances.mean(0)).sum()
        return (kept[..., None] * answers).sum(1), uneven


@healthy(at_least=0.85)
def two_experts_of_six(watch: Watch, *, seed: int) -> float:
    """A mixture of experts with a small loss for balance; all experts are in two parameters."""
    data = datasets.digits(seed)
    model = _Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        logits, uneven = model(pixels)
        loss = functional.cross_entropy(logits, labels) + 0.01 * uneven
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs)[0], data.test_targets)


class _Packed(nn.Module):
    """An LSTM that sees no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 20, padding_idx=0)
        self.cell = nn.LSTM(20, 32, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        lengths = (codes > 0).sum(1).clamp(min=1)
        packed = pack_padded_sequence(self.letters(codes), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.cell(packed)
        return self.out(last.transpose(0, 1).flatten(1))


@healthy(at_least=0.45)
def names_without_their_padding(watch: Watch, *, seed: int) -> float:
    """Packed sequences in both directions, clipping, Adam."""
    train, test = samples.names(seed)
    model = _Packed()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for codes, kinds in DataLoader(train, 32, shuffle=True):
            logits = model(codes)
            loss = functional.cross_entropy(logits, kinds)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            session.step(loss, inputs=codes, outputs=logits, targets=kinds)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def messages_between_alike_wines(watch: Watch, *, seed: int) -> float:
    """A graph network on the six nearest neighbours of each wine: one batch of all rows, whose rows do mix."""
    data = datasets.wine(seed)
    rows, labels = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    near = torch.zeros(len(rows), len(rows)).scatter(
        1, torch.cdist(rows, rows).topk(7, 1, largest=False).indices, 1 / 7
    )
    first, second = nn.Linear(13, 24), nn.Linear(24, 3)
    model = nn.ModuleList([first, second])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    session = watch(model, optimizer)
    known = len(data.inputs)
    for _ in range(120):
        logits = second(near @ functional.dropout(first(near @ rows).relu(), 0.3))
        loss = functional.cross_entropy(logits[:known], labels[:known])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits[:known], targets=labels[:known])
        optimizer.step()
    with torch.no_grad():
        logits = second(near @ first(near @ rows).relu())
    return samples.accuracy(logits[known:], labels[known:])


class _OwnScale(nn.Module):
    """A regression that knows the scale of what it predicts."""

    def __init__(self, targets: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", targets.mean())
        self.register_buffer("std", targets.std())
        self.net = nn.Sequential(nn.BatchNorm1d(12), nn.Linear(12, 24), nn.Softplus(), nn.Linear(24, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.mean + self.std * self.net(rows)


@healthy(at_least=0.45)
def proline_in_its_own_units(watch: Watch, *, seed: int) -> float:
    """Raw columns into a batch norm, targets up to 1680, squared errors in the ten thousands: the scale is inside."""
    train, test = samples.proline(seed)
    model = _OwnScale(train.tensors[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(30):
        for rows, proline in DataLoader(train, 24, shuffle=True, drop_last=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, proline)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=proline)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])
