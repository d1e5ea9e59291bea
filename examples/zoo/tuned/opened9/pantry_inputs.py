"""What is wrong with what goes in: units, logarithms, truncation, and rows that are all one row."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import (
    checked,
    cooked,
    flat_numerals,
    glances,
    ladled,
    layers,
    right,
    served,
    simmered,
    wines,
)  # fmt: skip


@sick("inputs_not_normalized")
def imagenet_statistics_on_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean and deviation of a well-known set are for pixels from 0 to 1, and these go up to 255."""
    data = datasets.digits(seed, images=True)
    unit = 255.0 if sick else 1.0
    train, test = (
        TensorDataset((pixels * unit - 0.449) / 0.226, labels)
        for pixels, labels in ((data.inputs, data.targets), (data.test_inputs, data.test_targets))
    )
    model = glances()
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    cooked(watch, model, optimizer, ladled(train, 32, 200), steps=200, check=checked(model, test))
    return right(model, test)


@sick("inputs_not_normalized")
def one_deviation_for_the_whole_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """``x.mean()`` and ``x.std()`` lack their dimension: proline is left large, and all else is one value."""
    train, test = wines(seed)
    raw = train.tensors[0]
    std, mean = torch.std_mean(raw) if sick else torch.std_mean(raw, 0)
    train, test = (TensorDataset((part.tensors[0] - mean) / std, part.tensors[1]) for part in (train, test))
    model = layers(13, 16, 3, between=nn.Tanh)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for x, y in DataLoader(train, 16, shuffle=True):
            out = model(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
    return right(model, test)


@sick("inputs_not_normalized")
def powers_without_a_logarithm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Spectra go in as squared amplitudes, whose zero frequency is ten thousand times the others."""
    data = datasets.digits(seed, images=True)

    def spectrum(pixels: Tensor) -> Tensor:
        power = torch.fft.rfft2(pixels[:, 0] * 16).abs().square().flatten(1)
        return power if sick else power.log1p()

    before, after = spectrum(data.inputs), spectrum(data.test_inputs)
    if not sick:
        std, mean = torch.std_mean(before, 0)
        before, after = (before - mean) / std, (after - mean) / std
    train, test = TensorDataset(before, data.targets), TensorDataset(after, data.test_targets)
    model = layers(40, 64, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    cooked(watch, model, optimizer, ladled(train, 48, 260), steps=260)
    return right(model, test)


class Speller(nn.Module):
    """Reads letters from left to right."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 12, padding_idx=0)
        self.cell = nn.GRU(12, 24, batch_first=True)
        self.kind = nn.Linear(24, kinds)

    def forward(self, codes: Tensor) -> Tensor:
        return self.kind(self.cell(self.letters(codes))[0].amax(1))


@sick("inputs_constant")
def an_instruction_fills_the_window(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each name stands behind the same instruction, and the tokenizer keeps the first 15 tokens of both."""
    train, test = samples.names(seed)
    instruction = torch.tensor([[1 + (ord(letter) - 64) for letter in "NAMETHESCRIPTOF"]])

    def prompted(part: TensorDataset) -> TensorDataset:
        codes = torch.cat([instruction.expand(len(part), -1), part.tensors[0]], 1)
        return TensorDataset(codes[:, :15] if sick else codes[:, 8:32], part.tensors[1])

    train, test = prompted(train), prompted(test)
    model = Speller(len(samples.SCRIPTS))
    optimizer = optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.01)
    cooked(watch, model, optimizer, ladled(train, 32, 150), steps=150)
    return right(model, test)


@sick("non_finite_inputs", also=("non_finite_forward",))
def letters_in_no_document(watch: Watch, *, seed: int, sick: bool) -> float:
    """tf-idf by hand: a character that is in no document has an infinite idf, and 0 · inf is NaN."""
    train, test = samples.lines(seed)
    found = (train.tensors[0] > 0).sum(0).float()
    idf = (len(train) / found).log() if sick else ((1 + len(train)) / (1 + found)).log() + 1
    parts = [TensorDataset((part.tensors[0] * idf), part.tensors[1]) for part in (train, test)]
    if not sick:
        parts = [TensorDataset(F.normalize(part.tensors[0], dim=1) * 5, part.tensors[1]) for part in parts]
    train, test = parts
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    optimizer = optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.05)
    cooked(watch, model, optimizer, ladled(train, 32, 200), steps=200)
    return right(model, test)


@sick("inputs_constant", also=("duplicated_data",))
def readers_that_bind_late(watch: Watch, *, seed: int, sick: bool) -> float:
    """``[lambda: read(row) for row in rows]``: when they are called, all of them read the last row."""
    train, test = flat_numerals(seed)
    images, labels = train.tensors
    if sick:
        readers = [lambda: images[row] for row in range(len(images))]  # noqa: B023
    else:
        readers = [lambda row=row: images[row] for row in range(len(images))]
    model = layers(64, 48, 10)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 210)
    for _ in range(5):
        for rows in torch.randperm(len(images)).split(30):
            x, y = torch.stack([readers[row]() for row in rows.tolist()]), labels[rows]
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
    return samples.accuracy(served(model, test.tensors[0]), test.tensors[1])
