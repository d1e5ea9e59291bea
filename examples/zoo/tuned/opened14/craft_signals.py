"""Time series: swings of pendulums that are forecast, or told by their rate and damping."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import explained, shuffled, swings


class _Reader(nn.Module):
    """Reads a series and puts out some numbers at its end."""

    def __init__(self, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.cell = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, outputs)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(series)[0][:, -1])


def _standard(values: torch.Tensor) -> torch.Tensor:
    return (values - values.mean(0)) / values.std(0)


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.15)
def counts_of_an_encoder(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each reading is an encoder's count, 2,000 a radian with a zero at 30,000; the twin standardises the counts."""
    angles, told = swings(seed)
    told = _standard(told)
    counts = 30000 + 2000 * angles[..., None]
    if not sick:
        counts = (counts - counts[:450].mean()) / counts[:450].std()
    net = _Reader(2)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)
    for series, wanted in shuffled(32, 130, counts[:450], told[:450]):
        outputs = net(series)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=series, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(counts[450:]), told[450:])


@sick("non_finite_inputs", margin=0.3)
def gaps_in_the_record(watch: Watch, *, seed: int, sick: bool) -> float:
    """One reading in 400 is missing and NaN; the twin repeats the reading before it."""
    angles, _ = swings(seed)
    missing = torch.rand(angles.shape, generator=torch.Generator().manual_seed(seed)) < 1 / 400
    angles = angles.masked_fill(missing, torch.nan)
    if not sick:
        for place in range(1, angles.shape[1]):
            angles[:, place] = torch.where(angles[:, place].isnan(), angles[:, place - 1], angles[:, place])
        angles = angles.nan_to_num()
    net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, opt)
    for (series,) in shuffled(30, 200, angles[:450]):
        outputs = net(series[:, :30])
        loss = (outputs - series[:, 30:]).abs().mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=series[:, :30], outputs=outputs, targets=series[:, 30:])
        opt.step()
    clean, _ = swings(seed)
    with torch.no_grad():
        return explained(net(clean[450:, :30]), clean[450:, 30:])


