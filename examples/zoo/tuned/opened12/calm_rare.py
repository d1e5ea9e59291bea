"""Sound trainings with plateaus, few rows, sparse tables, averages and choices that are drawn."""

import copy

import torch
from sklearn.datasets import load_iris, load_sample_image
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted


@healthy(at_least=0.9)
def product_of_three_signs_after_a_plateau(watch: Watch, *, seed: int) -> float:
    """Three of sixteen signs multiply to the label: the loss stays at log 2 until the net sees it, and then falls."""
    random = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (6000, 16), generator=random) * 2.0 - 1
    labels = (signs[:, :3].prod(1) > 0).long()
    data = datasets.Data(signs[1000:], labels[1000:], signs[:1000], labels[:1000])
    model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 2))
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9), data, steps=400, batch_size=128)
    return accuracy(model, data)


@healthy(at_least=0.85)
def logistic_regression_of_thirty_flowers(watch: Watch, *, seed: int) -> float:
    """Thirty rows are all there are: a linear model, all rows in each step, and a decay of its weights."""
    features, kinds = load_iris(return_X_y=True)
    x, test_x, y, test_y = train_test_split(features, kinds, train_size=30, random_state=seed, stratify=kinds)
    mean, std = x.mean(0), x.std(0)
    x, test_x = (torch.tensor((part - mean) / std).float() for part in (x, test_x))
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=1e-2)
    data = datasets.Data(x, torch.tensor(y), test_x, torch.tensor(test_y))
    fit(watch, model, optimizer, data, steps=120, batch_size=30)
    return accuracy(model, data)


@healthy(at_least=0.93)
def mean_of_weights_kept_beside_a_fast_net(watch: Watch, *, seed: int) -> float:
    """A moving mean of the weights is what is validated and kept, while the net itself jumps about."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip
    mean = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=48, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            with torch.no_grad():
                for kept, fresh in zip(mean.parameters(), model.parameters(), strict=True):
                    kept.lerp_(fresh, 0.05)
        with session.validating(), torch.no_grad():
            session.validation(functional.cross_entropy(mean(test.tensors[0]), test.tensors[1]).item())
    return samples.accuracy(predicted(mean, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.5)
def pairs_of_letters_in_a_sparse_table(watch: Watch, *, seed: int) -> float:
    """Pairs of letters look up a large table by their hash; only few of its rows have a gradient in a step."""
    train, test = samples.names(seed, length=20)

    def pairs(codes: torch.Tensor) -> torch.Tensor:
        return (codes[:, :-1] * 41 + codes[:, 1:]) * (codes[:, 1:] != 0)

    table = nn.EmbeddingBag(2000, len(samples.SCRIPTS), mode="mean", sparse=True, padding_idx=0)
    nn.init.normal_(table.weight, std=0.05)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.05)
    session = watch(table, optimizer)
    for _ in range(10):
        for codes, scripts in DataLoader(train, batch_size=32, shuffle=True):
            logits = table(pairs(codes))
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=scripts)
            optimizer.step()
    return samples.accuracy(predicted(table, pairs(test.tensors[0])), test.tensors[1])


@healthy(at_least=0.4)
def choices_drawn_with_a_falling_temperature(watch: Watch, *, seed: int) -> float:
    """An autoencoder whose code is eight choices of eight, by Gumbel's trick, at a temperature that falls."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    decoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    model = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        temperature = max(0.5, 1.5 * 0.996**step)
        code = functional.gumbel_softmax(encoder(pixels).view(-1, 8, 8), tau=temperature)
        drawn = decoder(code.flatten(1))
        loss = functional.mse_loss(drawn, pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=drawn, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        chosen = functional.one_hot(encoder(data.test_inputs).view(-1, 8, 8).argmax(2), 8).float()
        return samples.explained(decoder(chosen.flatten(1)), data.test_inputs)


@healthy(at_least=0.93)
def large_batches_with_a_ramp_and_a_cosine(watch: Watch, *, seed: int) -> float:
    """Batches of 512, with a short ramp to 0.4, momentum, and a cosine to zero."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.9, weight_decay=1e-4)
    ramp = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=15)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 105)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [ramp, cosine], [15])
    fit(watch, model, optimizer, data, steps=120, batch_size=512, scheduler=schedule, validate_every=20)
    return accuracy(model, data)


class Sine(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(8 * x)


@healthy(at_least=0.7)
def brightness_of_a_photograph_by_sines(watch: Watch, *, seed: int) -> float:
    """A SIREN learns a photograph's corner from coordinates; it is meant to know it by heart."""
    picture = load_sample_image("flower.jpg")[100 + 10 * seed : 148 + 10 * seed, 200:248].mean(2)
    values = torch.tensor((picture - picture.mean()) / picture.std()).float().view(-1, 1)
    line = torch.linspace(-1, 1, 48)
    places = torch.cartesian_prod(line, line)
    model = nn.Sequential(nn.Linear(2, 64), Sine(), nn.Linear(64, 64), Sine(), nn.Linear(64, 1))
    for index, layer in enumerate((model[0], model[2])):
        bound = 0.5 if index == 0 else (6 / 64) ** 0.5 / 8
        nn.init.uniform_(layer.weight, -bound, bound)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    data = datasets.Data(places, values, places, values)
    fit(watch, model, optimizer, data, steps=300, batch_size=384, loss_function=functional.mse_loss, scheduler=cosine)
    return samples.explained(predicted(model, places), values)


@healthy(at_least=0.6)
def adagrad_on_counts_that_are_mostly_zero(watch: Watch, *, seed: int) -> float:
    """A linear reader of logarithms of counts: most columns of a row are zero, and Adagrad's steps shrink."""
    train, test = samples.lines(seed)
    model = nn.Linear(96, len(samples.FILES))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for _ in range(16):
        for counts, files in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(counts.log1p())
            loss = functional.cross_entropy(logits, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0].log1p()), test.tensors[1])
