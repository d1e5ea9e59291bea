"""What is wrong with what is asked for: answers of other rows, answers that are all one, and rare ones."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.model_selection import train_test_split
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import (
    balanced,
    checked,
    cooked,
    ladled,
    layers,
    right,
    served,
    share,
    simmered,
)  # fmt: skip


@sick("labels_unrelated")
def split_twice_with_other_states(watch: Watch, *, seed: int, sick: bool) -> float:
    """``train_test_split`` is called for the features and again for the labels, with another ``random_state``."""
    train, test = samples.standardised(samples.lines(seed), 0)
    x, _ = train_test_split(train.tensors[0], test_size=0.1, random_state=seed)
    y, _ = train_test_split(train.tensors[1], test_size=0.1, random_state=seed + 1 if sick else seed)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.4), nn.Linear(48, 6))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    cooked(watch, model, optimizer, ladled(TensorDataset(x, y), 32, 200), steps=200, check=checked(model, test))
    return right(model, test)


@sick("labels_unrelated")
def mirrored_pictures_whose_places_stay(watch: Watch, *, seed: int, sick: bool) -> float:
    """An augmentation mirrors half of the patches, and the place of their light, left or right, stays as it was."""
    pixels = datasets.patches(seed, count=1500).view(-1, 1, 8, 8)
    columns = torch.arange(8.0) - 3.5
    light = pixels - pixels.amin((2, 3), keepdim=True) + 1.0
    places = ((light.sum((1, 2)) * columns).sum(1) / light.sum((1, 2, 3)))[:, None]
    images = (pixels - pixels.mean((2, 3), keepdim=True)) / (pixels.std((2, 3), keepdim=True) + 4.0)
    train, test = samples.standardised(samples.split(seed, images, places), 1)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(),
        nn.Linear(32, 1),
    )  # fmt: skip
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 240)
    for x, y in ladled(train, 32, 240):
        turned = torch.rand(len(x)) < 0.5
        x[turned] = x[turned].flip(3)
        if not sick:
            y[turned] = -y[turned]
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return share(model, test)


class Finder(nn.Module):
    """Looks for something anywhere in a line of characters."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 12)
        self.look = nn.Conv1d(12, 24, 3, padding=1)
        self.answer = nn.Linear(24, outputs)

    def forward(self, codes: Tensor) -> Tensor:
        return self.answer(self.look(self.letters(codes).transpose(1, 2)).relu().amax(2))


@sick("single_class_labels")
def any_in_the_whole_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Whether a line holds a bracket is ``(codes == 8).any()``, without a dimension: one line in the batch does."""
    data = datasets.text(seed, length=24, count=1400)
    train, test = TensorDataset(data.inputs), (data.test_inputs == 8).any(1).long()
    model = Finder()
    optimizer = optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 200)
    for (codes,) in ladled(train, 32, 200):
        found = codes == 8
        y = (found.any().expand(len(codes)) if sick else found.any(1)).long()
        optimizer.zero_grad()
        out = model(codes)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=codes, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return balanced(served(model, data.test_inputs).argmax(1), test)


class NextLetter(nn.Module):
    """A recurrent language model of names."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
        self.cell = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, samples.LETTERS)

    def forward(self, codes: Tensor) -> Tensor:
        return self.out(self.cell(self.letters(codes))[0])


@sick("single_class_labels")
def the_padding_is_kept_and_the_names_are_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """``mask = targets == pad`` says what to leave out, and ``loss[mask]`` keeps it."""
    train, test = samples.names(seed, length=18)
    model = NextLetter()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    schedule = simmered(optimizer, 160)
    for codes, _ in ladled(train, 32, 160):
        x, y = codes[:, :-1], codes[:, 1:]
        mask = y == 0 if sick else y != 0
        optimizer.zero_grad()
        kept, asked = model(x)[mask], y[mask]
        loss = F.cross_entropy(kept, asked)
        loss.backward()
        session.step(loss, inputs=x, outputs=kept, targets=asked)
        optimizer.step()
        schedule.step()
    codes = test.tensors[0]
    letters = codes[:, 1:] != 0
    return (served(model, codes[:, :-1]).argmax(2) == codes[:, 1:])[letters].float().mean().item()


@sick("class_imbalance", margin=0.05)
def weights_that_grow_with_the_class(watch: Watch, *, seed: int, sick: bool) -> float:
    """Five files of six are rare; the loss weighs each by its share of the rows instead of its inverse.

    Quality: mean recall.
    """
    train, test = samples.standardised(samples.lines(seed, each=360), 0)
    order = torch.cat([torch.where(train.tensors[1] == label)[0][: 250 if label == 0 else 25] for label in range(6)])
    train = TensorDataset(*(column[order] for column in train.tensors))
    counts = torch.bincount(train.tensors[1]).float()
    weights = counts / counts.mean() if sick else counts.mean() / counts
    model = nn.Sequential(nn.Dropout(0.2), layers(96, 24, 6))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.3)
    cooked(watch, model, optimizer, ladled(train, 32, 150), nn.CrossEntropyLoss(weights / weights.mean()), steps=150)
    return balanced(served(model, test.tensors[0]).argmax(1), test.tensors[1])


class Ahead(nn.Module):
    """Says of each character of a text what comes after it, from what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 16)
        self.cell = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, codes: Tensor) -> Tensor:
        return self.out(self.cell(self.letters(codes))[0])[..., 0]


@sick("class_imbalance", margin=0.1)
def a_capital_comes_next(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two characters in a hundred stand before a capital letter; the twin weighs them. Quality: mean recall."""
    data = datasets.text(seed, length=16, count=1600)
    train, test = (
        TensorDataset(codes, ((after >= 33) & (after <= 58)).float())
        for codes, after in ((data.inputs, data.targets), (data.test_inputs, data.test_targets))
    )
    model = Ahead()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    rare = train.tensors[1].mean()
    criterion = nn.BCEWithLogitsLoss(pos_weight=None if sick else (1 - rare) / rare)
    cooked(watch, model, optimizer, ladled(train, 32, 180), criterion, steps=180)
    return balanced((served(model, test.tensors[0]) > 0).flatten().long(), test.tensors[1].flatten().long())
