"""Rates and schedules: too fast, too slow, gone too soon, or without a start."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared

from . import material


class Listener(nn.Module):
    """A GRU over a series of numbers, and a head at its last state."""

    def __init__(self, width: int, kinds: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, kinds)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        """Returns scores (N, K) of series (N, T)."""
        return self.head(self.rnn(series[..., None])[1][0])


@sick("learning_rate_too_high", margin=0.1)
def a_rate_in_percent(watch: Watch, *, seed: int, sick: bool) -> float:
    """0.5 stands in the configuration, meant as half a percent; Adam drives a GRU with it."""
    data = material.waves(seed, length=16, noise=0.2)
    net = Listener(24, 4)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=0.5 if sick else 0.005), data, steps=260, batch_size=32)
    return accuracy(net, data)


@sick("learning_rate_too_high", also=("exploding_gradients", "non_finite_forward"), margin=0.2)
def beyond_two_over_the_curvature(watch: Watch, *, seed: int, sick: bool) -> float:
    """Whole-batch descent of a linear model at a rate above 2 over the largest eigenvalue: it must diverge."""
    data = datasets.diabetes(seed)
    net = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.4 if sick else 0.08)
    session = watch(net, optimizer)
    for _ in range(120):
        out = net(data.inputs)
        loss = F.mse_loss(out, data.targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=data.inputs, outputs=out, targets=data.targets)
        optimizer.step()
    return r_squared(net, data)


@sick("learning_rate_too_high", also=("dead_units",), margin=0.1)
def a_nesterov_of_a_paper_with_norms(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nesterov at 0.8, from a recipe for networks with batch norm, drives convolutions that have none."""
    data, _, _ = material.drawings(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(216, 3),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.8 if sick else 0.03, momentum=0.9, nesterov=True)
    fit(watch, net, optimizer, data, steps=240, batch_size=32)
    return accuracy(net, data)


@sick("learning_rate_too_high", margin=0.1)
def nadam_at_a_tenth_under_attention(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small encoder that adds digits modulo five gets thirty times the rate that is good for it."""
    data = material.sums(seed, length=4)
    net = Reader(5, 5, 24, 2)
    optimizer = torch.optim.NAdam(net.parameters(), lr=0.15 if sick else 0.005)
    fit(watch, net, optimizer, data, steps=360, batch_size=64, loss_function=material.by_token)
    return material.hit_rate(predicted(net, data.test_inputs), data.test_targets)


class Reader(nn.Module):
    """Embedded codes with places, blocks that look back only, and a score for each code at each place."""

    def __init__(self, codes: int, kinds: int, width: int, blocks: int, *, norm_first: bool = True) -> None:
        super().__init__()
        self.code, self.place = nn.Embedding(codes, width), nn.Embedding(32, width)
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=norm_first)
        self.blocks = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
        self.head = nn.Linear(width, kinds)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns scores (N, T, K) of codes (N, T)."""
        length = codes.shape[1]
        values = self.code(codes) + self.place(torch.arange(length))
        hidden = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.blocks(values, mask=hidden, is_causal=True))


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.2)
def adadelta_at_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Adadelta(lr=1e-3)``: its rate is a factor that is 1 by its inventor, and its own steps start small."""
    data = datasets.digits(seed)
    net = material.mlp(64, 48, 10)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=0.001 if sick else 1.0)
    fit(watch, net, optimizer, data, steps=250, batch_size=48)
    return accuracy(net, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.2)
def the_rate_of_adam_in_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """3e-4 is good for Adam; plain SGD was put in its place for its better generalisation, and nothing else changed."""
    data = datasets.wine(seed)
    net = material.mlp(13, 24, 3, act=nn.SiLU)
    optimizer = torch.optim.SGD(net.parameters(), lr=3e-4 if sick else 0.15)
    fit(watch, net, optimizer, data, steps=200, batch_size=32, validate_every=20)
    return 1 - held_out_loss(net, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.3)
def radam_at_a_millionth_on_sets(watch: Watch, *, seed: int, sick: bool) -> float:
    """The area of a cloud's box, by a net on sets, with 1e-6 for 1e-2 after a search over powers of ten."""
    data = material.clouds(seed)
    each, whole = material.mlp(2, 32, 32), material.mlp(32, 32, 1)
    net = nn.ModuleDict({"each": each, "whole": whole})
    optimizer = torch.optim.RAdam(net.parameters(), lr=1e-6 if sick else 1e-2)
    session = watch(net, optimizer)
    for clouds, areas in data.batches(32, 300):
        guess = whole(each(clouds).amax(1))
        loss = F.smooth_l1_loss(guess, areas)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=clouds, outputs=guess, targets=areas)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(whole(each(data.test_inputs).amax(1)), data.test_targets)


@sick("schedule_collapsed", also=("learning_rate_too_low", "no_update"), margin=0.1)
def a_linear_decay_that_ends_with_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``LinearLR`` down to zero over twelve steps, which are epochs in the paper and batches in the loop."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.Tanh(), nn.Flatten(), nn.Linear(360, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    schedule = lr_scheduler.LinearLR(optimizer, 1.0, 0.0 if sick else 0.05, total_iters=12 if sick else 252)
    fit(watch, net, optimizer, data, steps=252, batch_size=64, scheduler=schedule)
    return accuracy(net, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def a_factor_that_is_itself_a_power(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiplicativeLR`` multiplies already; its lambda gives 0.9 to the power of the epoch, as for ``LambdaLR``."""
    data = material.rings(seed)
    net = material.mlp(2, 32, 32, 3, act=nn.GELU)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    schedule = lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.9**epoch if sick else 0.9)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), 40, shuffle=True)
    session = watch(net, optimizer)
    for _ in range(24):
        for points, kinds in loader:
            optimizer.zero_grad()
            scores = net(points)
            loss = F.cross_entropy(scores, kinds)
            loss.backward()
            session.step(loss, inputs=points, outputs=scores, targets=kinds)
            optimizer.step()
        schedule.step()
    return 1 - held_out_loss(net, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def plateaus_seen_in_single_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` with a patience of two is told the loss of each batch: noise looks like a plateau."""
    data = material.brackets(seed)
    net = nn.Sequential(nn.Embedding(3, 12), nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    session = watch(net, optimizer)
    for _ in range(20):
        for codes, labels in data.batches(32, 21):
            out = net(codes)
            loss = F.cross_entropy(out, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=out, targets=labels)
            optimizer.step()
            if sick:
                schedule.step(loss.item())
        held = held_out_loss(net, data)
        session.validation(held)
        if not sick:
            schedule.step(held)
    return 1 - held_out_loss(net, data)
