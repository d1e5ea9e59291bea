"""Labels that are strangers, alone or rare."""

from itertools import cycle, islice

import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    BOOKS,
    VOCABULARY,
    Speller,
    chunks,
    correct,
    dense,
    evenly,
    explained,
    in_deviations,
    parted,
    turned,
    words,
)


@sick("labels_unrelated")
def turned_once_more_after_the_label(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loader turns each picture and says how far; an augmentation behind it turns again, as it pleases."""
    data = digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def rotated(images: torch.Tensor, quarters: torch.Tensor) -> torch.Tensor:
        return torch.stack([image.rot90(int(turn), (1, 2)) for image, turn in zip(images, quarters, strict=True)])

    session = watch(model, optimizer)
    for images, _ in data.batches(40, 220):
        quarters = torch.randint(4, (len(images),))
        views = rotated(images, quarters)
        if sick:
            views = rotated(views, torch.randint(4, (len(images),)))
        logits = model(views)
        loss = F.cross_entropy(logits, quarters)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views, outputs=logits, targets=quarters)
        optimizer.step()
    quarters = torch.arange(len(data.test_inputs)) % 4
    return correct(predicted(model, rotated(data.test_inputs, quarters)), quarters)


@sick("labels_unrelated")
def order_taken_for_ranks(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rank of a value is ``argsort().argsort()``; a single ``argsort`` says where the values lie."""
    values = torch.from_numpy(sets.load_breast_cancer().data).float()
    data = in_deviations(parted(seed, values[:, :20], values[:, 23:24]))

    def ranks(area: torch.Tensor) -> torch.Tensor:
        order = area[:, 0].argsort()
        return ((order if sick else order.argsort()).float()[:, None] / len(area) - 0.5) * 3.4

    truth = ((data.test_targets > data.test_targets.T).float().mean(1, keepdim=True) - 0.5) * 3.4
    data = Data(data.inputs, ranks(data.targets), data.test_inputs, truth)
    model = dense(20, 32, 1, act=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=40, loss_function=F.mse_loss, validate_every=55)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("single_class_labels")
def found_unless_it_is_none(watch: Watch, *, seed: int, sick: bool) -> float:
    """``word.find("e") is not None`` holds for each word: what is not found is -1."""
    data = words(seed)

    def labels(codes: torch.Tensor, *, right: bool) -> torch.Tensor:
        spelt = ["".join(chr(96 + code) for code in row if 0 < code < 27) for row in codes.tolist()]
        found = [word.find("e") >= 0 if right else word.find("e") is not None for word in spelt]
        return torch.tensor(found).long()

    data = Data(
        data.inputs, labels(data.inputs, right=not sick), data.test_inputs, labels(data.test_inputs, right=True)
    )
    model = Speller(width=24, classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=40, validate_every=60)
    return accuracy(model, data)


@sick("single_class_labels")
def largest_of_a_single_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels come as a column (N, 1) now, and the line that was for one-hot rows still takes ``argmax(1)``."""
    data = turned(seed)
    column = data.targets[:, None]
    model = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 2), nn.GELU(), nn.Flatten())
    model.append(nn.Linear(288, 4))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, column), batch_size=64, shuffle=True)
    for images, column in islice(cycle(loader), 200):
        quarters = column.argmax(1) if sick else column[:, 0]
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, quarters)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=quarters)
        optimizer.step()
    return accuracy(model, data)


@sick("class_imbalance", margin=0.1)
def one_book_fills_the_shelf(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven chunks in eight are from one book, and batches are drawn as the chunks come."""
    data = chunks(seed, each=1200)
    counts = torch.cumsum(F.one_hot(data.targets, len(BOOKS)), 0)[torch.arange(len(data.targets)), data.targets]
    kept = (data.targets == 1) | (counts <= 30)
    books, labels = data.inputs[kept], data.targets[kept]
    weights = 1 / labels.bincount().float()[labels]
    sampler = None if sick else WeightedRandomSampler(weights.tolist(), 2000)
    loader = DataLoader(TensorDataset(books, labels), batch_size=32, shuffle=sick, sampler=sampler)
    model = nn.Sequential(nn.EmbeddingBag(VOCABULARY, 16, padding_idx=0), nn.Linear(16, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, kinds in islice(cycle(loader), 200):
        logits = model(codes)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return evenly(predicted(model, data.test_inputs), data.test_targets)