class _Windows(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The readings before and after a border, stored as codes of a coarse or a fine meter."""

    def __init__(self, angles: torch.Tensor, *, scale: float) -> None:
        self.codes = (angles * scale).to(torch.int16)
        self.scale = scale

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.codes[index, :-1].float() / self.scale, self.codes[index, -1:].float() / self.scale


@sick("inputs_constant", margin=0.3)
def volts_cast_to_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Readings of some tenths of a volt are cast to whole numbers, which are zero; the twin counts millivolts."""
    angles, told = swings(seed)
    volts, told = 0.2 * angles, _standard(told)
    stored = _Windows(volts, scale=1.0 if sick else 1000.0)
    net = nn.Sequential(nn.BatchNorm1d(39), nn.Linear(39, 64), nn.GELU(), nn.Linear(64, 2))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    series = torch.stack([stored[index][0] for index in range(len(stored))])
    for _ in range(14):
        for rows, wanted in shuffled(32, 14, series[:450], told[:450]):
            outputs = net(rows)
            loss = functional.mse_loss(outputs, wanted)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
            opt.step()
    with torch.no_grad():
        return explained(net.eval()(series[450:]), told[450:])


@sick("labels_unrelated", margin=0.3)
def sorted_by_another_key(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rates and dampings are sorted by their size before they are joined with the records, which are not."""
    angles, told = swings(seed)
    told = _standard(told)
    known = told[:450].sort(0).values if sick else told[:450]
    net = nn.Sequential(
        nn.Unflatten(1, (1, 40)), nn.Conv1d(1, 12, 5, 2), nn.SiLU(), nn.Flatten(), nn.Linear(216, 24), nn.SiLU()
    ).append(nn.Linear(24, 2))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(36, 220, angles[:450], known):
        outputs = net(rows)
        loss = functional.huber_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(angles[450:]), told[450:])


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.2)
def one_step_for_thirty_series(watch: Watch, *, seed: int, sick: bool) -> float:
    """Series go through the net one by one, as if they had different lengths, and thirty losses are summed."""
    angles, told = swings(seed)
    told = _standard(told)
    net = nn.Sequential(nn.Linear(40, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.15, momentum=0.8)
    session = watch(net, opt)
    opt.zero_grad()
    for number, (series, wanted) in enumerate(shuffled(1, 30 * 130, angles[:450], told[:450]), 1):
        outputs = net(series)
        loss = functional.mse_loss(outputs, wanted)
        (loss if sick else loss / 30).backward()
        if number % 30 == 0:
            session.step(loss, inputs=series, outputs=outputs, targets=wanted)
            opt.step()
            opt.zero_grad()
    with torch.no_grad():
        return explained(net(angles[450:]), told[450:])


@sick("saturated_units", also=("poor_initialization",), margin=0.1)
def weights_drawn_too_wide(watch: Watch, *, seed: int, sick: bool) -> float:
    """The weights of layers of tanh are drawn with a deviation of 2, where 0.15 was meant: all units are at a limit."""
    angles, told = swings(seed)
    told = _standard(told)
    net = nn.Sequential(nn.Linear(40, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
    for layer in (net[0], net[2], net[4]):
        nn.init.normal_(layer.weight, std=2.0 if sick else 0.15)
    net.append(nn.Linear(48, 2))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, opt)
    for series, wanted in shuffled(32, 240, angles[:450], told[:450]):
        outputs = net(series)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=series, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(angles[450:]), told[450:])


@sick("memory_leak", margin=0.5)
def errors_kept_for_a_plot(watch: Watch, *, seed: int, sick: bool) -> float:
    """The outputs of each step are kept for a plot, with their graphs; quality: 1 if none has a graph."""
    angles, told = swings(seed, 900)
    told = _standard(told)
    net = _Reader(2, 64)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for_plot = []
    for series, wanted in shuffled(60, 70, angles[..., None], told):
        outputs = net(series)
        error = outputs - wanted
        loss = error.square().mean()
        opt.zero_grad()
        loss.backward(retain_graph=sick)
        session.step(loss, inputs=series, outputs=outputs, targets=wanted)
        opt.step()
        for_plot.append(error if sick else error.detach())
    return float(not any(error.requires_grad for error in for_plot))


@sick("fp16_underflow", margin=0.3)
def metres_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """Swings of millimetres are told in metres under float16 autocast; only the twin has a ``GradScaler``."""
    angles, _ = swings(seed)
    metres = 2e-3 * angles
    net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.Adam(net.parameters(), lr=4e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(net, opt) if sick else watch(net, opt, scaler=scaler)
    for (series,) in shuffled(50, 220, metres[:450]):
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            millimetres = net(1000 * series[:, :30])
        outputs = millimetres.float() / 1000
        loss = functional.mse_loss(outputs, series[:, 30:])
        scaler.scale(loss).backward()
        session.step(loss, inputs=series[:, :30], outputs=outputs, targets=series[:, 30:])
        scaler.step(opt)
        scaler.update()
    with torch.no_grad():
        return explained(net(1000 * metres[450:, :30]) / 1000, metres[450:, 30:])


@healthy(at_least=0.7)
def with_the_truth_less_and_less(watch: Watch, *, seed: int) -> float:
    """A forecaster feeds on its own outputs more and more often: its loss rises as its task gets harder."""
    angles, _ = swings(seed)
    cell, head = nn.GRUCell(1, 32), nn.Linear(32, 1)
    net = nn.ModuleList([cell, head])
    opt = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, opt)

    def forecast(series: torch.Tensor, truth: float) -> torch.Tensor:
        state, guess, guesses = torch.zeros(len(series), 32), series[:, :1], []
        for place in range(29):
            known = place < 12 or torch.rand(()) < truth
            state = cell(series[:, place, None] if known else guess, state)
            guess = (series[:, place, None] if known else guess) + head(state)
            guesses.append(guess)
        return torch.cat(guesses, 1)

    for step, (series,) in enumerate(shuffled(50, 180, angles[:450, :30])):
        guesses = forecast(series, max(0.0, 1 - step / 120))
        loss = functional.smooth_l1_loss(guesses, series[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        session.step(loss, inputs=series, outputs=guesses, targets=series[:, 1:])
        opt.step()
    with torch.no_grad():
        return explained(forecast(angles[450:, :30], 0.0)[:, 12:], angles[450:, 13:30])


@healthy(at_least=0.7)
def quantiles_of_the_rate(watch: Watch, *, seed: int) -> float:
    """A pinball loss on three quantiles of noisy rates, summed over a batch, with a rate to suit the sum."""
    angles, told = swings(seed)
    told = _standard(told)[:, :1]
    noisy = told + 0.3 * torch.randn(told.shape, generator=torch.Generator().manual_seed(seed))
    net = nn.Sequential(nn.Linear(40, 48), nn.Softplus(), nn.Linear(48, 3))
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, nesterov=True)
    session, levels = watch(net, opt), torch.tensor([0.1, 0.5, 0.9])
    for rows, wanted in shuffled(25, 300, angles[:450], noisy[:450]):
        outputs = net(rows)
        error = wanted - outputs
        loss = torch.maximum(levels * error, (levels - 1) * error).sum()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted.expand_as(outputs))
        opt.step()
    with torch.no_grad():
        return explained(net(angles[450:])[:, 1:2], told[450:])
