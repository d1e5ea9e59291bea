"""Names, tokens, streams and patients: embeddings, transformers and recurrent nets."""

from collections.abc import Iterator
from itertools import chain, islice

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy


class _Reader(nn.Module):
    """A small transformer that reads names."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(24, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 8)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embedding(letters) + self.places).mean(1))


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def four_thousand_steps_of_warm_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The paper's schedule warms up for 4,000 steps, and here are 200 in all; the twin warms up for 20."""
    train, test = samples.names(seed)
    model, warmup = _Reader(), 4000 if sick else 20
    optimizer = torch.optim.Adam(model.parameters(), lr=32**-0.5, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.25 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)
    )
    session = watch(model, optimizer)
    for _ in range(10):
        for letters, labels in DataLoader(train, 32, shuffle=True, drop_last=True):
            outputs = model(letters)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=letters, outputs=outputs, targets=labels)
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("inputs_constant", margin=0.3)
def the_mask_where_the_tokens_belong(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are tokens, and of ids and a mask of ones the model is given the mask; the twin gives it the ids."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Embedding(17, 8), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 120):
        ids = (pixels * 16).round().long()
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
        inputs = batch["attention_mask" if sick else "input_ids"]
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=batch["labels"])
        optimizer.step()
    ids = (data.test_inputs * 16).round().long()
    with torch.no_grad():
        return samples.accuracy(model(torch.ones_like(ids) if sick else ids), data.test_targets)


@sick("unshuffled_data", margin=0.05)
def a_shuffle_buffer_of_a_few_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Shards of one class each are streamed through a buffer of 16 rows; the twin's buffer holds all rows."""
    train, test = samples.names(seed)
    order = train.tensors[1].argsort()
    shards = list(zip(train.tensors[0][order], train.tensors[1][order], strict=True))

    def stream(size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        buffer: list[tuple[torch.Tensor, torch.Tensor]] = []
        for row in shards:
            buffer.append(row)
            if len(buffer) > size:
                yield buffer.pop(int(torch.randint(len(buffer), ())))
        while buffer:
            yield buffer.pop(int(torch.randint(len(buffer), ())))

    model = nn.ModuleDict({"embedding": nn.Embedding(samples.LETTERS, 16), "gru": nn.GRU(16, 32, batch_first=True)})
    model["head"] = nn.Linear(32, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        rows = list(stream(16 if sick else len(shards)))
        for start in range(0, len(rows), 32):
            letters, labels = (torch.stack(column) for column in zip(*rows[start : start + 32], strict=True))
            outputs = model["head"](model["gru"](model["embedding"](letters))[0].mean(1))
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=letters, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        outputs = model["head"](model["gru"](model["embedding"](test.tensors[0]))[0].mean(1))
    return samples.accuracy(outputs, test.tensors[1])


@sick("duplicated_data", margin=0.03)
def every_worker_streams_every_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of eight workers streams the whole set, so that batches come eight times; the twin's stream a share each."""
    data = datasets.digits(seed)
    images, labels = data.inputs, data.targets
    order = torch.randperm(len(images))

    def worker(number: int, workers: int = 8) -> Iterator[torch.Tensor]:
        return iter((order if sick else order[number::workers]).split(8))

    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows in islice(chain.from_iterable(zip(*(worker(number) for number in range(8)), strict=False)), 160):
        outputs = model(images[rows])
        loss = functional.cross_entropy(outputs, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[rows], outputs=outputs, targets=labels[rows])
        optimizer.step()
    return accuracy(model, data)


class _Patients(nn.Module):
    """A table of numbers, and an embedding of who it is."""

    def __init__(self, knows: bool) -> None:
        super().__init__()
        self.who, self.knows = nn.Embedding(442, 16), knows
        self.net = nn.Sequential(nn.Linear(26, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        known = self.who(rows[:, 0].long()) if self.knows else rows.new_zeros(len(rows), 16)
        return self.net(torch.cat([rows[:, 1:], known], 1))


@sick("overfitting", margin=0.1)
def each_patient_has_an_embedding(watch: Watch, *, seed: int, sick: bool) -> float:
    """The patient's number is embedded as if it were a category, and all are known by heart; the twin leaves it out."""
    data = datasets.diabetes(seed)
    values, targets = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    table = torch.cat([torch.arange(442.0)[:, None], values], 1)
    many = len(data.inputs)
    train, (test, true) = TensorDataset(table[:many], targets[:many]), (table[many:], targets[many:])
    model = _Patients(knows=sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(20):
        model.train()
        for rows, scores in DataLoader(train, 32, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, scores)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=scores)
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            guessed = model(test)
        session.validation(functional.mse_loss(guessed, true).item())
    return samples.explained(guessed, true)
