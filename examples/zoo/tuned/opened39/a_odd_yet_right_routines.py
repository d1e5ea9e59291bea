"""Sound trainings that look odd: rates, batches, rests, and noise."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened39.a_mechanics_of_a_step import small_net
from examples.zoo.tuned.opened39.a_optimizer_settings import CharacterReader
from examples.zoo.tuned.opened39.a_shared_loaders import excerpts, explained, glyphs, half_digits, scan_lines


@healthy(at_least=0.9)
def restarts_of_a_cosine_rate(watch: Watch, *, seed: int) -> float:
    """The rate falls to nearly zero three times and jumps up again, and the loss jumps with it."""
    data = glyphs(seed)
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=70, eta_min=1e-4)
    fit(watch, model, optimizer, data, steps=210, batch_size=48, scheduler=schedule, validate_every=30)
    return accuracy(model, data)


@healthy(at_least=0.85)
def batches_of_two_wines(watch: Watch, *, seed: int) -> float:
    """Two rows make a batch, so the loss jumps from step to step, at a rate that suits it."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    fit(watch, model, optimizer, data, steps=390, batch_size=2)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_trained_body_that_rests(watch: Watch, *, seed: int) -> float:
    """A body that learnt the digits from 0 to 4 is frozen on purpose, and a new head learns the other five."""
    data = glyphs(seed)
    low, high, test = data.targets < 5, data.targets >= 5, data.test_targets >= 5
    body = small_net()
    early = torch.optim.Adam(body.parameters(), lr=3e-3)
    first = Data(data.inputs[low], data.targets[low], data.test_inputs, data.test_targets)
    for images, labels in first.batches(48, 120):
        early.zero_grad()
        functional.cross_entropy(body(images), labels).backward()
        early.step()
    body.requires_grad_(False)
    body[-1] = nn.Linear(384, 5)
    optimizer = torch.optim.Adam(body[-1].parameters(), lr=3e-3)
    second = Data(data.inputs[high], data.targets[high] - 5, data.test_inputs[test], data.test_targets[test] - 5)
    fit(watch, body, optimizer, second, steps=150, batch_size=32)
    return accuracy(body, second)


@healthy(at_least=0.6)
def sparse_rows_of_a_bag_of_pairs(watch: Watch, *, seed: int) -> float:
    """A bag of hashed pairs of characters has sparse gradients: most rows of its table rest in each step."""
    drawn = excerpts(seed)

    def hashed(codes: torch.Tensor) -> torch.Tensor:
        return (codes[:, :-1] * CHARACTERS + codes[:, 1:]) % 2003

    data = Data(hashed(drawn.inputs), drawn.targets, hashed(drawn.test_inputs), drawn.test_targets)
    model = nn.EmbeddingBag(2003, 4, sparse=True, mode="mean")
    nn.init.normal_(model.weight, std=0.05)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_third_of_the_labels_by_chance(watch: Watch, *, seed: int) -> float:
    """A third of the digits' labels are wrong, so the loss stays high, and a small net with decay finds the rest."""
    data = glyphs(seed, flat=True)
    wrong = torch.rand(len(data.targets)) < 0.33
    labels = torch.where(wrong, torch.randint(10, data.targets.shape), data.targets)
    data = Data(data.inputs, labels, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@healthy(at_least=0.6)
def smoothed_labels_and_mixed_excerpts(watch: Watch, *, seed: int) -> float:
    """Labels are smoothed by 0.2 and a tenth of the characters is masked: the loss cannot come near zero."""
    data = excerpts(seed)
    model = CharacterReader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for codes, labels in data.batches(48, 200):
        codes = torch.where(torch.rand(codes.shape) < 0.1, 97, codes)
        logits = model(codes)
        loss = functional.cross_entropy(logits, labels, label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.25)
def the_easy_halves_first(watch: Watch, *, seed: int) -> float:
    """A curriculum: digits with little ink come first, then all of them, and the loss rises as they come."""
    data = half_digits(seed)
    order = data.targets.square().mean(1).argsort()
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step in range(300):
        share = min(1.0, 0.3 + step / 150)
        rows = order[torch.randint(int(share * len(order)), (64,))]
        outputs = model(data.inputs[rows])
        loss = functional.mse_loss(outputs, data.targets[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.8)
def four_micro_batches_that_are_averaged(watch: Watch, *, seed: int) -> float:
    """Gradients of four micro-batches are averaged before each step of a forecast, with a warm-up of its rate."""
    data = scan_lines(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    ramp = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=20)
    session = watch(model, optimizer)
    for done, (runs, ahead) in enumerate(data.batches(16, 600), 1):
        outputs = model(runs)
        loss = functional.mse_loss(outputs, ahead) / 4
        loss.backward()
        if done % 4 == 0:
            session.step(4 * loss, inputs=runs, outputs=outputs, targets=ahead)
            optimizer.step()
            ramp.step()
            optimizer.zero_grad()
    return explained(model, data)


@healthy(at_least=0.35)
def progress_in_its_own_units(watch: Watch, *, seed: int) -> float:
    """Targets are from 25 to 346, and the model itself puts them back into these units: the loss is in thousands."""
    data = datasets.diabetes(seed, raw_targets=True)
    mean, std = data.targets.mean(), data.targets.std()

    class Standardised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.inner(rows) * std + mean

    model = Standardised()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@healthy(at_least=0.9)
def a_mean_of_the_late_weights(watch: Watch, *, seed: int) -> float:
    """Stochastic weight averaging: the rate stays high, and what is used is the mean of the last epochs' weights."""
    data = glyphs(seed)
    model = small_net()
    mean = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(64, 200)):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        if step >= 120:
            mean.update_parameters(model)
    return accuracy(mean, data)
