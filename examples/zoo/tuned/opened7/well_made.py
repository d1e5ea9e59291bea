"""Sound trainings of models with parts that are still, rare, shared or sparse by intention."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened7.builds import Variational, explained, mlp, outputs_of, right, share
from examples.zoo.tuned.opened7.drills import drill, falling, rounds
from examples.zoo.tuned.opened7.supplies import Rows, anew, fresh, friedman, pixels, portraits, tones

Told = dict[str, Tensor]


@healthy(at_least=0.5)
def divergence_raised_from_zero(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder whose divergence counts more with each step: the loss falls, rises and settles."""
    rows = pixels(seed)
    model = Variational()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    batches = enumerate(rows.epochs(48, 360))

    def objective() -> tuple[Tensor, Told]:
        step, (x, _) = next(batches)
        out, divergence = model(x)
        weight = 8e-3 * min(1.0, step / 150)
        return F.mse_loss(out, x) + weight * divergence, {"inputs": x, "outputs": out, "targets": x}

    rounds(watch, model, optimizer, 360, objective, after=falling(optimizer, 361))
    return share(outputs_of(model, rows.x_test)[0], rows.x_test)


class LowRank(nn.Module):
    """A frozen layer with a product of two thin matrices beside it, the second of which starts at zero."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T


def _learnt(rows: Rows, steps: int = 150) -> nn.Sequential:
    """Returns a network that has learnt these rows, unwatched."""
    model = mlp(64, 64, 64, 10)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    for x, y in rows.draws(48, steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


@healthy(at_least=0.85)
def adapters_of_low_rank(watch: Watch, *, seed: int) -> float:
    """Digits turned upside down for a net that knows upright ones; only thin matrices and the head learn."""
    rows = pixels(seed)
    model = _learnt(rows)
    rows.x, rows.x_test = rows.x.flip(1), rows.x_test.flip(1)
    model[0], model[2] = LowRank(model[0], 8), LowRank(model[2], 8)
    optimizer = optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=8e-3)
    drill(watch, model, optimizer, rows.epochs(32, 260), after=falling(optimizer, 260))
    return right(model, rows)


@healthy(at_least=0.85)
def a_probe_on_frozen_features(watch: Watch, *, seed: int) -> float:
    """A pretrained body stays as it is, in eval mode, and a linear layer learns whether a digit is even."""
    rows = pixels(seed)
    body = _learnt(rows)[:4].requires_grad_(False).eval()
    rows.y, rows.y_test = rows.y % 2, rows.y_test % 2
    model = nn.Sequential(body, nn.Linear(64, 2))
    optimizer = optim.SGD(model[1].parameters(), lr=0.02, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 160), after=falling(optimizer, 160))
    return right(model, rows)


class Reservoir(nn.Module):
    """An echo state network: its recurrence is drawn once and kept as buffers, and only the readout learns."""

    def __init__(self, width: int = 120) -> None:
        super().__init__()
        recurrent = torch.randn(width, width)
        self.register_buffer("recurrent", 0.9 * recurrent / torch.linalg.eigvals(recurrent).abs().max())
        self.register_buffer("entry", 0.7 * torch.randn(width))
        self.readout = nn.Linear(width, 3)

    def forward(self, series: Tensor) -> Tensor:
        state, trace = torch.zeros(len(series), len(self.entry)), torch.zeros(len(series), len(self.entry))
        for value in series.unbind(1):
            state = torch.tanh(state @ self.recurrent.T + value * self.entry)
            trace = trace + state.square() / series.shape[1]
        return self.readout(4 * trace)


@healthy(at_least=0.85)
def an_echo_state_network(watch: Watch, *, seed: int) -> float:
    """Random dynamics by intention, with a trained readout."""
    model = Reservoir()
    optimizer = optim.Adam(model.parameters(), lr=2e-2)
    drill(watch, model, optimizer, fresh(tones, 48, 220), after=falling(optimizer, 220))
    return right(model, anew(tones, 800, seed))


class Switch(nn.Module):
    """Sends each row to one of the experts; some get hardly any."""

    def __init__(self, count: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(10, count)
        self.experts = nn.ModuleList(mlp(10, 16, 1) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        share_, chosen = self.gate(x).softmax(1).max(1)
        out = torch.zeros(len(x))
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero()[:, 0]
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows])[:, 0])
        return out * (1 + share_ - share_.detach())


@healthy(at_least=0.8)
def experts_that_wait(watch: Watch, *, seed: int) -> float:
    """A switch between eight experts, in each batch some of them without a gradient."""
    rows = friedman(seed)
    model = Switch()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, rows.epochs(48, 300), F.mse_loss, after=falling(optimizer, 300))
    return explained(model, rows)


@healthy(at_least=0.7)
def a_sparse_code(watch: Watch, *, seed: int) -> float:
    """An overcomplete autoencoder with a penalty on its code, most of which is zero."""
    rows = pixels(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    batches = rows.epochs(48, 320)

    def objective() -> tuple[Tensor, Told]:
        x, _ = next(batches)
        code = encoder(x)
        out = decoder(code)
        return F.mse_loss(out, x) + 0.04 * code.mean(), {"inputs": x, "outputs": out, "targets": x}

    rounds(watch, model, optimizer, 320, objective, after=falling(optimizer, 320))
    return share(outputs_of(model, rows.x_test), rows.x_test)


class Mirror(nn.Module):
    """An autoencoder whose decoder is its encoder, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(24, 64))
        self.inner, self.outer = nn.Parameter(torch.zeros(24)), nn.Parameter(torch.zeros(64))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.weight, self.inner).tanh() * 3, self.weight.T, self.outer)


@healthy(at_least=0.7)
def one_matrix_for_both_ways(watch: Watch, *, seed: int) -> float:
    """Tied weights, as bare parameters."""
    rows = portraits(seed)
    model = Mirror()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    drill(watch, model, optimizer, rows.epochs(48, 260), F.mse_loss, after=falling(optimizer, 260))
    return explained(model, rows)
