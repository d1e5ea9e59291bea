"""Sound trainings on series and sequences: recurrences, attention, convolutions over time."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import clip_grad_norm_
from torch.optim import lr_scheduler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared

from . import material
from .material import descend
from .speeds import Listener, Reader


@healthy(at_least=0.9)
def a_forecast_under_a_cosine(watch: Watch, *, seed: int) -> float:
    """One step ahead by a GRU with a clipped norm and a cosine: near the noise's floor after a third of the time."""
    data = material.forecast(seed)
    net = Listener(20, 1)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=5e-3)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, 220, 2e-4)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 220):
        out = net(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(net.parameters(), 1.0)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return r_squared(net, data)


@healthy(at_least=0.75)
def four_steps_fed_back(watch: Watch, *, seed: int) -> float:
    """A cell forecasts four values, each from its own last one; truth is fed in half of the time, as is usual."""
    data = material.forecast(seed, length=16, ahead=4)
    cell, head = nn.GRUCell(1, 24), nn.Linear(24, 1)
    net = nn.ModuleDict({"cell": cell, "head": head})

    def forward(x: Tensor, truth: Tensor | None) -> Tensor:
        state = torch.zeros(len(x), 24)
        for value in x.split(1, 1):
            state = cell(value, state)
        said = [head(state)]
        for place in range(3):
            forced = truth is not None and bool(torch.rand(()) < 0.5)
            state = cell(truth[:, place : place + 1] if forced and truth is not None else said[-1], state)
            said.append(head(state))
        return torch.cat(said, 1)

    optimizer = torch.optim.Adam(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 220):
        out = forward(x, y)
        descend(session, optimizer, F.mse_loss(out, y), inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        return material.fit_of(forward(data.test_inputs, None), data.test_targets)


@healthy(at_least=0.95)
def brackets_by_orthogonal_weights(watch: Watch, *, seed: int) -> float:
    """Balance of brackets by a tanh recurrence with orthogonal weights: a plateau at log 2, and then all at once."""
    data = material.brackets(seed)
    code, rnn, head = nn.Embedding(3, 8), nn.RNN(8, 32, batch_first=True), nn.Linear(32, 2)
    nn.init.orthogonal_(rnn.weight_hh_l0)
    net = nn.ModuleDict({"code": code, "rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 320):
        out = head(rnn(code(x))[1][0])
        descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        return material.hit_rate(head(rnn(code(data.test_inputs))[1][0]), data.test_targets)


@healthy(at_least=0.95)
def a_transformer_says_it_backwards(watch: Watch, *, seed: int) -> float:
    """Two blocks with norms in front and places learn to reverse codes: slow for sixty steps, then quick."""
    data = material.reversed_codes(seed)
    net = nn.ModuleDict({"code": nn.Embedding(10, 32), "place": nn.Embedding(6, 32), "head": nn.Linear(32, 10)})
    block = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
    net["blocks"] = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)

    def forward(x: Tensor) -> Tensor:
        return net["head"](net["blocks"](net["code"](x) + net["place"].weight))

    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 220):
        out = forward(x)
        descend(session, optimizer, material.by_token(out, y), inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        return material.hit_rate(forward(data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def running_sums_with_a_ramp(watch: Watch, *, seed: int) -> float:
    """Sums modulo five by causal attention: an early plateau, a ramp of fifty steps, a linear decay."""
    data = material.sums(seed, length=4)
    net = Reader(5, 5, 32, 2)
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3)
    schedule = lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 50, (340 - step) / 290))
    fit(watch, net, optimizer, data, steps=330, batch_size=48, loss_function=material.by_token, scheduler=schedule)
    return material.hit_rate(predicted(net, data.test_inputs), data.test_targets)


@healthy(at_least=0.92)
def waves_told_apart_by_dilated_convolutions(watch: Watch, *, seed: int) -> float:
    """Residual convolutions with growing dilation and weight norm, as for sound."""
    data = material.waves(seed, noise=0.3)

    class Dilated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Conv1d(1, 16, 1)
            self.steps = nn.ModuleList(
                nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 16, 3, padding=2**one, dilation=2**one))
                for one in range(4)
            )
            self.head = nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            values = self.lift(x[:, None])
            for step in self.steps:
                values = values + step(values).relu()
            return self.head(values.mean(2))

    net = Dilated()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=4e-3), data, steps=220, batch_size=32)
    return accuracy(net, data)


