"""Sound trainings whose rates, batches and losses look odd: sweeps, cycles, plateaus, tiny batches, a rate of 8."""

import copy
import itertools

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_wine
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened7.builds import Attentive, Flat, convnet, explained, mlp, right
from examples.zoo.tuned.opened7.drills import drill, falling
from examples.zoo.tuned.opened7.supplies import anew, dialects, fresh, friedman, images, moons, phrases, pixels, table

Told = dict[str, Tensor]


@healthy(at_least=0.85)
def warm_restarts(watch: Watch, *, seed: int) -> float:
    """The rate falls to nearly zero and jumps back, three times; the loss jumps with it."""
    rows = friedman(seed)
    model = Flat(mlp(10, 32, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.08, momentum=0.9)
    cycle = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 50, 2, eta_min=1e-3)
    drill(watch, model, optimizer, rows.epochs(32, 350), F.mse_loss, after=cycle.step)
    return explained(model, rows)


@healthy(at_least=0.9)
def a_triangular_rate(watch: Watch, *, seed: int) -> float:
    """A cyclic rate between 0.004 and 0.08, up and down every forty steps."""
    rows = images(seed)
    model = convnet()
    optimizer = optim.SGD(model.parameters(), lr=0.004, momentum=0.9)
    cycle = optim.lr_scheduler.CyclicLR(optimizer, 0.004, 0.08, step_size_up=20, mode="triangular2")
    drill(watch, model, optimizer, rows.epochs(32, 200), after=cycle.step)
    return right(model, rows)


@healthy(at_least=0.9)
def a_sweep_before_the_training(watch: Watch, *, seed: int) -> float:
    """Eighty steps raise the rate from 1e-4 to 0.5, the weights are put back, and the training begins."""
    rows = pixels(seed)
    model = mlp(64, 48, 10)
    optimizer = optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    first, step = copy.deepcopy(model.state_dict()), itertools.count(1)

    def pace() -> None:
        done = next(step)
        if done == 80:
            model.load_state_dict(first)
            optimizer.state.clear()
        rate = 1e-4 * 5000 ** (done / 80) if done < 80 else 0.05 * (1 - (done - 80) / 221)
        optimizer.param_groups[0]["lr"] = rate

    drill(watch, model, optimizer, rows.epochs(32, 300), after=pace)
    return right(model, rows)


@healthy(at_least=0.35)
def a_rate_of_eight(watch: Watch, *, seed: int) -> float:
    """PyTorch's word model: SGD with a rate of 8, and all gradients clipped to 0.25; quality: 1 - loss / log 96."""
    rows = phrases(seed, length=16)
    model = Speller()
    optimizer = optim.SGD(model.parameters(), lr=8.0)
    decay = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=260)

    def limit() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)

    drill(watch, model, optimizer, rows.draws(24, 260), ready=limit, after=decay.step)
    with torch.no_grad():
        return 1 - F.cross_entropy(model(rows.x_test), rows.y_test).item() / 4.564


class Speller(nn.Module):
    """Predicts the next character."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(96, 16)
        self.rnn, self.head = nn.GRU(16, width, batch_first=True), nn.Linear(width, 96)

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(codes))[0]).transpose(1, 2)


@healthy(at_least=0.85)
def batches_of_two(watch: Watch, *, seed: int) -> float:
    """Each step sees two rows: the loss is mostly noise, and the rate is small."""
    rows = moons(seed)
    model = mlp(2, 24, 24, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    drill(watch, model, optimizer, rows.draws(2, 400), after=falling(optimizer, 400))
    return right(model, rows)


def _parity(size: int) -> tuple[Tensor, Tensor]:
    """Six signs, and whether the product of three of them is positive."""
    signs = torch.randint(2, (size, 6)) * 2.0 - 1
    return signs, (signs[:, 0] * signs[:, 2] * signs[:, 3] > 0).long()


@healthy(at_least=0.95)
def a_plateau_and_then_a_cliff(watch: Watch, *, seed: int) -> float:
    """Parity of three bits: the loss stays at log 2 for a while, and then falls to nothing."""
    model = mlp(6, 64, 2)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, fresh(_parity, 64, 300))
    return right(model, anew(_parity, 500, seed))


@healthy(at_least=0.8)
def a_long_ramp(watch: Watch, *, seed: int) -> float:
    """A transformer's rate rises over sixty steps and falls over two hundred."""
    rows = dialects(seed)
    model = Attentive()
    optimizer = optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.1)
    ramp = optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=261, pct_start=0.25, final_div_factor=10)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    drill(watch, model, optimizer, rows.epochs(32, 260), smooth, after=ramp.step)
    return right(model, rows)


