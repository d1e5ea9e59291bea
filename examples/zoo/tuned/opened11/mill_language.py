"""Small language models on the characters of Python's sources."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy


def next_character(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Returns the mean cross entropy of all positions."""
    return functional.cross_entropy(logits.reshape(-1, CHARACTERS), codes.reshape(-1))


class CharGRU(nn.Module):
    """Embedding, GRU, head."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.embed = nn.Embedding(CHARACTERS, 24)
        self.gru = nn.GRU(24, width, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.gru(self.embed(codes))[0]))


class CharTransformer(nn.Module):
    """A causal transformer with learnt positions."""

    def __init__(self, *, layers: int = 2, width: int = 32, norm_first: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(CHARACTERS, width)
        self.place = nn.Parameter(torch.randn(12, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(codes.shape[1])
        return self.head(self.body(self.embed(codes) + self.place[: codes.shape[1]], mask=mask, is_causal=True))


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def six_micro_batches_without_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """To imitate a large batch, six losses are accumulated as they are, at the rate of the large batch."""
    data = datasets.text(seed, length=12, count=900)
    model = CharGRU()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.5, momentum=0.9)
    accumulate = 6
    session = watch(model, optimizer)
    for micro, (codes, following) in enumerate(data.batches(8, accumulate * 40)):
        logits = model(codes)
        loss = next_character(logits, following)
        if not sick:
            loss = loss / accumulate
        loss.backward()
        if (micro + 1) % accumulate == 0:
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.05)
def values_clipped_at_next_to_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` with a bound meant for something else: steps of SGD are tiny, and all of one size."""
    data = datasets.text(seed, length=12, count=900)
    model = CharGRU()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 160):
        optimizer.zero_grad()
        logits = model(codes)
        loss = next_character(logits, following)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 2e-5 if sick else 0.5)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.05)
def four_thousand_steps_of_warmup(watch: Watch, *, seed: int, sick: bool) -> float:
    """The schedule of a paper with 4,000 steps of warm-up, in a training of 140."""
    data = datasets.text(seed, length=12, count=900)
    model = CharTransformer()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.98), eps=1e-9)
    warmup = 4000 if sick else 20

    def rate(step: int) -> float:
        return min((step + 1) / warmup, (warmup / (step + 1)) ** 0.5)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    session = watch(model, optimizer)
    for codes, following in data.batches(12, 140):
        logits = model(codes)
        loss = next_character(logits, following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.04)
def norms_behind_and_full_rate_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three layers with norms behind the sums, at their full rate from the first step on; the twin warms up."""
    data = datasets.text(seed, length=12, count=900)
    model = CharTransformer(layers=3, width=64, norm_first=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-2, betas=(0.9, 0.98))
    steps = 100
    warmup = 1 if sick else 40
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup + 1))
    )
    session = watch(model, optimizer)
    for codes, following in data.batches(12, steps):
        logits = model(codes)
        loss = next_character(logits, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def one_of_two_optimizers_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Body and head have optimizers of their own, and only the head's gradients are zeroed."""
    data = datasets.text(seed, length=12, count=900)
    model = CharGRU()
    head = torch.optim.Adam(model.head.parameters(), lr=4e-3)
    body = torch.optim.SGD([*model.embed.parameters(), *model.gru.parameters()], lr=1.0, momentum=0.8)
    session = watch(model, [head, body])
    for codes, following in data.batches(32, 160):
        head.zero_grad()
        if not sick:
            body.zero_grad()
        logits = model(codes)
        loss = next_character(logits, following)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        head.step()
        body.step()
    return accuracy(model, data)


@sick("memory_leak", margin=0.5)
def losses_kept_for_a_plot(watch: Watch, *, seed: int, sick: bool) -> float:
    """Losses and logits of all steps are kept for a plot, graphs and all; quality: 1 if only numbers are kept."""
    data: Data = datasets.text(seed, length=12, count=900)
    model = CharGRU(width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    history: dict[str, list[object]] = {"loss": [], "confidence": []}
    session = watch(model, optimizer)
    for codes, following in data.batches(48, 80):
        optimizer.zero_grad()
        logits = model(codes)
        loss = next_character(logits, following)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        confidence = logits.softmax(-1).max(-1).values
        history["loss"].append(loss if sick else loss.item())
        history["confidence"].append(confidence if sick else confidence.mean().item())
    return float(all(isinstance(one, float) for kept in history.values() for one in kept))
