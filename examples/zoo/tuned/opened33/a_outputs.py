"""What comes out of a model, and what a loss makes of it."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened33.a_parts import Speller, centred, forever, masks, of, of_characters, right, segmenter


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.1)
def a_sigmoid_before_normalised_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder ends in a sigmoid, but its pictures are normalised to mean 0; the twin's last layer is linear."""
    (train,), (test,) = (part.tensors[:1] for part in samples.scenes(seed))
    last = nn.Sigmoid() if sick else nn.Identity()
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(24, 3, 4, stride=2, padding=1),
        last,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for indices in torch.randperm(len(train)).split(48):
            images = train[indices]
            rebuilt = model(images)
            loss = functional.mse_loss(rebuilt, images)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=rebuilt, targets=images)
            optimizer.step()
    return samples.explained(predicted(model, test), test)


@sick("wrong_output_or_loss", margin=0.03)
def likelihood_of_raw_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` takes a model's raw scores, so the loss falls below zero without end; the twin ends in LogSoftmax."""
    data = of(samples.standardised(samples.lines(seed), 0))
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 6))
    if not sick:
        model.append(nn.LogSoftmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.NLLLoss()
    session = watch(model, optimizer)
    for counts, files in forever(data, 64, 160):
        optimizer.zero_grad()
        scores = model(counts)
        loss = criterion(scores, files)
        loss.backward()
        session.step(loss, inputs=counts, outputs=scores, targets=files)
        optimizer.step()
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.2)
def an_error_written_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures' (N, 1) outputs less (N,) targets make (N, N) errors; the twin takes the column out first."""
    pair = samples.halves(seed)
    data = centred(of(samples.standardised(samples.split(seed, *_upper_and_ink(pair)), 1)))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Flatten()
    )
    model.append(nn.Linear(384, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for images, ink in forever(data, 32, 200):
        prediction = model(images)
        if not sick:
            prediction = prediction.squeeze(1)
        loss = ((prediction - ink) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=prediction, targets=ink)
        optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.2)
def the_overlap_as_a_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """A segmentation makes the Dice overlap small, which should be large; the twin takes 1 less the overlap."""
    data = masks(seed)
    model = segmenter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, wanted in forever(data, 48, 120):
        logits = model(images)
        overlap = _dice(logits.sigmoid(), wanted)
        loss = overlap if sick else 1 - overlap
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=wanted)
        optimizer.step()
    return _dice((predicted(model, data.test_inputs) > 0).float(), data.test_targets).item()


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def characters_of_the_batch_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` adds the losses of 512 characters under SGD; the twin has their mean."""
    data = datasets.text(seed, length=16)
    model = Speller(48, nn.GRU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    criterion = nn.CrossEntropyLoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for codes, following in forever(data, 32, 250):
        optimizer.zero_grad()
        logits = model(codes)
        loss = criterion(logits.view(-1, datasets.CHARACTERS), following.view(-1))
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return right(model, data)


@sick("batch_mixing", margin=0.05)
def batch_first_left_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM takes (N, T, D) as time first, so its state runs from window to window; the twin has ``batch_first``."""
    data = datasets.text(seed, length=16)
    model = Speller(48, batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=of_characters)
    return right(model, data)


@sick("labels_unrelated", margin=0.3)
def files_in_the_order_of_their_names(watch: Watch, *, seed: int, sick: bool) -> float:
    """Files ``12.png`` are sorted as strings and labels as numbers; the twin sorts both as numbers."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    order = sorted(range(len(images)), key=(lambda number: f"{number}.png") if sick else None)
    data = datasets.Data(images[torch.tensor(order)], labels, *test.tensors)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, digits in forever(data, 64, 150):
        optimizer.zero_grad()
        logits = model(pictures)
        loss = functional.cross_entropy(logits, digits)
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=digits)
        optimizer.step()
    return accuracy(model, data)


@sick("single_class_labels", also=("labels_unrelated", "class_imbalance"), margin=0.2)
def the_largest_of_one_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels of shape (N, 1) go through ``argmax(1)`` as if one-hot, so all are 0; the twin squeezes them."""
    table = datasets.breast_cancer(seed)
    column = table.targets[:, None]
    labels = column.argmax(1) if sick else column.squeeze(1)
    data = datasets.Data(table.inputs, labels, table.test_inputs, table.test_targets)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=140, batch_size=32)
    return accuracy(model, data)


def _upper_and_ink(pair: samples.Pair) -> tuple[torch.Tensor, torch.Tensor]:
    upper, lower = (torch.cat(columns) for columns in zip(*(part.tensors for part in pair), strict=True))
    return upper.view(-1, 1, 4, 8), lower[:, :16].mean(1)


def _dice(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return (2 * (found * wanted).sum() + 1) / (found.sum() + wanted.sum() + 1)