@healthy(at_least=0.9)
def a_few_steps_of_fine_tuning(watch: Watch, *, seed: int) -> float:
    """A network that knows the digits already meets them brighter and with noise, for 60 steps with a small rate."""
    rows = images(seed)
    model = convnet()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    for x, y in rows.draws(48, 120):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    noisy = torch.Generator().manual_seed(seed)
    rows.x, rows.x_test = (part + 0.3 * torch.randn(part.shape, generator=noisy) for part in (rows.x, rows.x_test))
    tuned = optim.SGD(model.parameters(), lr=5e-3, momentum=0.8)
    decay = optim.lr_scheduler.LinearLR(tuned, 1.0, 0.1, total_iters=60)
    drill(watch, model, tuned, rows.epochs(32, 60), after=decay.step)
    return right(model, rows)


@healthy(at_least=0.9)
def stopped_when_it_is_done(watch: Watch, *, seed: int) -> float:
    """Early stopping with a patience of five epochs ends a training that has converged."""
    rows = table(load_wine, seed)
    model = mlp(13, 12, 3)
    optimizer = optim.Adam(model.parameters(), lr=8e-3, weight_decay=1e-2)
    best, waited = float("inf"), 0
    session = watch(model, optimizer)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    while waited < 5:
        for x, y in rows.loader(24):
            out = model(x)
            loss = smooth(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        with session.validating(), torch.no_grad():
            held_out = smooth(model(rows.x_test), rows.y_test).item()
        session.validation(held_out)
        best, waited = (held_out, 0) if held_out < best - 2e-3 else (best, waited + 1)
    return right(model, rows)


@healthy(at_least=0.9)
def signs_of_gradients(watch: Watch, *, seed: int) -> float:
    """Lion, by hand: every weight moves by the same amount in each step."""
    rows = pixels(seed)
    model = mlp(64, 48, 10)
    optimizer = Lion(model.parameters(), lr=3e-3)
    drill(watch, model, optimizer, rows.epochs(32, 240), after=falling(optimizer, 240))
    return right(model, rows)


class Lion(optim.Optimizer):
    """The sign of an average of gradients (Chen et al. 2023)."""

    def __init__(self, weights: object, lr: float) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                move = mean.lerp(weight.grad, 0.1).sign()
                weight.sub_(group["lr"] * (move + 0.01 * weight))
                mean.lerp_(weight.grad, 0.01)


@healthy(at_least=0.8)
def quasi_newton_in_full_batches(watch: Watch, *, seed: int) -> float:
    """L-BFGS with a line search over all rows: the loss is flat after thirty of sixty steps."""
    rows = friedman(seed, count=600)
    model = Flat(mlp(10, 8, 1, act=nn.Tanh))
    optimizer = optim.LBFGS(model.parameters(), max_iter=3, line_search_fn="strong_wolfe")
    session = watch(model, optimizer)

    def closure() -> Tensor:
        optimizer.zero_grad()
        ridge = sum(weight.square().sum() for weight in model.parameters())
        loss = F.mse_loss(model(rows.x), rows.y) + 1e-3 * ridge
        loss.backward()
        return loss

    for _ in range(60):
        session.step(optimizer.step(closure))
    return explained(model, rows)
