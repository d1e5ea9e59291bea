"""Language models and classifiers of text whose input, initialisation or loop goes wrong."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


class _Characters(nn.Module):
    """The language model of the well-known example: embedding, recurrent net, decoder."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.decode = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        states, last = self.rnn(self.embed(codes), state)
        return self.decode(states), last


def _guessed(model: nn.Module, data: datasets.Data) -> float:
    """Returns the share of the next characters that a model foresees."""
    with torch.no_grad():
        return (model(data.test_inputs)[0].argmax(-1) == data.test_targets).float().mean().item()


def _streams(data: datasets.Data, rows: int, length: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields windows that go on from one another, in rows."""
    for first in range(0, len(data.inputs) - rows + 1, rows):
        codes, following = data.inputs[first : first + rows], data.targets[first : first + rows]
        for begin in range(0, codes.shape[1], length):
            yield codes[:, begin : begin + length], following[:, begin : begin + length]


@sick("gradients_not_zeroed")
def zeroed_where_the_state_is_reset(watch: Watch, *, seed: int, sick: bool) -> float:
    """Truncated backpropagation: gradients are zeroed with the hidden state, once a text, not once a window."""
    data = datasets.text(seed, length=240, count=560)
    model = _Characters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.6, momentum=0.8)
    session, state = watch(model, optimizer), None
    for number, (codes, following) in enumerate(_streams(data, 20, 20)):
        if number % 12 == 0:
            state = None
            optimizer.zero_grad()
        logits, state = model(codes, state)
        state = state.detach()
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        if not sick:
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits.flatten(0, 1), targets=following.flatten())
        optimizer.step()
    return _guessed(model, data)


@sick("clipping_ineffective", also=("learning_rate_too_high", "exploding_gradients"))
def clipped_before_there_is_a_gradient(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rate of 20 that relies on clipping to 0.25, as in the well-known example; but it clips before ``backward``."""
    data = datasets.text(seed, length=24)
    model = _Characters()
    optimizer = torch.optim.SGD(model.parameters(), lr=20)
    session = watch(model, optimizer)
    for codes, following in data.batches(20, 220):
        optimizer.zero_grad()
        logits, _ = model(codes)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        session.step(loss, inputs=codes, outputs=logits.flatten(0, 1), targets=following.flatten())
        optimizer.step()
    return _guessed(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def a_loss_summed_over_all_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` adds 640 characters up, with a rate that was found for their mean."""
    data = datasets.text(seed, length=20)
    model = _Characters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    criterion = nn.CrossEntropyLoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 220):
        logits = model(codes)[0].flatten(0, 1)
        loss = criterion(logits, following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following.flatten())
        optimizer.step()
    return _guessed(model, data)


@sick("poor_initialization")
def weights_drawn_with_unit_spread(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_`` without its ``std``: each layer multiplies by eight; the twin has ``kaiming_normal_``."""
    train, test = samples.lines(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model.append(nn.Linear(64, len(samples.FILES)))
    for layer in model:
        if isinstance(layer, nn.Linear):
            (nn.init.normal_ if sick else nn.init.kaiming_normal_)(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for counts, labels in DataLoader(train, batch_size=48, shuffle=True):
            features = counts / counts.sum(1, keepdim=True) * 10
            logits = model(features)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        shares = test.tensors[0] / test.tensors[0].sum(1, keepdim=True) * 10
        return samples.accuracy(model(shares), test.tensors[1])


@sick("learning_rate_too_high")
def adam_with_the_rate_of_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD with 0.3 was replaced by Adam, and its rate was kept; the twin's is 0.005."""
    data = datasets.text(seed, length=16)
    model = _Characters()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 5e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 200):
        logits = model(codes)[0].flatten(0, 1)
        loss = functional.cross_entropy(logits, following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following.flatten())
        optimizer.step()
    return _guessed(model, data)


@sick("inputs_constant")
def letters_divided_as_if_they_were_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes of letters are divided by 255 before they are made whole again: all letters become number 0."""
    train, test = samples.names(seed)
    model = nn.Sequential(nn.EmbeddingBag(samples.LETTERS, 32), nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)

    def prepared(names: torch.Tensor) -> torch.Tensor:
        return (names / 255).long() if sick else names

    for _ in range(12):
        for names, labels in DataLoader(train, batch_size=32, shuffle=True):
            logits = model(prepared(names))
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=prepared(names), outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(prepared(test.tensors[0])), test.tensors[1])


@sick("non_finite_inputs", also=("non_finite_forward",))
def logarithms_of_counts_that_are_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters go through ``log``, most of them are zero; the twin takes ``log1p``."""
    train, test = samples.lines(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, len(samples.FILES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scaled = torch.log if sick else torch.log1p
    session = watch(model, optimizer)
    for _ in range(10):
        for counts, labels in DataLoader(train, batch_size=64, shuffle=True):
            features = scaled(counts)
            logits = model(features)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(scaled(test.tensors[0])), test.tensors[1])


@sick("unshuffled_data")
def one_file_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """Lines are read file by file, and the loader does not shuffle: the last file is all that is remembered."""
    train, test = samples.lines(seed)
    counts, labels = train.tensors
    order = labels.argsort()
    files = torch.utils.data.TensorDataset(counts[order].sqrt(), labels[order])
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows, files_of_rows in DataLoader(files, batch_size=32, shuffle=not sick):
            logits = model(rows)
            loss = functional.cross_entropy(logits, files_of_rows)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=files_of_rows)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0].sqrt()), test.tensors[1])
