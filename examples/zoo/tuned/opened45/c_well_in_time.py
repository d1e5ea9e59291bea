"""Sound trainings with tied weights, accumulation, scalers, schedules and targets that look odd from afar."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened45.c_common import Reader, joined, of_columns


class Tied(nn.Module):
    """Guesses the next character with the same table that reads the last ones."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.gru = nn.Embedding(CHARACTERS, 40), nn.GRU(40, 40, batch_first=True)
        nn.init.normal_(self.letters.weight, std=0.1)
        self.head = nn.Linear(40, CHARACTERS)
        self.head.weight = self.letters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.letters(codes))[0])


@healthy(at_least=0.3)
def one_table_in_and_out(watch: Watch, *, seed: int) -> float:
    """A language model's head shares its weights with the embedding."""
    data = datasets.text(seed, length=20)
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_function(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


@healthy(at_least=0.9)
def six_small_batches_to_a_step(watch: Watch, *, seed: int) -> float:
    """Gradients of six micro-batches add up to their mean before each step."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(16, 396), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 6).backward()
        if step % 6 == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_scale_that_must_come_down(watch: Watch, *, seed: int) -> float:
    """A ``GradScaler`` begins far too high for float16, and skips steps until its scale fits."""
    data = datasets.digits(seed)

    class Narrow(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return functional.linear(inputs.half(), self.weight.half(), self.bias.half())

    model = nn.Sequential(Narrow(64, 64), nn.ReLU(), Narrow(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    session = watch(model, optimizer, scaler=scaler)
    for rows, labels in data.batches(64, 160):
        optimizer.zero_grad()
        outputs = model(rows).float()
        loss = functional.cross_entropy(outputs, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_rate_sought_before_training(watch: Watch, *, seed: int) -> float:
    """The rate rises until the loss climbs; then the weights are put back, and a tenth of the rate is used."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    begun = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    session = watch(model, optimizer)
    least, best, rate = math.inf, 1e-5, 1e-5
    for step, (rows, labels) in enumerate(data.batches(64, 260)):
        seeking = step < 80 and rate > 0
        if seeking:
            rate = 1e-5 * (2e6) ** (step / 80)
            optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        if seeking:
            least, best = (loss.item(), rate) if loss.item() < least else (least, best)
            if loss.item() > 3 * least or step == 79:
                model.load_state_dict(begun[0])
                optimizer.load_state_dict(begun[1])
                optimizer.param_groups[0]["lr"], rate = best / 10, 0.0
    return accuracy(model, data)


@healthy(at_least=0.8)
def rows_of_pixels_with_a_slow_start(watch: Watch, *, seed: int) -> float:
    """A small transformer's rate rises for 30 steps from nothing, and falls along a cosine to nothing."""
    data = datasets.digits(seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.place = nn.Linear(8, 32), nn.Parameter(0.02 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(32), enable_nested_tensor=False)
            self.head = nn.Linear(32, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.enter(pixels.view(-1, 8, 8)) + self.place).mean(1))

    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / 30) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / 200)))
    )
    fit(watch, model, optimizer, data, steps=200, batch_size=48, scheduler=scheduler)
    return accuracy(model, data)


@healthy(at_least=0.5)
def names_with_empty_ends(watch: Watch, *, seed: int) -> float:
    """Names are padded, and the embedding's row of the padding never has a gradient."""
    data = joined(samples.names(seed))
    model = Reader(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=130, batch_size=64)
    return accuracy(model, data)


class Priced(nn.Module):
    """Answers in units, and learns in deviations from their mean."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        std, mean = torch.std_mean(values, 0)
        self.register_buffer("std", std)
        self.register_buffer("mean", mean)
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.body(rows) * self.std + self.mean

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Compares both in deviations."""
        return functional.mse_loss((outputs - self.mean) / self.std, (targets - self.mean) / self.std)


@healthy(at_least=0.5)
def millions_behind_a_standardiser(watch: Watch, *, seed: int) -> float:
    """Targets are millions, but the model knows their mean and deviation, and its loss is in those."""
    drawn = joined(samples.standardised(samples.proline(seed), 0))
    data = datasets.Data(drawn.inputs, 1e4 * drawn.targets, drawn.test_inputs, 1e4 * drawn.test_targets)
    model = Priced(data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=model.loss)
    return of_columns(model, data)


@healthy(at_least=0.85)
def a_pupil_and_its_slow_teacher(watch: Watch, *, seed: int) -> float:
    """A teacher is the pupil's moving average and has no gradient; the pupil must agree with it on noisy images."""
    data = datasets.digits(seed)
    model = nn.ModuleDict({"pupil": nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))})
    model["teacher"] = copy.deepcopy(model["pupil"]).requires_grad_(False)
    optimizer = torch.optim.Adam(model["pupil"].parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(64, 220)):
        outputs = model["pupil"](rows)
        noisy = model["pupil"](rows + 0.1 * torch.randn_like(rows))
        agreed = functional.mse_loss(noisy.softmax(1), model["teacher"](rows).softmax(1))
        loss = functional.cross_entropy(outputs, labels) + 2 * agreed
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model["teacher"].parameters(), model["pupil"].parameters(), strict=True):
                slow.lerp_(fast, max(0.05, 1 / (step + 1)))
    return accuracy(model["teacher"], data)
