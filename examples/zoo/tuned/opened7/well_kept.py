"""Sound loops with unusual plumbing: micro-batches, narrow numbers, scalers, thawing, tasks in turn."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened7.builds import Flat, convnet, mlp, outputs_of, right, share
from examples.zoo.tuned.opened7.drills import accumulate, drill, falling, rounds
from examples.zoo.tuned.opened7.supplies import Rows, friedman, images, moons, pixels

Told = dict[str, Tensor]


@healthy(at_least=0.9)
def micro_batches_averaged(watch: Watch, *, seed: int) -> float:
    """Eight passes for each step, each with an eighth of its loss."""
    rows = images(seed)
    model = nn.Sequential(nn.Flatten(), mlp(64, 48, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    accumulate(watch, model, optimizer, rows, micro=8, count=8, steps=110)
    return right(model, rows)


@healthy(at_least=0.85)
def eight_bits_of_precision(watch: Watch, *, seed: int) -> float:
    """Autocast to bfloat16, which needs no scaler."""
    rows = pixels(seed)
    model = mlp(64, 64, 10)
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    decay = optim.lr_scheduler.CosineAnnealingLR(optimizer, 220)
    session = watch(model, optimizer)
    for x, y in rows.epochs(32, 220):
        with torch.autocast("cpu", torch.bfloat16):
            out = model(x)
            loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        decay.step()
    return right(model, rows)


@healthy(at_least=0.85)
def first_steps_skipped(watch: Watch, *, seed: int) -> float:
    """A scaler that begins too high skips steps until its scale fits float16."""
    rows = pixels(seed)
    model = mlp(64, 48, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=150)
    session = watch(model, optimizer, scaler=scaler)
    for x, y in rows.epochs(32, 220):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(x)
        loss = F.cross_entropy(out.float(), y)
        scaler.scale(loss).backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        scaler.step(optimizer)
        scaler.update()
    return right(model, rows)


class Standardising(nn.Module):
    """Takes columns and gives targets in their own units, which it has been told."""

    def __init__(self, body: nn.Module, rows: Rows) -> None:
        super().__init__()
        self.body = body
        for name, values in (("x", rows.x), ("y", rows.y)):
            std, mean = torch.std_mean(values, 0)
            self.register_buffer(f"{name}_mean", mean)
            self.register_buffer(f"{name}_std", std)

    def forward(self, x: Tensor) -> Tensor:
        return self.body((x - self.x_mean) / self.x_std)


@healthy(at_least=0.85)
def units_known_to_the_model(watch: Watch, *, seed: int) -> float:
    """Columns around a thousand and prices of a hundred thousand; the model scales the ones, the loss the others."""
    rows = friedman(seed)
    rows.x, rows.x_test = rows.x * 300 + 1000, rows.x_test * 300 + 1000
    rows.y, rows.y_test = rows.y * 4e4 + 1e5, rows.y_test * 4e4 + 1e5
    model = Standardising(Flat(mlp(10, 32, 1)), rows)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def relative(out: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(out, (y - model.y_mean) / model.y_std)

    drill(watch, model, optimizer, rows.epochs(48, 320), relative, after=falling(optimizer, 320))
    return share(outputs_of(model, rows.x_test) * model.y_std + model.y_mean, rows.y_test)


@healthy(at_least=0.85)
def thawed_from_the_top(watch: Watch, *, seed: int) -> float:
    """Gradual unfreezing: the head alone for fifty steps, then the layers below it with smaller rates."""
    rows = images(seed)
    model = convnet()
    learns = optim.Adam(model.parameters(), lr=5e-3)
    even = Rows(rows.x, rows.y % 2, rows.x_test, rows.y_test % 2)
    for x, y in even.draws(48, 80):
        learns.zero_grad()
        F.cross_entropy(model(x), y).backward()
        learns.step()
    model[-1] = nn.Linear(model[-1].in_features, 10)
    model[:-1].requires_grad_(False)
    groups = [{"params": model[-1].parameters(), "lr": 0.06}, {"params": model[:-1].parameters(), "lr": 0.02}]
    optimizer = optim.SGD(groups, momentum=0.9)
    decay = optim.lr_scheduler.CosineAnnealingLR(optimizer, 240)
    done = iter(range(240))

    def thaw() -> None:
        decay.step()
        if next(done) == 50:
            model[:-1].requires_grad_(True)

    drill(watch, model, optimizer, rows.epochs(32, 240), after=thaw)
    return right(model, rows)


@healthy(at_least=0.8)
def denoised_from_any_noise(watch: Watch, *, seed: int) -> float:
    """A diffusion's loss is mostly noise that nobody can predict; quality: how well little noise is removed."""
    rows = moons(seed, noise=0.05)
    model = mlp(3, 64, 64, 2)
    optimizer = optim.Adam(model.parameters(), lr=6e-3)

    def noisy(x: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(x)
        return torch.cat([x * (1 - level).sqrt() + noise * level.sqrt(), 2 * level - 1], 1), noise

    def objective() -> tuple[Tensor, Told]:
        x, noise = noisy(rows.x[torch.randint(len(rows.x), (128,))], 0.9 * torch.rand(128, 1) + 0.1)
        out = model(x)
        return F.mse_loss(out, noise), {"inputs": x, "outputs": out, "targets": noise}

    rounds(watch, model, optimizer, 400, objective, after=falling(optimizer, 400))
    x, noise = noisy(rows.x_test, torch.full((len(rows.x_test), 1), 0.9))
    return share(outputs_of(model, x), noise)
