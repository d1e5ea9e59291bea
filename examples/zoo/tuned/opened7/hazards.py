"""Numbers that overflow or vanish, memory that is kept, and loaders that make training wait."""

import time
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Dataset

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import Flat, convnet, explained, mlp, outputs_of, right, separated, share
from examples.zoo.tuned.opened7.drills import Trainer, drill, rounds
from examples.zoo.tuned.opened7.supplies import Rows, friedman, images, moons, pixels, scaled

Told = dict[str, Tensor]


def _near(model: nn.Module, rows: Rows) -> float:
    """Returns how well distances tell pairs of one class from others."""
    places = outputs_of(model, rows.x_test)
    if places.isnan().any():
        return float("nan")
    same = rows.y_test[:, None] == rows.y_test
    return separated(-torch.cdist(places, places).flatten(), same.flatten().long())


@sick("non_finite_forward")
def exponentials_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """``exp(similarity / 0.01)`` overflows for a similarity of 0.89; repaired: ``logsumexp``, and 0.1."""
    rows = pixels(seed)
    model = mlp(64, 48, 16)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    def objective() -> tuple[Tensor, Told]:
        index = torch.randint(len(rows.x), (48,))
        views = [F.normalize(model(rows.x[index] + 0.4 * torch.randn(48, 64)), dim=1) for _ in range(2)]
        similar = views[0] @ views[1].T
        if not sick:
            return F.cross_entropy(similar / 0.1, torch.arange(48)), {}
        scores = (similar / 0.01).exp()
        return -(scores.diagonal() / scores.sum(1)).log().mean(), {}

    rounds(watch, model, optimizer, 200, objective)
    return _near(model, rows)


@sick("non_finite_forward")
def a_deviation_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Gaussian's deviation comes from a ReLU, and its logarithm is taken; repaired: softplus and a floor."""
    rows = friedman(seed)
    model = mlp(10, 40, 2)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)

    def likelihood(out: Tensor, y: Tensor) -> Tensor:
        mean, raw = out.unbind(1)
        std = raw.relu() if sick else F.softplus(raw) + 0.3
        return (std.log() + 0.5 * ((y - mean) / std).square()).mean()

    drill(watch, model, optimizer, rows.epochs(48, 360), likelihood)
    return share(outputs_of(model, rows.x_test)[:, 0], rows.y_test)


@sick("non_finite_forward")
def cross_entropy_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """``y * log(p) + (1 - y) * log(1 - p)``: a probability that rounds to 1 makes 0 times minus infinity."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(2000, 6, generator=random)
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).float()
    y = torch.where(torch.rand(2000, generator=random) < 0.05, 1 - y, y)
    x[::50] *= 30.0  # now and then an extreme row
    rows = scaled(Rows(x[:1500], y[:1500], x[1500:], y[1500:]))
    model = Flat(nn.Linear(6, 1))
    optimizer = optim.SGD(model.parameters(), lr=1.0, momentum=0.9)

    def loss(out: Tensor, y: Tensor) -> Tensor:
        if not sick:
            return F.binary_cross_entropy_with_logits(out, y)
        p = out.sigmoid()
        return -(y * p.log() + (1 - y) * (1 - p).log()).mean()

    drill(watch, model, optimizer, rows.epochs(32, 250), loss)
    out = outputs_of(model, rows.x_test)
    return float("nan") if out.isnan().any() else separated(out, rows.y_test)


@sick("non_finite_backward")
def a_pair_of_one_picture(watch: Watch, *, seed: int, sick: bool) -> float:
    """The root of a distance of 0 has an infinite slope; some pairs are a picture and itself."""
    rows = pixels(seed)
    model = mlp(64, 48, 16)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    def objective() -> tuple[Tensor, Told]:
        first, second = torch.randint(len(rows.x), (2, 96))
        near = rows.y[first] == rows.y[second]
        second = torch.where(torch.rand(96) < 0.03, first, second)
        near |= first == second
        gap = (model(rows.x[first]) - model(rows.x[second])).square().sum(1)
        apart = (gap if sick else gap + 1e-6).sqrt()
        return torch.where(near, 3 * apart, (2.0 - apart).clamp(min=0)).mean(), {"targets": near}

    rounds(watch, model, optimizer, 220, objective)
    return _near(model, rows)


class SignedRoot(nn.Module):
    """The root of positive values, and a tenth of the others; the slope of the branch not taken counts as well."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, x: Tensor) -> Tensor:
        positive = x.clamp(min=self.floor) if self.floor else x
        return torch.where(x > self.floor, positive.sqrt(), 0.1 * x)


