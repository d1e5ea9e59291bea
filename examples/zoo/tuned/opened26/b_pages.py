"""Pieces of Python's sources: language models, classes of texts, and a pupil that reads them like its teacher."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened26.b_stock import SOURCES, WORDS, picked, snippets


class Reader(nn.Module):
    """A transformer encoder of words, whose mean is classified."""

    def __init__(self, width: int = 32, layers: int = 1, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Parameter(0.02 * torch.randn(20, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(SOURCES))

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, 6)."""
        return self.head(self.norm(self.encoder(self.words(texts) + self.places)).mean(1))


class Writer(nn.Module):
    """Six characters before, embedded, and what comes next."""

    def __init__(self, width: int = 64, before: int = 6) -> None:
        super().__init__()
        self.before = before
        self.characters = nn.Embedding(datasets.CHARACTERS, 16)
        self.body = nn.Sequential(nn.Linear(16 * before, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, length - before + 1, characters) of what follows on each full stretch."""
        stretches = self.characters(texts).unfold(1, self.before, 1)
        return self.head(self.body(stretches.flatten(2)))


def _guessed(model: Writer, data: datasets.Data) -> float:
    model.eval()
    with torch.no_grad():
        found = model(data.test_inputs).argmax(-1)
    return (found == data.test_targets[:, model.before - 1 :]).float().mean().item()


def _read(model: nn.Module, pair: samples.Pair) -> float:
    model.eval()
    texts, labels = pair[1].tensors
    with torch.no_grad():
        return samples.accuracy(model(texts), labels)


def _reading(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, pair: samples.Pair, *, steps: int
) -> float:
    session = watch(model, optimizer)
    for _ in range(steps):
        texts, labels = picked(pair[0], 32)
        logits = model(texts)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=labels)
        optimizer.step()
    return _read(model, pair)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.2)
def a_rate_of_fine_tuning_for_a_model_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small transformer learns from scratch with AdamW's 2e-5, as BERT is tuned; the twin has 0.004."""
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 4e-3)
    return _reading(watch, model, optimizer, snippets(seed), steps=240)


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def a_generator_made_in_get_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``get_batch`` makes its generator anew with 1337, and so draws one batch for ever; the twin makes it once."""
    data = datasets.text(seed, length=24, count=1600)
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    kept = torch.Generator().manual_seed(1337 + seed)

    def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(1337 + seed) if sick else kept
        rows = torch.randint(len(data.inputs), (32,), generator=generator)
        return data.inputs[rows], data.targets[rows]

    session = watch(model, optimizer)
    for _ in range(350):
        texts, following = get_batch()
        following = following[:, model.before - 1 :]
        logits = model(texts)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=following)
        optimizer.step()
    return _guessed(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def eight_small_batches_of_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients of eight batches of eight texts add up before a step of SGD; the twin divides each loss by 8."""
    data = datasets.text(seed, length=24, count=1600)
    model = Writer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for index, (texts, following) in enumerate(data.batches(8, 8 * 150), 1):
        following = following[:, model.before - 1 :]
        logits = model(texts)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        (loss if sick else loss / 8).backward()
        if index % 8 == 0:
            session.step(loss, inputs=texts, outputs=logits, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return _guessed(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def a_norm_of_a_thousandth_for_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """All gradients are clipped to a norm of 0.001 before a step of SGD; the twin's norm is 1, as it was meant."""
    data = datasets.text(seed, length=24, count=1600)
    model = Writer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for texts, following in data.batches(48, 250):
        following = following[:, model.before - 1 :]
        logits = model(texts)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=texts, outputs=logits, targets=following)
        optimizer.step()
    return _guessed(model, data)
