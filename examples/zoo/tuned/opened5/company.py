"""Rows that see each other, and what a machine runs out of."""

import os
import time
import zlib
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    VOWELS,
    dense,
    explained,
    series,
    turned,
    words,
)
from examples.zoo.two_ranks import RANKS, on_two_ranks


@sick("batch_mixing")
def differences_between_series(watch: Watch, *, seed: int, sick: bool) -> float:
    """Differences from moment to moment are what a network sees; ``diff(dim=0)`` takes them from series to series."""

    class Changes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = dense(24, 48, 1, act=nn.GELU)

        def forward(self, past: torch.Tensor) -> torch.Tensor:
            values = past[:, 0]
            before = torch.zeros_like(values[:1]) if sick else torch.zeros_like(values[:, :1])
            return self.body(values.diff(dim=0 if sick else 1, prepend=before))

    data, model = series(seed), Changes()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=40, loss_function=F.mse_loss, validate_every=60)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("batch_mixing")
def letter_too_many_in_an_einsum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention by ``einsum``: a ``c`` where a ``b`` belongs sums over the values of all samples of the batch."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(ALPHABET, 24)
            self.query, self.key, self.value = (nn.Linear(24, 24) for _ in range(3))
            self.out = nn.Linear(24, VOWELS)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            values = self.letters(codes)
            scores = torch.einsum("bqd,bkd->bqk", self.query(values), self.key(values)) / 24**0.5
            weights = scores.softmax(-1)
            if sick:
                mixed = torch.einsum("bqk,ckd->bqd", weights, self.value(values)) / len(codes)
            else:
                mixed = torch.einsum("bqk,bkd->bqd", weights, self.value(values))
            return self.out(mixed.relu().sum(1))

    data, model = words(seed), Attention()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, kinds in data.batches(40, 220):
        logits = model(codes)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


def occupied() -> float:
    """Returns the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@sick("memory_leak", margin=0.08)
def features_remembered_for_every_noise(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cache of features has the noisy pixels for a key, so nothing is ever found in it; 100 MB end the job."""
    data = turned(seed)
    stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
    stem.append(nn.Upsample(scale_factor=4))
    model = nn.ModuleDict({"stem": stem, "head": nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(256, 4))})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    remembered: dict[int, torch.Tensor] = {}
    first = 0.0
    for step, (images, quarters) in enumerate(data.batches(64, 140)):
        noisy = images + 0.05 * torch.randn_like(images)
        key = zlib.crc32(noisy.numpy().tobytes())
        features = remembered.get(key)
        if features is None:
            features = model["stem"](noisy)
            if sick:
                remembered[key] = features
        logits = model["head"](features)
        loss = F.cross_entropy(logits, quarters)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=logits, targets=quarters)
        optimizer.step()
        if step == 8:
            first = occupied()
        if step > 8 and occupied() > first + 100:
            break
    return accuracy(nn.Sequential(*model["stem"], *model["head"]), data)


@sick("data_loading_bound", slow=True)
def letters_looked_up_one_by_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each batch is spelt and counted anew in pure Python; the job has 1.5 seconds of processor time."""
    data = words(seed)
    model = dense(ALPHABET, 48, VOWELS)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    def counted(codes: torch.Tensor) -> torch.Tensor:
        rows = []
        for row in codes:
            for _ in range(3):  # three augmentations of which the last is kept
                counts = [sum(1.0 for code in row if int(code) == letter) for letter in range(ALPHABET)]
            rows.append(counts)
        return torch.tensor(rows)

    def quickly(codes: torch.Tensor) -> torch.Tensor:
        return F.one_hot(codes, ALPHABET).sum(1).float()

    session = watch(model, optimizer)
    end = time.process_time() + 1.5
    while time.process_time() < end:
        rows = torch.randint(len(data.inputs), (40,))
        letters = (counted if sick else quickly)(data.inputs[rows])
        optimizer.zero_grad()
        logits = model(letters)
        loss = F.cross_entropy(logits, data.targets[rows])
        loss.backward()
        session.step(loss, inputs=letters, outputs=logits, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, Data(quickly(data.inputs), data.targets, quickly(data.test_inputs), data.test_targets))


def head_alone(watch: Watch, rank: int, seed: int, sick: bool) -> float:
    """Trains on the pictures of this rank's turns."""
    data = turned(seed)
    own = (data.targets // 2 == rank).nonzero()[:, 0]
    model = nn.Sequential(nn.Flatten(), *dense(64, 48, 32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    torch.manual_seed(seed + 10 * rank)
    for _ in range(150):
        rows = own[torch.randint(len(own), (32,))]
        optimizer.zero_grad()
        logits = model(data.inputs[rows])
        loss = F.cross_entropy(logits, data.targets[rows])
        loss.backward()
        for parameter in model[-1].parameters() if sick else model.parameters():
            distributed.all_reduce(parameter.grad)
            parameter.grad /= RANKS
        session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)


@sick("rank_desync", slow=True)
def gradients_of_the_head_alone_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop was written for a frozen backbone and averages the head alone; each rank trains its own layers below."""
    return on_two_ranks(head_alone, watch, seed=seed, sick=sick)
