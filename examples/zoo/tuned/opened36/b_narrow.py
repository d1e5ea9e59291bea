"""Numbers that are not finite, or too small for their type, and modes."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened36.b_stock import explained, ratings, shelves


class Factors(nn.Module):
    """Predicts an entry of a table by the product of what is learnt of its row and of its column."""

    def __init__(self, rows: int, columns: int, *, width: int = 8, scale: float = 0.3) -> None:
        super().__init__()
        self.row, self.column = nn.Embedding(rows, width), nn.Embedding(columns, width)
        self.level = nn.Embedding(columns, 1)
        for table in (self.row, self.column):
            nn.init.normal_(table.weight, 0, scale)
        nn.init.zeros_(self.level.weight)

    def forward(self, where: torch.Tensor) -> torch.Tensor:
        """Returns the entries (N, 1)."""
        row, column = where.unbind(1)
        return (self.row(row) * self.column(column)).sum(1, keepdim=True) + self.level(column)


@sick("fp16_underflow", also=("no_update", "vanishing_gradients", "learning_rate_too_low"), margin=0.1)
def a_small_weight_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss weighed by 0.00001 has no gradient in float16; the twin scales it with ``GradScaler``."""
    data = shelves(seed)
    model = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for rows, files in data.batches(64, 120):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(rows)
            loss = 1e-5 * functional.cross_entropy(outputs, files)
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=files)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


class Energies(nn.Module):
    """Reads names letter by letter, and takes how strong each feature is in each quarter of the places."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least = least
        self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.body = nn.Linear(24, 32, bias=False)
        self.head = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, 8)."""
        features = self.body(self.letters(names)).unflatten(1, (4, 6))
        strength = (features.square().mean(2) + self.least).sqrt()
        return self.head(strength.flatten(1))


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def the_root_of_quarters_that_are_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pooling takes the root of a mean square, 0 where a name is padded; the twin adds a little below it."""
    train, test = samples.names(seed)
    data = Data(*train.tensors, *test.tensors)
    model = Energies(0 if sick else 1e-3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, validate_every=50)
    return accuracy(model, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def a_batch_in_which_none_is_labelled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every sixth digit has a label, and a batch without any has a mean of nothing; the twin's count is at least 1."""
    data = digits(seed)
    known = torch.where(torch.rand(len(data.targets)) < 1 / 6, data.targets, -100)
    partly = Data(data.inputs, known, data.test_inputs, data.test_targets)
    body, head, back = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 10), nn.Linear(64, 64)
    model = nn.Sequential(body, head)
    everything = nn.ModuleDict({"model": model, "back": back})
    optimizer = torch.optim.Adam(everything.parameters(), lr=3e-3)
    session = watch(everything, optimizer)
    for pixels, labels in partly.batches(16, 350):
        code = body(pixels)
        outputs = head(code)
        there = (labels >= 0).float()
        errors = functional.cross_entropy(outputs, labels.clamp(min=0), reduction="none") * there
        named = errors.sum() / (there.sum() if sick else there.sum().clamp(min=1))
        loss = named + functional.mse_loss(back(code), pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Dropping(nn.Module):
    """Two layers, with functional dropout behind each of them."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.always = always
        self.first, self.second, self.last = nn.Linear(256, 96), nn.Linear(96, 48), nn.Linear(48, 6)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, 6)."""
        training = True if self.always else self.training
        hidden = functional.dropout(self.first(rows).relu(), 0.5, training=training)
        hidden = functional.dropout(self.second(hidden).relu(), 0.5, training=training)
        return self.last(hidden)


@sick("wrong_mode", margin=0.03)
def a_dropout_that_knows_no_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """``functional.dropout(x, 0.5)`` drops in evaluations too; the twin passes ``training=self.training``."""
    data = shelves(seed)
    model = Dropping(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        model.train()
        for rows, files in data.batches(32, 18):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, files)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
    return accuracy(model, data)


@sick("no_update", margin=0.1)
def a_clean_slate_before_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recommender zeroes the gradients between ``backward`` and ``step``; the twin does it before ``backward``."""
    data = ratings(seed)
    model = Factors(400, int(data.inputs[:, 1].max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for where, values in data.batches(256, 350):
        outputs = model(where)
        loss = functional.mse_loss(outputs, values)
        if sick:
            loss.backward()
            optimizer.zero_grad()
        else:
            optimizer.zero_grad()
            loss.backward()
        session.step(loss, inputs=where, outputs=outputs, targets=values)
        optimizer.step()
    return explained(model, data)
