"""Sound trainings with customs that look odd: rewards, ties, skipped steps, sweeps of the rate, and padding."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened43.a_material import (
    LETTERS,
    digit_images,
    file_lines,
    flat_digits,
    joined,
    score,
    spelled,
)


@healthy(at_least=0.85)
def values_that_grow_with_the_future(watch: Watch, *, seed: int) -> float:
    """Q-learning with a target network: what is to come grows from 0 to 4 rewards, and the loss rises with it."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    late = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(32, 350)):
        following = data.inputs[torch.randint(len(data.inputs), (len(rows),))]
        values = model(rows)
        greedy, random = values.argmax(1), torch.randint(3, (len(rows),))
        actions = torch.where(torch.rand(len(rows)) < 0.3, random, greedy)
        wanted = (actions == labels).float() + 0.75 * late(following).amax(1)
        taken = values.gather(1, actions[:, None]).squeeze(1)
        loss = functional.smooth_l1_loss(taken, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
        if step % 15 == 14:
            late.load_state_dict(model.state_dict())
    return accuracy(model, data)


class TiedCharacters(nn.Module):
    """A GRU over characters, whose scores are products with the vectors that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(CHARACTERS, 48)
        nn.init.normal_(self.vectors.weight, std=0.15)
        self.recurrence = nn.GRU(48, 48, batch_first=True)
        self.head = nn.Linear(48, CHARACTERS, bias=False)
        self.head.weight = self.vectors.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrence(self.vectors(codes))[0])


@healthy(at_least=0.38)
def vectors_read_and_written(watch: Watch, *, seed: int) -> float:
    """The first and the last layer of a model of text share their weights."""
    data = datasets.text(seed, length=20)
    model = TiedCharacters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=110, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


@healthy(at_least=0.9)
def five_shares_of_a_batch(watch: Watch, *, seed: int) -> float:
    """Gradients of five small batches are averaged for each step, and the rest of an epoch is a share of its own."""
    data = digit_images(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for index, (images, labels) in enumerate(data.batches(13, 5 * 80), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels) / 5
        loss.backward()
        if index % 5 == 0:
            session.step(loss * 5, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def scale_that_is_too_large_at_first(watch: Watch, *, seed: int) -> float:
    """A scaler begins at 2**26, so that float16 gradients overflow and its first steps are skipped."""
    data = flat_digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(64, 120):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(pixels)
        loss = functional.cross_entropy(outputs.float(), labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.6)
def a_sweep_of_rates_before(watch: Watch, *, seed: int) -> float:
    """Eighty steps with rates from 1e-5 to 3 look for the best, what they learned is put back, and training begins."""
    data = file_lines(seed)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    session = watch(model, optimizer)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    least, factor = float("inf"), (3 / 1e-5) ** (1 / 80)
    found = 1e-5
    for step, (rows, labels) in enumerate(data.batches(32, 280)):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        rate = optimizer.param_groups[0]["lr"]
        if step < 80:
            if loss.item() < least:
                least, found = loss.item(), rate
            optimizer.param_groups[0]["lr"] = rate * factor
        if step == 79:
            model.load_state_dict(before[0])
            optimizer.load_state_dict(before[1])
            optimizer.param_groups[0]["lr"] = min(found / 8, 0.03)
    return accuracy(model, data)


@healthy(at_least=0.85)
def up_in_a_line_and_down_in_a_wave(watch: Watch, *, seed: int) -> float:
    """The rate climbs for 40 steps from a hundredth and falls on a cosine to nearly nothing at the end."""
    data = digit_images(seed)

    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.places = nn.Linear(8, 32), nn.Parameter(torch.randn(8, 32) * 0.1)
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(256, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(self.layer(self.enter(images.squeeze(1).mT) + self.places)).flatten(1))

    model = Columns()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=40)
    down = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 160, eta_min=1e-6)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [up, down], [40])
    fit(watch, model, optimizer, data, steps=200, batch_size=48, scheduler=scheduler, validate_every=40)
    return accuracy(model, data)


class PaddedNames(nn.Module):
    """Vectors of letters, a convolution, and a maximum over the letters that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, 24, padding_idx=0)
        self.near, self.head = nn.Conv1d(24, 48, 3, padding=1), nn.Linear(48, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        found = self.near(self.letters(codes).mT).relu() * (codes > 0)[:, None]
        return self.head(functional.dropout(found.amax(2), 0.2, self.training))


@healthy(at_least=0.6)
def letters_padded_with_nothing(watch: Watch, *, seed: int) -> float:
    """Half of all codes are padding, whose vector is 0 and stays so, and a third of the vectors is never read."""
    data = spelled(seed)
    model = PaddedNames()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=110, batch_size=48)
    return accuracy(model, data)


class InItsOwnUnits(nn.Module):
    """A network that knows the mean and the deviation of what it is asked for."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 1))
        for name, values in (("inward", inputs), ("outward", targets)):
            self.register_buffer(f"{name}_std", values.std(0))
            self.register_buffer(f"{name}_mean", values.mean(0))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layers((rows - self.inward_mean) / self.inward_std) * self.outward_std + self.outward_mean


@healthy(at_least=0.45)
def proline_in_micrograms(watch: Watch, *, seed: int) -> float:
    """Raw inputs and targets of a million enter and leave a model that standardises both; Adam's step has no unit."""
    drawn = joined(samples.proline(seed))
    data = datasets.Data(drawn.inputs, drawn.targets * 1000, drawn.test_inputs, drawn.test_targets * 1000)
    model = InItsOwnUnits(data.inputs, data.targets)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return score(model, data)