@sick("non_finite_backward")
def the_branch_not_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.where(x > 0, x.sqrt(), 0.1 * x)``: the slope of the root of a negative value is NaN, chosen or not."""
    rows = moons(seed)
    model = mlp(2, 32, 32, 2, act=lambda: SignedRoot(0.0 if sick else 0.05))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, rows.epochs(32, 300))
    return right(model, rows) if not outputs_of(model, rows.x_test).isnan().any() else float("nan")


@sick("fp16_underflow")
def small_weights_of_a_loss_in_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """Autocast to float16 without a scaler, and a loss that counts a hundred thousandth."""
    rows = pixels(seed)
    model = mlp(64, 64, 16, 64, 64)
    optimizer = optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for x, _ in rows.epochs(48, 260):
        with torch.autocast("cpu", torch.float16):
            out = model(x)
        loss = 1e-5 * F.mse_loss(out.float(), x)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=x, outputs=out, targets=x)
        scaler.step(optimizer)
        scaler.update()
    return share(outputs_of(model, rows.x_test), rows.x_test)


@sick("memory_leak")
def a_running_sum_with_its_graphs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``running_loss += loss``; quality: the accuracy, less a half if graphs are kept."""
    rows = images(seed)

    class Summing(Trainer):
        running: Any = 0.0

        def backward(self, loss: Tensor) -> None:
            super().backward(loss)
            self.running += loss if sick else loss.item()

    model = convnet()
    trainer = Summing(model, optim.Adam(model.parameters(), lr=4e-3))
    trainer.fit(watch, rows, epochs=5, validate=False)
    return right(model, rows) - 0.5 * bool(getattr(trainer.running, "requires_grad", False))


@sick("memory_leak")
def outputs_kept_for_a_metric(watch: Watch, *, seed: int, sick: bool) -> float:
    """All outputs are collected for an R² at the end, with their graphs; quality: R², less a half if they are kept."""
    rows = friedman(seed)
    model = Flat(mlp(10, 128, 128, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    kept: list[Tensor] = []

    def loss(out: Tensor, y: Tensor) -> Tensor:
        kept.append(out if sick else out.detach())
        return F.mse_loss(out, y)

    drill(watch, model, optimizer, rows.epochs(64, 300), loss)
    return explained(model, rows) - 0.5 * kept[0].requires_grad


class Drawn(Dataset[Any]):
    """Digits that are turned over pixel by pixel when they are asked for, or were turned before."""

    def __init__(self, rows: Rows, *, ahead: bool) -> None:
        self.rows = rows
        self.done = [self._turned(index) for index in range(len(rows.x))] if ahead else []

    def _turned(self, index: int) -> Tensor:
        grid = [[0.0] * 8 for _ in range(8)]
        for row in range(8):
            for column in range(8):
                grid[column][7 - row] = float(self.rows.x[index, 0, row, column])
        return torch.tensor(grid)[None]

    def __len__(self) -> int:
        return len(self.rows.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return (self.done[index] if self.done else self._turned(index)), self.rows.y[index]


@sick("data_loading_bound", slow=True)
def pixel_by_pixel(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each picture is turned in a loop over its pixels, again in each epoch; quality: the share of time without it."""
    rows = images(seed)
    loader = DataLoader(Drawn(rows, ahead=not sick), batch_size=32, shuffle=True, drop_last=True)
    model = convnet()
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    waited = 0.0
    began = time.perf_counter()

    def timed() -> Any:
        nonlocal waited
        for _ in range(3):
            batches = iter(loader)
            for _ in range(len(loader)):
                asked = time.perf_counter()
                batch = next(batches)
                waited += time.perf_counter() - asked
                yield batch

    drill(watch, model, optimizer, timed())
    return 1 - waited / (time.perf_counter() - began)
