"""Sound trainings with habits that look like mistakes: tied weights, skipped steps, sweeps, padding and big numbers."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened52.j_stock import flat_numerals, of_pair, rows_of_numerals


class OneTable(nn.Module):
    """Reads letters with a table, and scores the next one with it."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 64)
        nn.init.normal_(self.letters.weight, std=0.1)
        self.mix = nn.Sequential(nn.Flatten(), nn.Linear(64 * 8, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64))
        self.out = nn.Linear(64, datasets.CHARACTERS)
        self.out.weight = self.letters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.mix(self.letters(codes)))


@healthy(at_least=0.3)
def one_table_to_read_and_to_write(watch: Watch, *, seed: int) -> float:
    """A model of eight letters whose head is its table; its best is far from certain, as text is."""
    windows = datasets.text(seed, length=8, count=4000)
    data = Data(windows.inputs, windows.targets[:, -1], windows.test_inputs, windows.test_targets[:, -1])
    model = OneTable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=250, batch_size=96)
    return accuracy(model, data)


@healthy(at_least=0.9)
def five_small_batches_to_a_step(watch: Watch, *, seed: int) -> float:
    """Five batches of eight make a step, each loss divided by five; only the last one is told."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for count, (pixels, labels) in enumerate(data.batches(8, 5 * 120), 1):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels) / 5
        loss.backward()
        if count % 5 == 0:
            session.step(5 * loss, inputs=pixels, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_scale_that_halves_itself_first(watch: Watch, *, seed: int) -> float:
    """A GradScaler begins at 2**26, skips the first steps and halves its scale until gradients are finite."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(64, 180):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(pixels)
        loss = functional.cross_entropy(outputs.float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_sweep_of_rates_and_then_the_training(watch: Watch, *, seed: int) -> float:
    """The rate is swept up from 1e-5 until the loss is thrice its best; weights are restored, and training begins."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    begun = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    session = watch(model, optimizer)
    sweeping, best = True, math.inf
    for pixels, labels in data.batches(48, 300):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if sweeping:
            optimizer.param_groups[0]["lr"] *= 1.15
            best = min(best, loss.item())
            if loss.item() > 3 * best:
                sweeping = False
                model.load_state_dict(begun[0])
                optimizer.load_state_dict(begun[1])
                optimizer.param_groups[0]["lr"] = 2e-3
    return accuracy(model, data)


class SmallTransformer(nn.Module):
    """One layer of attention over the eight rows of a digit."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layer(self.lift(rows) + self.places)).mean(1))


@healthy(at_least=0.85)
def a_slow_rise_and_a_cosine_down(watch: Watch, *, seed: int) -> float:
    """The rate rises from 0 over 40 steps, and falls along a cosine to 1 % at the end."""
    data = rows_of_numerals(seed)
    model = SmallTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=40)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 210, eta_min=4e-5)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[40])
    fit(watch, model, optimizer, data, steps=250, batch_size=48, scheduler=schedule)
    return accuracy(model, data)


class Spelling(nn.Module):
    """A recurrent net over letters, whose padding is a vector of zeros that never learns."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(64, 24, padding_idx=0)
        self.net, self.head = nn.GRU(24, 48, batch_first=True), nn.Linear(48, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden, present = self.net(self.letters(codes))[0], (codes != 0)[..., None]
        return self.head((hidden * present).sum(1) / present.sum(1).clamp(min=1))


@healthy(at_least=0.55)
def short_names_filled_with_zeros(watch: Watch, *, seed: int) -> float:
    """Names are padded with code 0, whose vector stays 0, and many letters never occur."""
    data = of_pair(samples.names(seed))
    model = Spelling()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=140, batch_size=48)
    return accuracy(model, data)


class InThousands(nn.Module):
    """Standardises its inputs, and puts its outputs back into the targets' unit."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        for name, values in (("input", inputs), ("target", targets)):
            self.register_buffer(f"{name}_mean", values.mean(0))
            self.register_buffer(f"{name}_std", values.std(0))
        self.net = nn.Sequential(nn.Linear(inputs.shape[1], 24), nn.SiLU(), nn.Linear(24, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.net((rows - self.input_mean) / self.input_std) * self.target_std + self.target_mean


@healthy(at_least=0.4)
def proline_a_thousand_times_as_large(watch: Watch, *, seed: int) -> float:
    """Targets are about 750,000, the model scales its outputs to them, and the loss is in units of their deviation."""
    data = of_pair(samples.proline(seed))
    data = Data(data.inputs, data.targets * 1000, data.test_inputs, data.test_targets * 1000)
    model = InThousands(data.inputs, data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    std = data.targets.std()
    fit(watch, model, optimizer, data, steps=120, batch_size=32,
        loss_function=lambda outputs, targets: functional.mse_loss(outputs / std, targets / std))  # fmt: skip
    return r_squared(model, data)


@healthy(at_least=0.5)
def halves_told_from_ninety_five_others(watch: Watch, *, seed: int) -> float:
    """InfoNCE between upper and lower halves of digits, with a learnt temperature; other rows belong in the loss."""
    data = of_pair(samples.halves(seed))
    mean, std = data.inputs.mean(), data.inputs.std()
    upper, lower, test_upper, test_lower = (
        (part - mean) / std for part in (data.inputs, data.targets, data.test_inputs, data.test_targets)
    )

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.above, self.below = (nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 24)) for _ in range(2))
            self.heat = nn.Parameter(torch.tensor(math.log(1 / 0.15)))

        def forward(self, above: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
            one, other = functional.normalize(self.above(above)), functional.normalize(self.below(below))
            return self.heat.exp() * one @ other.T

    model = Towers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for one, other in Data(upper, lower, test_upper, test_lower).batches(96, 250):
        scores = model(one, other)
        pairs = torch.arange(len(one))
        loss = (functional.cross_entropy(scores, pairs) + functional.cross_entropy(scores.T, pairs)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=one, outputs=scores, targets=pairs)
        optimizer.step()
    with torch.no_grad():
        found = model(test_upper[:100], test_lower[:100]).topk(5).indices
    return (found == torch.arange(100)[:, None]).any(1).float().mean().item()
