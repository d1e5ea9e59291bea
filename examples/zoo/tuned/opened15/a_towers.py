"""Embeddings that are learned from pairs: two halves of a digit, or digits of one number, that belong together."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick


class _Towers(nn.Module):
    """One tower for the upper halves, one for the lower ones, and a temperature."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.upper = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, width))
        self.lower = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, width))
        self.scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, uppers: torch.Tensor, lowers: torch.Tensor) -> torch.Tensor:
        """Returns how well each upper half goes with each lower one."""
        ours = functional.normalize(self.upper(uppers), dim=1)
        theirs = functional.normalize(self.lower(lowers), dim=1)
        return self.scale.exp().clamp(max=100) * ours @ theirs.T


@torch.no_grad()
def _found_again(towers: _Towers, test: TensorDataset) -> float:
    """Returns how often an upper half's own lower one is among the best three of 60."""
    uppers, lowers = (column[:480].split(60) for column in test.tensors)
    hits = [
        (towers(up, low).topk(3, 1).indices == torch.arange(60)[:, None]).any(1)
        for up, low in zip(uppers, lowers, strict=True)
    ]
    return torch.cat(hits).float().mean().item()


@sick("labels_unrelated")
def halves_from_two_shuffled_loaders(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each half has a loader of its own that shuffles: what is paired does not belong together."""
    train, test = samples.halves(seed)
    towers = _Towers()
    optimizer = torch.optim.AdamW(towers.parameters(), lr=3e-3)
    together = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    apart = [DataLoader(TensorDataset(part), batch_size=64, shuffle=True, drop_last=True) for part in train.tensors]
    session = watch(towers, optimizer)
    for _ in range(14):
        pairs = ((up, low) for (up,), (low,) in zip(*apart, strict=True)) if sick else together
        for uppers, lowers in pairs:
            logits = towers(uppers, lowers)
            own = torch.arange(len(logits))
            loss = (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=uppers, outputs=logits, targets=own)
            optimizer.step()
    return _found_again(towers, test)


@sick("wrong_output_or_loss")
def similarities_through_two_softmaxes(watch: Watch, *, seed: int, sick: bool) -> float:
    """The similarities are made probabilities before ``cross_entropy``, which does so itself."""
    train, test = samples.halves(seed)
    towers = _Towers()
    optimizer = torch.optim.Adam(towers.parameters(), lr=2e-3)
    session = watch(towers, optimizer)
    for _ in range(12):
        for uppers, lowers in DataLoader(train, batch_size=80, shuffle=True, drop_last=True):
            scores = towers(uppers, lowers)
            if sick:
                scores = scores.softmax(1)
            own = torch.arange(len(scores))
            loss = functional.cross_entropy(scores, own)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=uppers, outputs=scores, targets=own)
            optimizer.step()
    return _found_again(towers, test)


@sick("detached_parameters")
def keys_without_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """The lower tower runs under ``no_grad``, as a momentum encoder does; but nothing else ever moves it."""
    train, test = samples.halves(seed)
    towers = _Towers()
    optimizer = torch.optim.Adam(towers.parameters(), lr=3e-3)
    session = watch(towers, optimizer)
    for _ in range(14):
        for uppers, lowers in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            queries = functional.normalize(towers.upper(uppers), dim=1)
            with torch.set_grad_enabled(not sick):
                keys = functional.normalize(towers.lower(lowers), dim=1)
            logits = towers.scale.exp() * queries @ keys.T
            own = torch.arange(len(logits))
            loss = functional.cross_entropy(logits, own)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=uppers, outputs=logits, targets=own)
            optimizer.step()
    return _found_again(towers, test)


def _nearest(embed: nn.Module, train: TensorDataset, test: TensorDataset) -> float:
    """Returns how often a test row's nearest training row has the same label."""
    with torch.no_grad():
        known, asked = embed(train.tensors[0]), embed(test.tensors[0])
        labels = train.tensors[1][torch.cdist(asked, known).argmin(1)]
        return (labels == test.tensors[1]).float().mean().item() if known.isfinite().all() else 0.0


@sick("non_finite_backward")
def the_root_of_a_distance_to_oneself(watch: Watch, *, seed: int, sick: bool) -> float:
    """All distances in a batch, also from a row to itself: the root's slope at zero is infinite; the twin adds 1e-6."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    embed = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(embed.parameters(), lr=2e-3)
    session = watch(embed, optimizer)
    for _ in range(15):
        for rows, labels in DataLoader(train, batch_size=48, shuffle=True):
            codes = embed(rows)
            squares = (codes[:, None] - codes[None]).square().sum(2)
            distances = (squares + (0.0 if sick else 1e-6)).sqrt()
            alike = labels[:, None] == labels[None]
            others = ~torch.eye(len(rows), dtype=torch.bool)
            near, far = distances[alike & others], distances[~alike]
            loss = near.square().mean() + functional.relu(2 - far).square().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=codes, targets=labels)
            optimizer.step()
    return _nearest(embed, train, test)


@healthy(at_least=0.5)
def towers_with_a_growing_batch(watch: Watch, *, seed: int) -> float:
    """Batches grow from 32 to 256, and the loss rises with each growth, as there are more rivals."""
    train, test = samples.halves(seed)
    towers = _Towers()
    optimizer = torch.optim.AdamW(towers.parameters(), lr=3e-3, weight_decay=1e-3)
    session = watch(towers, optimizer)
    for size, epochs in ((32, 3), (64, 4), (128, 6), (256, 8)):
        for _ in range(epochs):
            for uppers, lowers in DataLoader(train, batch_size=size, shuffle=True, drop_last=True):
                logits = towers(uppers, lowers)
                own = torch.arange(len(logits))
                loss = (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2
                optimizer.zero_grad()
                loss.backward()
                session.step(loss, inputs=uppers, outputs=logits, targets=own)
                optimizer.step()
    return _found_again(towers, test)


@healthy(at_least=0.75)
def triplets_of_the_hardest(watch: Watch, *, seed: int) -> float:
    """Triplets of the farthest friend and the nearest foe in the batch: the loss stays near chance for long."""
    train, test = samples.numerals(seed)
    embed = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 3))
    optimizer = torch.optim.Adam(embed.parameters(), lr=2e-3)
    session = watch(embed, optimizer)
    for _ in range(20):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            codes = embed(images)
            distances = torch.cdist(codes, codes)
            alike = labels[:, None] == labels[None]
            friend = distances.masked_fill(~alike, 0.0).amax(1)
            foe = distances.masked_fill(alike, 1e9).amin(1)
            loss = functional.softplus(friend - foe).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=codes, targets=labels)
            optimizer.step()
    return _nearest(embed, train, test)
