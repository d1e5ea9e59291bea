"""Trainings on what a sensor takes of a damped oscillation."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import explained, oscillations


def _bands(rates: torch.Tensor) -> torch.Tensor:
    """Returns the number of one of three bands, into which an oscillation's rate falls."""
    return (rates > 3).long() + (rates > 4.5).long()


class _Recurrent(nn.Module):
    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.cell = nn.GRU(1, 24, batch_first=batch_first)
        self.head = nn.Linear(24, 3)

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(signals[:, :, None])
        return self.head(states[:, -1])


@sick("batch_mixing")
def recurrent_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cell takes its first axis, the batch, for time: states go from one sample to the next; the twin does not."""
    signals, _, facts = oscillations(seed, count=1000, length=20, noise=0.05)
    labels = _bands(facts[:, 0])
    model = _Recurrent(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(800).split(32):
            logits = model(signals[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=signals[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    with torch.no_grad():
        return (model(signals[800:]).argmax(1) == labels[800:]).float().mean().item()


class _Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Windows of a recording, each in units of its own deviation; a loose cable leaves some of them silent."""

    def __init__(self, signals: torch.Tensor, labels: torch.Tensor, *, least: float) -> None:
        silent = torch.rand(len(signals)) < 0.01
        self.signals, self.labels, self.least = signals * ~silent[:, None], labels, least

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = self.signals[row]
        return (window - window.mean()) / (window.std() + self.least), self.labels[row]


@sick("non_finite_inputs")
def silent_windows_divided_by_their_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """One window in a hundred is silent, and is divided by a deviation of zero; the twin adds a little to it."""
    signals, _, facts = oscillations(seed, count=1000)
    labels = _bands(facts[:, 0])
    model = nn.Sequential(
        nn.Unflatten(1, (1, 32)), nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 16, 5, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 14, 3),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    windows = _Windows(signals[:800], labels[:800], least=0.0 if sick else 1e-6)
    for _ in range(6):
        for inputs, bands in DataLoader(windows, 25, shuffle=True):
            logits = model(inputs)
            loss = functional.cross_entropy(logits, bands)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=bands)
            optimizer.step()
    test = signals[800:]
    with torch.no_grad():
        logits = model((test - test.mean(1, keepdim=True)) / test.std(1, keepdim=True))
    return (logits.argmax(1) == labels[800:]).float().mean().item() if logits.isfinite().all() else math.nan


@sick("inputs_not_normalized")
def counts_of_a_converter(watch: Watch, *, seed: int, sick: bool) -> float:
    """A twelve-bit converter counts about 2,048; the twin subtracts that and divides by 512."""
    signals, _, facts = oscillations(seed, count=1000)
    counts = (2048 + 512 * signals).round().clamp(0, 4095)
    inputs = counts if sick else (counts - 2048) / 512
    targets = (facts - facts.mean(0)) / facts.std(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(800).split(32):
            outputs = model(inputs[rows])
            loss = functional.mse_loss(outputs, targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs[rows], outputs=outputs, targets=targets[rows])
            optimizer.step()
    with torch.no_grad():
        return explained(model(inputs[800:])[:, :1], targets[800:, :1])


class _Filter(nn.Module):
    """A plain recurrent net of rectified units, which starts as an integrator."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.cell = nn.RNN(1, width, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(width, 1)
        nn.init.eye_(self.cell.weight_hh_l0)

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(signals[:, :, None])
        return self.head(states)[:, :, 0]


@sick("exploding_gradients")
def an_integrator_without_clipping(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rectified recurrent net multiplies its gradients over 30 points of time; the twin clips their norm to 1."""
    noisy, clean, _ = oscillations(seed, count=600, length=30)
    model = _Filter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(480).split(40):
            outputs = model(noisy[rows])
            loss = functional.mse_loss(outputs, clean[rows])
            optimizer.zero_grad()
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=noisy[rows], outputs=outputs, targets=clean[rows])
            optimizer.step()
    with torch.no_grad():
        return explained(model(noisy[480:]), clean[480:])


@sick("clipping_ineffective", also=("exploding_gradients",))
def clipped_before_the_backward_pass(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sensor spikes make huge gradients, and the norm is clipped when all gradients are none; the twin clips later."""
    noisy, clean, _ = oscillations(seed, count=1000)
    spiky = noisy + 300 * torch.randn(noisy.shape) * (torch.rand(noisy.shape) < 2e-4)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(800).split(32):
            optimizer.zero_grad()
            outputs = model(spiky[rows])
            loss = functional.mse_loss(outputs, clean[rows])
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            session.step(loss, inputs=spiky[rows], outputs=outputs, targets=clean[rows])
            optimizer.step()
    with torch.no_grad():
        return explained(model(noisy[800:]), clean[800:])


@healthy(at_least=0.9)
def fixed_filters_before_a_trained_head(watch: Watch, *, seed: int) -> float:
    """Cosine filters that are never trained, their energies, a batch norm, and a small head, which alone learns."""
    signals, _, facts = oscillations(seed, count=1000)
    labels = _bands(facts[:, 0])
    filters = nn.Conv1d(1, 24, 32, bias=False).requires_grad_(False)
    times = torch.linspace(0, 4, 32)
    waves = [wave(rate * times) for rate in torch.linspace(1, 7, 12) for wave in (torch.cos, torch.sin)]
    filters.weight.copy_(torch.stack(waves)[:, None] / 4)
    head = nn.Sequential(nn.BatchNorm1d(24), nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 3))
    model = nn.ModuleList([filters, head])
    optimizer = torch.optim.AdamW(head.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, bands in DataLoader(TensorDataset(signals[:800], labels[:800]), 32, shuffle=True):
            logits = head(filters(inputs[:, None])[:, :, 0].square())
            loss = functional.cross_entropy(logits, bands)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=bands)
            optimizer.step()
    head.eval()
    with torch.no_grad():
        logits = head(filters(signals[800:, None])[:, :, 0].square())
    return (logits.argmax(1) == labels[800:]).float().mean().item()


@healthy(at_least=0.75)
def learns_the_noise_from_noisy_pairs(watch: Watch, *, seed: int) -> float:
    """Noise2Noise: both the input and the target are noisy, and the loss stays at the noise's variance."""
    noisy, clean, _ = oscillations(seed, count=1000, noise=0.4)
    model = nn.Sequential(
        nn.Conv1d(1, 12, 7, padding=3), nn.SiLU(), nn.Conv1d(12, 12, 7, padding=3), nn.SiLU(),
        nn.Conv1d(12, 1, 7, padding=3),
    )  # fmt: skip
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(800).split(32):
            again = clean[rows] + 0.4 * torch.randn(len(rows), 32)
            outputs = noisy[rows] - model(noisy[rows][:, None])[:, 0]
            loss = functional.mse_loss(outputs, again)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy[rows], outputs=outputs, targets=again)
            optimizer.step()
    with torch.no_grad():
        return explained(noisy[800:] - model(noisy[800:, None])[:, 0], clean[800:])
