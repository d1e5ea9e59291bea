"""Likelihoods of counts, and a sum to predict: what looks like classes and is none."""

import re
import sysconfig
from collections import Counter
from itertools import chain
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


def _explained(logarithms: torch.Tensor, counts: torch.Tensor, usual: torch.Tensor) -> float:
    """The share of the deviance of counts (N, K) that log shares (N, K) explain: those of all rows, ``usual``, none."""

    def likelihood(values: torch.Tensor) -> torch.Tensor:
        return (counts * values).sum(1).mean()

    best = likelihood((counts / counts.sum(1, keepdim=True)).clamp(min=1e-9).log())
    constant = likelihood((usual / usual.sum()).clamp(min=1e-9).log())
    return ((likelihood(logarithms) - constant) / (best - constant)).item()


class _Tastes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 32))
        self.decode = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64))

    def forward(self, items: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encode(functional.normalize(items)).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decode(drawn), mean, log_variance


@healthy(at_least=0.1)
def all_items_of_a_row_in_one_softmax(watch: Watch, *, seed: int) -> float:
    """Mult-VAE: a row has some twenty items, here inked pixels, and the loss sums their terms of one log-softmax."""
    data = datasets.digits(seed)
    items, others = (data.inputs > 0.5).float(), (data.test_inputs > 0.5).float()
    model = _Tastes()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    step = 0
    for _ in range(15):
        for rows in torch.randperm(len(items)).split(64):
            outputs, mean, log_variance = model(items[rows])
            likelihood = torch.mean(torch.sum(functional.log_softmax(outputs, 1) * items[rows], -1))
            divergence = -0.5 * torch.mean(torch.sum(1 + log_variance - mean**2 - log_variance.exp(), dim=1))
            loss = -likelihood + min(0.2, step / 1000) * divergence
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=items[rows], outputs=outputs, targets=items[rows])
            optimizer.step()
            step += 1
    model.eval()
    with torch.no_grad():
        return _explained(functional.log_softmax(model(others)[0], 1), others, items.sum(0))


WORDS = 150


def _bags(seed: int) -> samples.Pair:
    """How often each of the most frequent words is among twenty in a row of six sources of Python."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = [re.findall(r"[a-z_]{3,}", (folder / file).read_text(encoding="utf-8")) for file in samples.FILES]
    codes = {word: code for code, (word, _) in enumerate(Counter(chain.from_iterable(texts)).most_common(WORDS))}
    bags = [
        torch.bincount(
            torch.tensor([codes[word] for word in text[start : start + 20] if word in codes]), minlength=WORDS
        )
        for text in texts
        for start in range(0, len(text), 20)
    ]
    counts = torch.stack([bag for bag in bags if bag.sum() > 3]).float()
    return samples.split(seed, counts, share=0.8)


class _Topics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(WORDS, 64), nn.Softplus(), nn.Dropout(0.2))
        self.mean, self.log_variance = nn.Linear(64, 8), nn.Linear(64, 8)
        self.of_mean, self.of_variance = nn.BatchNorm1d(8, affine=False), nn.BatchNorm1d(8, affine=False)
        self.beta, self.of_words = nn.Linear(8, WORDS, bias=False), nn.BatchNorm1d(WORDS)

    def forward(self, counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encode(counts)
        mean, log_variance = self.of_mean(self.mean(hidden)), self.of_variance(self.log_variance(hidden))
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return functional.softmax(self.of_words(self.beta(functional.softmax(drawn, 1))), 1), mean, log_variance


@healthy(at_least=0.1)
def topics_of_words(watch: Watch, *, seed: int) -> float:
    """ProdLDA: the model returns shares, and the loop itself takes their logarithms, weighted by a row's counts."""
    train, test = _bags(seed)
    counts, others = train.tensors[0], test.tensors[0]
    model = _Topics()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.99, 0.999))
    session = watch(model, optimizer)
    for _ in range(16):
        for rows in torch.randperm(len(counts)).split(32):
            shares, mean, log_variance = model(counts[rows])
            reconstruction = -(counts[rows] * (shares + 1e-10).log()).sum(1)
            divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)
            loss = (reconstruction + divergence).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts[rows], outputs=shares, targets=counts[rows])
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return _explained((model(others)[0] + 1e-10).log(), others, counts.sum(0))


class _Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.out = nn.Linear(16, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.out(self.each(pictures).sum(1)).squeeze(-1)


@healthy(at_least=0.4)
def the_sum_of_three_digits(watch: Watch, *, seed: int) -> float:
    """Deep Sets: the targets of the squared error are whole numbers from 0 to 27, and no indices of classes."""
    data = datasets.digits(seed)
    sets, others = torch.randint(len(data.inputs), (3000, 3)), torch.randint(len(data.test_inputs), (400, 3))
    sums, true = data.targets[sets].sum(1).float(), data.test_targets[others].sum(1).float()
    model = _Sum()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(sets)).split(64):
            inputs = data.inputs[sets[rows]]
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, sums[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=sums[rows])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs[others]), true)
