"""Sound trainings with loops or scales that look odd: ties, portions, scalers, finders, cycles and huge targets."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened44.b_shelf import figures, flat_figures, hits, paired, small_convolutions
from examples.zoo.tuned.opened44.b_tempo import Patchwise


class OneAlphabet(nn.Module):
    """A writer whose last layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 64)
        nn.init.normal_(self.letters.weight, std=0.1)
        self.memory = nn.GRU(64, 64, batch_first=True)
        self.scores = nn.Linear(64, datasets.CHARACTERS, bias=False)
        self.scores.weight = self.letters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.scores(self.memory(self.letters(codes))[0])


@healthy(at_least=0.3)
def letters_in_and_letters_out(watch: Watch, *, seed: int) -> float:
    """One matrix reads the letters and scores the next ones."""
    data = datasets.text(seed, length=20)
    model = OneAlphabet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 200):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return hits(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def four_portions_for_a_step(watch: Watch, *, seed: int) -> float:
    """Gradients of four batches of 12 are averaged, and the optimizer steps after the fourth."""
    data = figures(seed)
    model = small_convolutions()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for number, (images, labels) in enumerate(data.batches(12, 480), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 4).backward()
        if number % 4 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_scale_that_is_too_large_at_first(watch: Watch, *, seed: int) -> float:
    """GradScaler begins at 2**24, so that the first steps overflow in float16 and are skipped, as they should be."""
    data = flat_figures(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(64, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(pixels)
        loss = functional.cross_entropy(outputs.float(), labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_search_for_the_rate_beforehand(watch: Watch, *, seed: int) -> float:
    """A copy tries rates from 1e-5 to 1 until its loss bursts; the model is trained with a tenth of the best."""
    data = flat_figures(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    began = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    session = watch(model, optimizer)
    tried: list[tuple[float, float]] = []
    for pixels, labels in data.batches(64, 60):
        optimizer.param_groups[0]["lr"] *= 10 ** (5 / 60)
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        tried.append((loss.item(), optimizer.param_groups[0]["lr"]))
    model.load_state_dict(began[0])
    optimizer.load_state_dict(began[1])
    optimizer.param_groups[0]["lr"] = min(tried)[1] / 10
    for pixels, labels in data.batches(64, 180):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def up_and_along_half_a_wave(watch: Watch, *, seed: int) -> float:
    """Attention whose rate rises from 0 for 30 steps, and falls to a hundredth along a cosine."""
    data = figures(seed)
    model = Patchwise(norm_first=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)

    def factor(step: int) -> float:
        return (step + 1) / 30 if step < 30 else 0.01 + 0.99 * (1 + math.cos(math.pi * (step - 30) / 170)) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, scheduler=schedule)
    return accuracy(model, data)


class InDollars(nn.Module):
    """Standardises what it reads, and returns what it says in the targets' own units."""

    def __init__(self, rows: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        for name, values in (("rows", rows), ("targets", targets)):
            std, mean = torch.std_mean(values, 0)
            self.register_buffer(f"{name}_mean", mean)
            self.register_buffer(f"{name}_std", std)
        self.body = nn.Sequential(nn.Linear(rows.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.body((rows - self.rows_mean) / self.rows_std) * self.targets_std + self.targets_mean


@healthy(at_least=0.5)
def wines_judged_in_milligrams(watch: Watch, *, seed: int) -> float:
    """Targets up to 1,680, and raw inputs, are standardised in the model; the loss is divided by their variance."""
    data = paired(samples.proline(seed))
    model = InDollars(data.inputs, data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    variance = data.targets.var().item()
    session = watch(model, optimizer)
    for rows, prolines in data.batches(24, 200):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, prolines) / variance
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=prolines)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


class Coupling(nn.Module):
    """Moves and stretches one half of a row by what the other half says."""

    def __init__(self, size: int, flip: bool) -> None:
        super().__init__()
        self.flip, self.half = flip, size // 2
        self.body = nn.Sequential(nn.Linear(self.half, 48), nn.Tanh(), nn.Linear(48, 2 * self.half))
        nn.init.zeros_(self.body[2].weight)
        nn.init.zeros_(self.body[2].bias)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept, moved = rows.chunk(2, 1)[:: -1 if self.flip else 1]
        stretch, shift = self.body(kept).chunk(2, 1)
        stretch = stretch.tanh()
        moved = moved * stretch.exp() + shift
        return torch.cat([moved, kept] if self.flip else [kept, moved], 1), stretch.sum(1)


class Flow(nn.Module):
    """Four couplings, and the logarithm of a row's density."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(size, bool(index % 2)) for index in range(4))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        volume = rows.new_zeros(len(rows))
        for coupling in self.couplings:
            rows, stretched = coupling(rows)
            volume = volume + stretched
        return volume - 0.5 * (rows.square() + math.log(2 * math.pi)).sum(1)


@healthy(at_least=0.5)
def densities_of_tumours(watch: Watch, *, seed: int) -> float:
    """A flow, whose loss falls below 0 and whose couplings begin as identities; judged by its gain over a bell."""
    pair = samples.standardised(samples.tumours(seed), 0)
    rows, asked = pair[0].tensors[0], pair[1].tensors[0]
    model = Flow(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(300):
        batch = rows[torch.randperm(len(rows))[:64]]
        density = model(batch)
        loss = -density.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=batch, outputs=density)
        optimizer.step()
    plain = -0.5 * (asked.square() + math.log(2 * math.pi)).sum(1).mean()
    return ((predicted(model, asked).median() - plain) / plain.abs()).item()
