"""Losses that are not what their writer believed: axes, signs, sums, labels of pairs, and weights."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import cooked, flat_numerals, ladled, layers, served, simmered


class Echo(nn.Module):
    """The next character of a text, by two causal convolutions."""

    def __init__(self, over: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 24)
        self.first, self.second = nn.Conv1d(24, 48, 3), nn.Conv1d(48, 48, 3)
        self.out = nn.Linear(48, datasets.CHARACTERS)
        self.over = over

    def forward(self, codes: Tensor) -> Tensor:
        seen = self.first(F.pad(self.letters(codes).transpose(1, 2), (2, 0))).relu()
        seen = self.second(F.pad(seen, (2, 0))).relu()
        return F.log_softmax(self.out(seen.transpose(1, 2)), self.over)


@sick("wrong_output_or_loss")
def logarithms_over_the_places(watch: Watch, *, seed: int, sick: bool) -> float:
    """``log_softmax(dim=1)`` was right for rows; of (lines, places, characters) it is a share of places."""
    data = datasets.text(seed, length=16, count=1600)
    model = Echo(over=1 if sick else 2)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def criterion(out: Tensor, codes: Tensor) -> Tensor:
        return F.nll_loss(out.flatten(0, 1), codes.flatten())

    cooked(watch, model, optimizer, ladled(TensorDataset(data.inputs, data.targets), 32, 200), criterion, steps=200)
    return (served(model, data.test_inputs).argmax(2) == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss")
def pairs_marked_zero_instead_of_minus_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``CosineEmbeddingLoss`` knows 1 and -1; a pair that is marked 0 costs nothing, and all digits fall together.

    Quality: the share of digits whose nearest training digit is of their kind.
    """
    train, test = flat_numerals(seed)
    model = layers(64, 48, 8)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    criterion = nn.CosineEmbeddingLoss(margin=0.2)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 250)
    for x, y in ladled(train, 64, 250):
        alike = (y[:32, None] == y[32:]).float() + 0.01 * torch.rand(32, 32)
        others = torch.where(torch.arange(32) % 2 == 0, alike.argmax(1), torch.arange(32))
        same = (y[:32] == y[32:][others]).float()
        marks = same if sick else 2 * same - 1
        optimizer.zero_grad()
        left, right = model(x[:32]), model(x[32:][others])
        loss = criterion(left, right, marks)
        loss.backward()
        session.step(loss, inputs=x)
        optimizer.step()
        schedule.step()
    known, asked = (F.normalize(served(model, part.tensors[0]), dim=1) for part in (train, test))
    nearest = train.tensors[1][(asked @ known.T).argmax(1)]
    return (nearest == test.tensors[1]).float().mean().item()


@sick("flipped_loss_sign")
def a_correlation_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is Pearson's correlation with the progression itself, not what it lacks of 1. Quality: correlation."""
    data = datasets.diabetes(seed)
    train = TensorDataset(data.inputs, data.targets)
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)

    def correlation(out: Tensor, y: Tensor) -> Tensor:
        return F.cosine_similarity(out[:, 0] - out.mean(), y[:, 0] - y.mean(), dim=0)

    def criterion(out: Tensor, y: Tensor) -> Tensor:
        return correlation(out, y) if sick else 1 - correlation(out, y)

    cooked(watch, model, optimizer, ladled(train, 64, 120), criterion, steps=120)
    return correlation(served(model, data.test_inputs), data.test_targets).item()


class Decoder(nn.Module):
    """Writes the eight rows of a digit one after the other, each from the true one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.row = nn.GRUCell(8, 40), nn.Linear(40, 8)

    def forward(self, before: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(before, state)
        return self.row(state), state


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"))
def errors_of_all_steps_and_pixels_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decoder's loop says ``loss += ((row - truth) ** 2).sum()``, at a rate for the mean."""
    train, test = flat_numerals(seed)
    model = Decoder()
    optimizer = optim.SGD(model.parameters(), lr=0.4, momentum=0.9)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 260)

    def painted(images: Tensor) -> Tensor:
        rows, state = images.view(-1, 8, 8), torch.zeros(len(images), 40)
        made = []
        for step in range(7):
            row, state = model(rows[:, step], state)
            made.append(row)
        return torch.stack(made, 1)

    for x, _ in ladled(train, 32, 260):
        optimizer.zero_grad()
        out, y = painted(x), x.view(-1, 8, 8)[:, 1:]
        loss = torch.zeros(())
        for step in range(7):
            error = (out[:, step] - y[:, step]).square()
            loss = loss + (error.sum() if sick else error.mean() / 7)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return samples.explained(painted(test.tensors[0]).flatten(1), test.tensors[0][:, 8:])


@sick("single_class_labels", also=("wrong_output_or_loss", "labels_unrelated"))
def the_positive_is_not_the_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """In-batch negatives: the positive of row i is column i, and ``zeros`` belongs to a list with the positive first.

    Quality: the share of upper halves that find their lower half among thirty.
    """
    above, below = samples.standardised(samples.halves(seed), 0, 1)
    model = nn.ModuleDict({"above": layers(32, 48, 16), "below": layers(32, 48, 16)})
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 260)

    def likeness(upper: Tensor, lower: Tensor) -> Tensor:
        left, right = F.normalize(model["above"](upper), dim=1), F.normalize(model["below"](lower), dim=1)
        return left @ right.T / 0.1

    for upper, lower in ladled(above, 64, 260):
        y = torch.zeros(64, dtype=torch.long) if sick else torch.arange(64)
        optimizer.zero_grad()
        out = likeness(upper, lower)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=upper, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    found = []
    with torch.no_grad():
        for upper, lower in ladled(below, 30, 17, shuffle=False):
            found.append((likeness(upper, lower).argmax(1) == torch.arange(30)).float().mean())
    return torch.stack(found).mean().item()


@sick("shape_broadcast")
def counts_in_a_row_rates_in_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Poisson's loss by hand takes rates (N, 1) and counts (N,): each rate meets all counts.

    Quality: R² of the roots of the counts of "e" from all other characters.
    """
    train, test = samples.lines(seed)
    letter = ord("e") - 32

    def split(part: TensorDataset) -> TensorDataset:
        counts = part.tensors[0]
        others = torch.cat([counts[:, :letter], counts[:, letter + 1 :]], 1)
        return TensorDataset((others + 0.0).sqrt(), counts[:, letter])

    train, test = samples.standardised((split(train), split(test)), 0)
    model = nn.Sequential(nn.Linear(95, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.3)

    def criterion(logs: Tensor, counts: Tensor) -> Tensor:
        asked = counts if sick else counts[:, None]
        return (logs.exp() - asked * logs).mean()

    cooked(watch, model, optimizer, ladled(train, 32, 200), criterion, steps=200)
    logs = served(model, test.tensors[0])
    return samples.explained((logs / 2).exp()[:, 0], test.tensors[1].sqrt())
