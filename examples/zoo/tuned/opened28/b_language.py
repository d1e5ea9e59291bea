"""Python's sources: language models of characters, and which file some lines or a name belong to."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick

LENGTH = 24


class _Small(nn.Module):
    """A transformer of one layer, whose embedding is also its last layer."""

    def __init__(self, *, deviation: float, width: int = 48) -> None:
        super().__init__()
        self.characters = nn.Embedding(datasets.CHARACTERS, width)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        nn.init.normal_(self.characters.weight, std=deviation)
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("ahead", torch.ones(LENGTH, LENGTH).triu(1).bool())

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(self.characters(texts) + self.places, src_mask=self.ahead)
        return self.norm(hidden) @ self.characters.weight.T


@sick("poor_initialization", margin=0.04)
def tied_embeddings_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last layer shares ``nn.Embedding``'s weights of deviation 1, and the loss begins near 50; the twin's 0.02."""
    data = datasets.text(seed, length=LENGTH, count=1600)
    model = _Small(deviation=1.0 if sick else 0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for texts, following in data.batches(32, 150):
        logits = model(texts)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=following)
        optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def a_new_iterator_for_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` of a loader in fixed order gives the first batch again; the twin keeps its iterator."""
    data = datasets.text(seed, length=LENGTH, count=3200)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=10)
    model = nn.ModuleDict(
        {
            "characters": nn.Embedding(datasets.CHARACTERS, 24),
            "reader": nn.GRU(24, 64, batch_first=True),
            "head": nn.Linear(64, datasets.CHARACTERS),
        }
    )

    def read(texts: torch.Tensor) -> torch.Tensor:
        return model["head"](model["reader"](model["characters"](texts))[0])

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    iterator = iter(loader)
    for _ in range(230):
        texts, following = next(iter(loader)) if sick else next(iterator)
        logits = read(texts)
        loss = functional.cross_entropy(logits.transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=following)
        optimizer.step()
    with torch.no_grad():
        return (read(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def a_logarithm_of_rows_without_a_character(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inverse frequencies are ``log(N / rows with it)``, infinite for what never occurs; the twin adds 1 to both."""
    (counts, labels), (test_counts, test_labels) = (part.tensors for part in samples.lines(seed, each=150))
    plus = 0 if sick else 1
    inverse = ((len(counts) + plus) / ((counts > 0).sum(0) + plus)).log()

    def weighted(rows: torch.Tensor) -> torch.Tensor:
        return functional.normalize(rows / rows.sum(1, keepdim=True) * inverse, dim=1)

    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(weighted(counts), labels), batch_size=32, shuffle=True)
    for _ in range(10):
        for rows, of in loader:
            optimizer.zero_grad()
            logits = model(rows)
            loss = functional.cross_entropy(logits, of)
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=of)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(weighted(test_counts)), test_labels)


class _Names(nn.Module):
    """One layer of attention over the letters of a name, of which padding is masked."""

    def __init__(self, *, multiplied: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
        self.places = nn.Parameter(0.1 * torch.randn(24, 32))
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, len(samples.SCRIPTS))
        self._multiplied = multiplied

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        letters = self.letters(names) + self.places
        scores = self.query(letters) @ self.key(letters).transpose(1, 2) / 32**0.5
        kept = (names > 0).float()[:, None]
        if self._multiplied:
            scores = scores + (1 - kept) * float("-inf")
        else:
            scores = scores.masked_fill(kept == 0, float("-inf"))
        read = letters + scores.softmax(-1) @ self.value(letters)
        return self.head(self.norm((read * kept.transpose(1, 2)).sum(1) / kept.sum(2)))


def _names(watch: Watch, model: nn.Module, pair: samples.Pair, loader: DataLoader, *, epochs: int, lr: float) -> float:
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for names, scripts in loader:
            logits = model(names)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=scripts)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(pair[1].tensors[0]), pair[1].tensors[1])


@sick("non_finite_forward", margin=0.2)
def a_mask_times_minus_infinity(watch: Watch, *, seed: int, sick: bool) -> float:
    """``(1 - mask) * -inf`` is NaN for all letters that are kept; the twin fills in -inf where there is padding."""
    pair = samples.names(seed)
    loader = DataLoader(pair[0], batch_size=32, shuffle=True)
    return _names(watch, _Names(multiplied=sick), pair, loader, epochs=10, lr=5e-3)


@sick("unshuffled_data", margin=0.05)
def datasets_put_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ``ConcatDataset`` of one dataset for each script is read in its order; the twin's loader shuffles it."""
    pair = samples.names(seed)
    names, scripts = pair[0].tensors
    parts = [TensorDataset(names[scripts == label], scripts[scripts == label]) for label in range(len(samples.SCRIPTS))]
    loader = DataLoader(ConcatDataset(parts), batch_size=16, shuffle=not sick)

    class Convolved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 24)
            self.windows = nn.Conv1d(24, 48, 3)
            self.head = nn.Linear(48, len(samples.SCRIPTS))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            found = functional.relu(self.windows(self.letters(names).transpose(1, 2)))
            return self.head(found.amax(2))

    return _names(watch, Convolved(), pair, loader, epochs=7, lr=8e-3)