@healthy(at_least=0.9)
def a_window_cut_where_the_state_goes_on(watch: Watch, *, seed: int) -> float:
    """Truncated backpropagation: the state is carried on, detached, from chunk to chunk of a series, in order."""
    random = material.drawn(seed)
    time = torch.arange(3300).float()
    series = (0.31 * time).sin() * (0.02 * time).cos() + 0.05 * torch.randn(3300, generator=random)
    rows = series[:3200].view(8, 400)
    rnn, head = nn.GRU(1, 20, batch_first=True), nn.Linear(20, 1)
    net = nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, optimizer)
    for _ in range(10):
        state = torch.zeros(1, 8, 20)
        for start in range(0, 375, 25):
            x, y = rows[:, start : start + 24, None], rows[:, start + 1 : start + 25, None]
            found, state = rnn(x, state.detach())
            out = head(found)
            descend(session, optimizer, F.mse_loss(out, y), inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        out = head(rnn(rows[:, 300:399, None])[0])
    return material.fit_of(out[:, 20:], rows[:, 321:400, None])


@healthy(at_least=0.3)
def letters_by_a_small_gru(watch: Watch, *, seed: int) -> float:
    """The next character of Python's sources: the loss falls quickly, then slowly, and is far from zero for good."""
    data = datasets.text(seed, length=20)
    code, rnn, head = nn.Embedding(datasets.CHARACTERS, 24), nn.GRU(24, 64, batch_first=True), nn.Linear(64, 98)
    net = nn.ModuleDict({"code": code, "rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    schedule = lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=200)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 200):
        out = head(rnn(code(x))[0])
        descend(session, optimizer, material.by_token(out, y), inputs=x, outputs=out, targets=y)
        schedule.step()
    with torch.no_grad():
        return material.hit_rate(head(rnn(code(data.test_inputs))[0]), data.test_targets)


@healthy(at_least=0.55)
def files_told_by_their_letters(watch: Watch, *, seed: int) -> float:
    """Counts of characters as logarithms, a wide dropout, six files: a noisy loss and a fair accuracy."""
    train, test = samples.lines(seed)
    x, y = train.tensors[0].log1p(), train.tensors[1]
    net = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(net, optimizer)
    for rows in torch.randint(len(x), (300, 48)):
        out = net(x[rows])
        descend(session, optimizer, F.cross_entropy(out, y[rows]), inputs=x[rows], outputs=out, targets=y[rows])
    return material.hit_rate(predicted(net, test.tensors[0].log1p()), test.tensors[1])


@healthy(at_least=0.85)
def lengths_that_differ_and_are_packed(watch: Watch, *, seed: int) -> float:
    """Sums of codes modulo three over sequences of two to six, packed: padding never enters the recurrence."""
    random = material.drawn(seed)
    codes = torch.randint(1, 4, (1000, 6), generator=random)
    lengths = torch.randint(2, 7, (1000,), generator=random)
    codes = codes * (torch.arange(6) < lengths[:, None])
    kinds = codes.sum(1) % 3
    code, rnn, head = nn.Embedding(4, 12, padding_idx=0), nn.GRU(12, 32, batch_first=True), nn.Linear(32, 3)
    net = nn.ModuleDict({"code": code, "rnn": rnn, "head": head})

    def forward(rows: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(code(codes[rows]), lengths[rows], True, enforce_sorted=False)
        return head(rnn(packed)[1][0])

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for rows in torch.randint(750, (320, 48)):
        out = forward(rows)
        descend(
            session, optimizer, F.cross_entropy(out, kinds[rows]), inputs=codes[rows], outputs=out, targets=kinds[rows]
        )
    with torch.no_grad():
        return material.hit_rate(forward(torch.arange(750, 1000)), kinds[750:])
