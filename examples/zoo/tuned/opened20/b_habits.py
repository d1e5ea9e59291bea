"""Habits of loops: what is zeroed, summed, repeated or left from debugging."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened20.b_stock import WORDS, tokens


class _Speller(nn.Module):
    """A GRU that tells the next character of a text."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, 24)
        self.gru = nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.embedding(text))[0])


@sick("duplicated_data", also=("overfitting",), margin=0.03)
def a_seed_within_the_drawing_of_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``manual_seed(1337)`` is called where a batch is drawn, which is always the same; the twin calls it once."""
    data = datasets.text(seed, length=24)
    model = _Speller()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)

    def batch_of(size: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
        if sick:
            torch.manual_seed(1337)
        rows = torch.randint(len(data.inputs), (size,))
        return data.inputs[rows], data.targets[rows]

    torch.manual_seed(1337 + seed)
    for _ in range(170):
        text, following = batch_of()
        outputs = model(text)
        loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=text, outputs=outputs, targets=following)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs).flatten(0, 1), data.test_targets.flatten())


@sick("stopped_too_early", margin=0.05)
def a_break_left_from_debugging(watch: Watch, *, seed: int, sick: bool) -> float:
    """``if batch == 4: break`` was for a trial, and each epoch has five batches; the twin's epochs have all."""
    data = datasets.text(seed, length=24, count=1400)
    pairs = torch.utils.data.TensorDataset(data.inputs, data.targets)
    model = _Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(10 if sick else 6):
        for batch, (text, following) in enumerate(DataLoader(pairs, 32, shuffle=True)):
            optimizer.zero_grad()
            outputs = model(text)
            loss = functional.cross_entropy(outputs.transpose(1, 2), following)
            loss.backward()
            session.step(loss, inputs=text, outputs=outputs, targets=following)
            optimizer.step()
            if sick and batch == 4:
                break
        with torch.no_grad(), session.validating():
            outputs = model(data.test_inputs)
        session.validation(functional.cross_entropy(outputs.transpose(1, 2), data.test_targets).item())
    return samples.accuracy(outputs.flatten(0, 1), data.test_targets.flatten())


@sick("gradients_not_zeroed", margin=0.05)
def the_head_alone_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.head.zero_grad()`` is left from a stage of the head, and the rest gathers; the twin zeroes all."""
    train, test = samples.names(seed)
    body = nn.Sequential(nn.Embedding(samples.LETTERS, 16), nn.Flatten(), nn.Linear(384, 64), nn.ReLU())
    model = nn.ModuleDict({"body": body, "head": nn.Linear(64, 8)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        for names, labels in DataLoader(train, 32, shuffle=True):
            (model["head"] if sick else model).zero_grad()
            outputs = model["head"](body(names))
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model["head"](body(test.tensors[0])), test.tensors[1])


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def one_row_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Samples go through one by one, and 16 gradients are summed for a step; the twin divides each loss by 16."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.06, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(16, 160):
        optimizer.zero_grad()
        for row, label in zip(inputs, labels, strict=True):
            outputs = model(row)
            loss = functional.cross_entropy(outputs, label)
            if not sick:
                loss = loss / 16
            loss.backward()
        session.step(loss, inputs=row, outputs=outputs, targets=label)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)


@healthy(at_least=0.5)
def sparse_rows_and_a_rate_of_their_own(watch: Watch, *, seed: int) -> float:
    """``EmbeddingBag(sparse=True)`` under SparseAdam: gradients are sparse, and most rows of the table rest."""
    train, test = tokens(seed)
    model = nn.EmbeddingBag(WORDS, 6, sparse=True, padding_idx=0)
    nn.init.normal_(model.weight, std=0.1)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for _ in range(8):
        for lines, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(lines)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.33)
def a_stream_read_in_order(watch: Watch, *, seed: int) -> float:
    """Twelve readers go on through the text where they stopped, with their state detached: nothing is shuffled."""
    data = datasets.text(seed, length=24 * 30, count=32)
    model = _Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for first in (0, 12) * 3:
        state = None
        for text, following in zip(
            data.inputs[first : first + 12].split(24, 1), data.targets[first : first + 12].split(24, 1), strict=True
        ):
            states, state = model.gru(model.embedding(text), state)
            state = state.detach()
            outputs = model.head(states)
            loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=text, outputs=outputs, targets=following)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs[:, :96]).flatten(0, 1), data.test_targets[:, :96].flatten())
