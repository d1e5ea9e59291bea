"""Which script a letter's name belongs to, read by recurrent nets, attention and counts of letters."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import samples
from examples.zoo.cases import Watch, sick

SCRIPTS = len(samples.SCRIPTS)


class _Recurrent(nn.Module):
    """Embeds letters, reads them in both directions, and classifies by the last states."""

    def __init__(self, *, mixed: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.reader = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, SCRIPTS)
        self.mixed = mixed

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        _, (last, _) = self.reader(self.embedding(names))
        if self.mixed:
            return self.head(last.reshape(len(names), -1))
        return self.head(last.transpose(0, 1).reshape(len(names), -1))


def _right(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("batch_mixing")
def states_of_both_directions_reshaped(watch: Watch, *, seed: int, sick: bool) -> float:
    """States (2, batch, 32) are reshaped to (batch, 64), which joins two names in a row; the twin transposes first."""
    train, test = samples.names(seed)
    model = _Recurrent(mixed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, scripts in DataLoader(train, 32, shuffle=True):
            logits = model(names)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            session.step(loss, inputs=names, outputs=logits, targets=scripts)
            optimizer.step()
    return _right(model, test)


@sick("labels_unrelated")
def names_sorted_by_length_without_their_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are sorted by length to save padding, and labels stay where they were; the twin sorts both."""
    train, test = samples.names(seed)
    names, scripts = train.tensors
    order = (names > 0).sum(1).argsort(stable=True)
    pairs = TensorDataset(names[order], scripts if sick else scripts[order])
    model = _Recurrent()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(pairs, 32, shuffle=True):
            optimizer.zero_grad()
            logits = model(some)
            loss = functional.cross_entropy(logits, their)
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    return _right(model, test)


@sick("inputs_constant")
def a_vocabulary_in_the_other_case(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary has small letters and the names have capitals, so each is unknown; the twin lowers the names."""
    train, test = samples.names(seed, length=8)
    vocabulary = {letter: 2 + place for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}

    def encoded(names: torch.Tensor) -> torch.Tensor:
        words = ["".join(chr(64 + code) if code <= 26 else "?" for code in row) for row in names.tolist()]
        known = [word if sick else word.lower() for word in words]
        return torch.tensor([[vocabulary.get(letter, 1) for letter in word] for word in known])

    model = nn.Sequential(
        nn.Embedding(28, 16), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, SCRIPTS)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for names, scripts in DataLoader(train, 32, shuffle=True):
            inputs = encoded(names)
            logits = model(inputs)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=scripts)
            optimizer.step()
    return _right(model, TensorDataset(encoded(test.tensors[0]), test.tensors[1]))


class _Attentive(nn.Module):
    """Letters look at each other, and the mean over those that are none of the padding is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, 32)
        self.place = nn.Parameter(0.02 * torch.randn(24, 32))
        self.norm, self.projections = nn.LayerNorm(32), nn.Linear(32, 96)
        self.mlp = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, SCRIPTS)

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        padding = names == 0
        hidden = self.embedding(names) + self.place
        queries, keys, values = self.projections(self.norm(hidden)).chunk(3, -1)
        scores = queries @ keys.transpose(1, 2) / 32**0.5
        hidden = hidden + scores.masked_fill(padding.unsqueeze(1), float("-inf")).softmax(-1) @ values
        hidden = hidden + self.mlp(hidden)
        kept = (~padding).unsqueeze(2)
        return self.head((hidden * kept).sum(1) / kept.sum(1).clamp(min=1))


@sick("non_finite_forward", margin=0.2)
def attention_over_an_empty_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """One name in 150 is empty: all it could look at is masked, and its softmax is NaN; the twin leaves these out."""
    train, test = samples.names(seed)
    names, scripts = train.tensors
    names = names.clone()
    names[torch.randperm(len(names))[: len(names) // 150]] = 0
    kept = torch.ones(len(names), dtype=torch.bool) if sick else (names > 0).any(1)
    model = _Attentive()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(10):
        for some, their in DataLoader(TensorDataset(names[kept], scripts[kept]), 32, shuffle=True):
            logits = model(some)
            loss = functional.cross_entropy(logits, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    return _right(model, test)


@sick("wrong_mode", margin=0.03)
def a_functional_dropout_that_never_ends(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.dropout(x, 0.7)`` drops in eval mode, too, so validations are noisy; the twin passes ``self.training``."""

    class Reader(_Recurrent):
        def forward(self, names: torch.Tensor) -> torch.Tensor:
            hidden = self.reader(self.embedding(names))[0].amax(1)
            return self.head(functional.dropout(hidden, 0.7, training=sick or self.training))

    train, test = samples.names(seed)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for names, scripts in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            logits = model(names)
            loss = functional.cross_entropy(logits, scripts)
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=scripts)
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            held_out = functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item()
        session.validation(held_out)
    return _right(model, test)


@sick("class_imbalance")
def hardly_any_name_but_latin_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are Latin or Greek, one in 17 Greek, and all are said to be Latin; the twin draws both as often."""
    train, test = samples.names(seed, each=600)
    (names, scripts), (others, truth) = train.tensors, test.tensors
    kept = torch.cat([(scripts == 0).nonzero()[:, 0], (scripts == 1).nonzero()[:26, 0]])
    pairs = TensorDataset(names[kept], scripts[kept])
    weights = torch.where(pairs.tensors[1] == 0, 1 / (len(kept) - 26), 1 / 26).tolist()
    sampler = None if sick else WeightedRandomSampler(weights, len(kept))
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 8), nn.Flatten(), nn.Dropout(0.3), nn.Linear(192, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(pairs, 32, sampler=sampler, shuffle=sick):
            logits = model(some)
            loss = functional.cross_entropy(logits, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    guesses = model.eval()(others).argmax(1)
    return sum((guesses[truth == script] == script).float().mean().item() for script in (0, 1)) / 2
