"""Sound trainings that may look sick: loops, schedules, scales and pairs."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened57.o_common import as_data


@healthy(at_least=0.9)
def averaged_over_four_turns(watch: Watch, *, seed: int) -> float:
    """Gradients of four batches are averaged before the optimizer steps and zeroes them."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(16, 600), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        (loss / 4).backward()
        if step % 4 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.9)
def scale_of_two_to_the_26(watch: Watch, *, seed: int) -> float:
    """A gradient scaler begins at 2 to the 26, skips its first steps, and finds its scale."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 200):
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_finder_before_the_run(watch: Watch, *, seed: int) -> float:
    """A finder raises the rate in 60 steps; then the weights go back, and a third of the best is taken."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    begun = {name: value.clone() for name, value in model.state_dict().items()}
    session = watch(model, optimizer)
    rates, losses = [], []
    for index, (inputs, targets) in enumerate(data.batches(64, 260)):
        if index < 60:
            optimizer.param_groups[0]["lr"] = 1e-3 * 1000 ** (index / 59)
        elif index == 60:
            model.load_state_dict(begun)
            best = rates[min(range(60), key=lambda at: losses[at])]
            optimizer.param_groups[0]["lr"] = max(0.1, best / 3)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        losses.append(loss.item())
    return accuracy(model, data)


@healthy(at_least=0.85)
def warmed_up_and_cooled_by_a_cosine(watch: Watch, *, seed: int) -> float:
    """A small transformer's rate rises in 30 steps and falls to 0 along a cosine by the last one."""
    data = as_data(samples.numerals(seed))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Linear(8, 32)
            self.places = nn.Parameter(0.02 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(self.rows(images[:, 0]) + self.places).mean(1))

    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    steps = 180

    def factor(step: int) -> float:
        if step < 30:
            return (step + 1) / 30
        return 0.5 * (1 + math.cos(math.pi * (step - 30) / (steps - 30)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=steps, scheduler=scheduler, validate_every=45)
    return accuracy(model, data)


@healthy(at_least=0.55)
def short_names_and_much_padding(watch: Watch, *, seed: int) -> float:
    """Names are padded to 40 letters; the padding's row of the embedding stays 0 and never gets a gradient."""
    data = as_data(samples.names(seed, length=40))

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
            self.parts = nn.Conv1d(32, 64, 3)
            self.head = nn.Linear(64, len(samples.SCRIPTS))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            return self.head(self.parts(self.letters(names).transpose(1, 2)).relu().amax(2))

    model = Bag()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=200, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.3)
def targets_of_hundreds_and_a_scale_within(watch: Watch, *, seed: int) -> float:
    """Targets from 25 to 346 stay as they are, as the model scales its outputs; so the loss is huge."""
    data = datasets.diabetes(seed, raw_targets=True)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
            self.register_buffer("mean", data.targets.mean())
            self.register_buffer("std", data.targets.std())

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.body(values) * self.std + self.mean

    model = Scaled()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, loss_function=functional.mse_loss, validate_every=30)
    return r_squared(model, data)


@healthy(at_least=0.85)
def views_that_find_each_other(watch: Watch, *, seed: int) -> float:
    """Upper and lower halves of a digit find each other among 64, by InfoNCE, whose loss begins at log 64."""
    train, test = samples.halves(seed)
    tops, bottoms = (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)) for _ in range(2))

    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tops, self.bottoms = tops, bottoms

        def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
            return functional.normalize(self.tops(upper), dim=1) @ functional.normalize(self.bottoms(lower), dim=1).T

    model = Pairs()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    upper, lower = train.tensors
    for _ in range(300):
        drawn = torch.randperm(len(upper))[:64]
        scores = model(upper[drawn], lower[drawn]) / 0.1
        own = torch.arange(64)
        loss = (functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=upper[drawn], outputs=scores, targets=own)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = model(*test.tensors)
    ranks = (scores > scores.diag()[:, None]).float().mean(1)
    return 1 - ranks.mean().item()


@healthy(at_least=0.9)
def taught_at_a_temperature_of_three(watch: Watch, *, seed: int) -> float:
    """A small network learns a frozen teacher's probabilities at a temperature of 3, by KL times 9."""
    data = datasets.digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    before = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for inputs, targets in data.batches(64, 200):
        before.zero_grad()
        functional.cross_entropy(teacher(inputs), targets).backward()
        before.step()
    teacher.requires_grad_(False).eval()
    pupil = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    optimizer = torch.optim.Adam(pupil.parameters(), lr=5e-3)
    session = watch(pupil, optimizer)
    for inputs, _ in data.batches(64, 250):
        outputs, told = pupil(inputs), teacher(inputs)
        loss = 9 * functional.kl_div(
            (outputs / 3).log_softmax(1), (told / 3).log_softmax(1), log_target=True, reduction="batchmean"
        )
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=told.softmax(1))
        optimizer.step()
    return accuracy(pupil, data)
