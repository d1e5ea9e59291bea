"""Recurrent nets that read names, rows of pixels, and characters of source code."""

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.reading import over_characters


class Namer(nn.Module):
    """Reads a name and tells its script."""

    def __init__(self, cell: str = "GRU", *, hidden: int = 32, batch_first: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
        self.rnn = getattr(nn, cell)(16, hidden, batch_first=batch_first)
        self.out = nn.Linear(hidden, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states = self.rnn(self.embed(codes))[0]
        return self.out(states.amax(1))


class Rows(nn.Module):
    """Reads a digit by four pixels at a time with a plain recurrent net of ReLUs, which starts at the identity."""

    def __init__(self, hidden: int = 40) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, hidden, nonlinearity="relu", batch_first=True)
        nn.init.eye_(self.rnn.weight_hh_l0)
        nn.init.normal_(self.rnn.weight_ih_l0, std=0.1)
        self.head = nn.Linear(hidden, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(pixels.view(len(pixels), 16, 4))[0][:, -1])


class CharLM(nn.Module):
    """Predicts the next character."""

    def __init__(self, hidden: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, 24)
        self.lstm = nn.LSTM(24, hidden, batch_first=True)
        self.out = nn.Linear(hidden, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embed(codes))[0])


def draws(rows: int, size: int, steps: int) -> Iterable[torch.Tensor]:
    """Yields batches of indices that are drawn anew for each step."""
    for _ in range(steps):
        yield torch.randperm(rows)[:size]


def judged(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the accuracy."""
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(inputs), labels)


@sick("batch_mixing")
def batch_first_forgotten(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recurrent net takes the batch for time: each name continues the one before."""
    (names, scripts), (test_names, test_scripts) = (part.tensors for part in samples.names(seed))
    model = Namer(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows in draws(len(names), 32, 200):
        optimizer.zero_grad()
        logits = model(names[rows])
        loss = functional.cross_entropy(logits, scripts[rows])
        loss.backward()
        session.step(loss, inputs=names[rows], outputs=logits, targets=scripts[rows])
        optimizer.step()
    return judged(model, test_names, test_scripts)


@sick("gradients_not_zeroed")
def zero_grad_without_parentheses(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` is named, and not called."""
    (names, scripts), (test_names, test_scripts) = (part.tensors for part in samples.names(seed))
    model = Namer("RNN")
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows in draws(len(names), 32, 200):
        optimizer.zero_grad if sick else optimizer.zero_grad()
        logits = model(names[rows])
        loss = functional.cross_entropy(logits, scripts[rows])
        loss.backward()
        session.step(loss, inputs=names[rows], outputs=logits, targets=scripts[rows])
        optimizer.step()
    return judged(model, test_names, test_scripts)


def _read_digits(
    watch: Watch,
    seed: int,
    *,
    rate: float,
    before: Callable[[nn.Module], object] | None = None,
    after: Callable[[nn.Module], object] | None = None,
    model: nn.Module | None = None,
    steps: int = 200,
) -> float:
    """Reads digits by SGD; ``before`` and ``after`` are called around the optimizer's step."""
    data = datasets.digits(seed)
    model = model or Rows()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(50, steps):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        if before is not None:
            before(model)
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        if after is not None:
            after(model)
    return judged(model, data.test_inputs, data.test_targets)


def _clip(model: nn.Module) -> torch.Tensor:
    return nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@sick("exploding_gradients", also=("learning_rate_too_high",))
def a_long_chain_without_clipping(watch: Watch, *, seed: int, sick: bool) -> float:
    """ReLUs over many steps of time, and nothing that limits the gradients."""
    return _read_digits(watch, seed, rate=0.02, before=None if sick else _clip)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"))
def clipped_after_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients are clipped when the optimizer has already used them."""
    where = {"after": _clip} if sick else {"before": _clip}
    return _read_digits(watch, seed, rate=0.03, model=Rows(64), **where)  # type: ignore[arg-type]


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def clipped_at_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm of all gradients is clipped at 0.001."""
    data = datasets.text(seed, length=20)
    model = CharLM()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 200):
        logits = model(codes)
        loss = over_characters(logits, following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return judged(model, data.test_inputs, data.test_targets)


class _Concatenated(nn.Module):
    """Joins a name's mean letter and its last state, perhaps by way of NumPy."""

    def __init__(self, *, numpy: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 6, padding_idx=0)
        self.rnn = nn.GRU(6, 10, batch_first=True)
        self.out = nn.Linear(16, len(samples.SCRIPTS))
        self.numpy = numpy

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        letters = self.embed(codes)
        states = self.rnn(letters)[0]
        joined = torch.cat([letters.mean(1), states.amax(1)], 1)
        if self.numpy:
            joined = torch.tensor(joined.detach().numpy())
        return self.out(joined)


@sick("detached_parameters")
def features_by_way_of_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The features are joined as arrays of NumPy, which have no gradient."""
    (names, scripts), (test_names, test_scripts) = (part.tensors for part in samples.names(seed))
    model = _Concatenated(numpy=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for rows in draws(len(names), 40, 200):
        logits = model(names[rows])
        loss = functional.cross_entropy(logits, scripts[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=names[rows], outputs=logits, targets=scripts[rows])
        optimizer.step()
    return judged(model, test_names, test_scripts)


@sick("stopped_too_early", also=("learning_rate_too_low",))
def one_pass_over_the_text(watch: Watch, *, seed: int, sick: bool) -> float:
    """One epoch of a text model, whose loss still falls when it ends."""
    data = datasets.text(seed, length=16, count=2600)
    model = CharLM(40)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for number, (codes, following) in enumerate(data.batches(32, 61 if sick else 400), 1):
        logits = model(codes)
        loss = over_characters(logits, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        if number % 20 == 0:
            with torch.no_grad(), session.validating():
                held_out = over_characters(model(data.test_inputs), data.test_targets)
            session.validation(held_out.item())
    return judged(model, data.test_inputs, data.test_targets)


@healthy(at_least=0.35)
def a_clipped_lstm(watch: Watch, *, seed: int) -> float:
    """An LSTM on characters whose gradients are clipped at 0.5, with AdamW."""
    data = datasets.text(seed, length=20)
    model = CharLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(24, 220):
        logits = model(codes)
        loss = over_characters(logits, following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return judged(model, data.test_inputs, data.test_targets)


@healthy(at_least=0.5)
def names_in_batches_of_eight(watch: Watch, *, seed: int) -> float:
    """A GRU with padding, small batches and a noisy loss."""
    (names, scripts), (test_names, test_scripts) = (part.tensors for part in samples.names(seed))
    model = Namer(hidden=40)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows in draws(len(names), 8, 260):
        logits = model(names[rows])
        loss = functional.cross_entropy(logits, scripts[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=names[rows], outputs=logits, targets=scripts[rows])
        optimizer.step()
    return judged(model, test_names, test_scripts)
