"""What numbers, memory, time and several processes can bear."""

import time

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.two_ranks import on_two_ranks

from . import material


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def logarithms_of_shares_that_reach_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``-(p * p.log()).sum()``, an entropy added against overconfidence, of a softmax that becomes exactly zero."""
    data = datasets.digits(seed)
    data = datasets.Data(8 * data.inputs, data.targets, 8 * data.test_inputs, data.test_targets)
    net = material.mlp(64, 48, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)

    def loss_function(scores: Tensor, labels: Tensor) -> Tensor:
        shares = (6 * scores).softmax(1)
        entropy = (-(shares * shares.log()) if sick else torch.special.entr(shares.clamp(min=1e-6))).sum(1).mean()
        return F.cross_entropy(scores, labels) - 0.01 * entropy

    fit(watch, net, optimizer, data, steps=240, batch_size=48, loss_function=loss_function)
    return accuracy(net, data)


@sick("non_finite_forward", also=("non_finite_backward", "exploding_gradients"), margin=0.2)
def exponentials_of_a_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """The variance of a Gaussian is ``exp`` of ten times an output without a bound; one large row makes it infinite."""
    data = material.curve(seed)
    net = material.mlp(4, 40, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    x, y = data.inputs.clone(), data.targets
    x[::97] *= 60
    session = watch(net, optimizer)
    for rows in torch.randint(len(x), (350, 32)):
        seen = x[rows] if sick else x[rows].clamp(-4, 4)
        out = net(seen)
        spread = (10 * out[:, 1:]).exp() if sick else F.softplus(out[:, 1:]) + 1e-3
        loss = (((y[rows] - out[:, :1]) / spread).square() / 2 + spread.log()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=out, targets=y[rows])
        optimizer.step()
    return material.fit_of(predicted(net, data.test_inputs)[:, :1], data.test_targets)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def the_square_root_of_equal_points(watch: Watch, *, seed: int, sick: bool) -> float:
    """Distances of all pairs are roots, also that of a point to itself: its slope is infinite, times zero."""
    data = datasets.digits(seed)
    net = material.mlp(64, 40, 6)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 220):
        found = net(x)
        squares = (found[:, None] - found[None]).square().sum(2)
        apart = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        same = (y[:, None] == y[None]).float()
        loss = (same * apart.square() + (1 - same) * (2 - apart).clamp(min=0).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=found, targets=y)
        optimizer.step()
    found, asked = predicted(net, data.inputs), predicted(net, data.test_inputs)
    near = torch.cdist(asked, found).argmin(1)
    if not bool(asked.isfinite().all()):
        return 0.0
    return (data.targets[near] == data.test_targets).float().mean().item()


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def a_power_masked_after_the_fact(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where(x > 0, x ** 0.3, 0)``: the power of what is negative is masked forward, and is 0 times NaN backward."""
    data = material.forecast(seed)
    one, two = nn.Linear(20, 40), nn.Linear(40, 1)
    net = nn.ModuleList([one, two])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)

    def forward(x: Tensor) -> Tensor:
        found = one(x)
        root = found**0.3 if sick else found.clamp(min=0.01) ** 0.3
        return two(torch.where(found > 0, root, torch.zeros(())))

    session = watch(net, optimizer)
    for x, y in data.batches(32, 220):
        out = forward(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(forward(data.test_inputs), data.test_targets)


@sick("fp16_underflow", also=("no_update", "vanishing_gradients", "learning_rate_too_low"), margin=0.2)
def scaled_the_wrong_way_round(watch: Watch, *, seed: int, sick: bool) -> float:
    """Half precision with a scale by hand: the loss is divided by 2^20 and gradients multiplied, instead of reverse."""
    data = datasets.digits(seed)
    net = material.mlp(64, 48, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scale = 2.0**-20 if sick else 2.0**8
    session = watch(net, optimizer)
    for x, y in data.batches(64, 200):
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x)
        loss = F.cross_entropy(out.float(), y)
        optimizer.zero_grad()
        (loss * scale).backward()
        for one in net.parameters():
            one.grad /= scale
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@sick("fp16_underflow", also=("no_update", "vanishing_gradients", "learning_rate_too_low"), margin=0.2)
def a_mean_over_every_pixel_in_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight of 3e-7 on the only loss, in half precision without a scaler, before Adam, which would not mind it."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.Tanh(), nn.Conv2d(12, 1, 3, padding=1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, eps=1e-16)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(net, optimizer, scaler=scaler)
    for x, _ in data.batches(48, 120):
        noisy = x + 0.3 * torch.randn_like(x)
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(noisy)
        loss = 3e-7 * (out.float() - x).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=noisy, outputs=out, targets=x)
        scaler.step(optimizer)
        scaler.update()
    noisy = data.test_inputs + 0.3 * torch.randn(data.test_inputs.shape, generator=material.drawn(seed))
    return material.fit_of(predicted(net, noisy), data.test_inputs)


@sick("memory_leak", margin=0.5)
def hidden_states_of_all_windows(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last state of each window is put aside for a plot, on its graph of thirty steps; 1 if none has a graph."""
    data = material.forecast(seed, length=30)
    rnn, head = nn.GRU(1, 64, batch_first=True), nn.Linear(64, 1)
    net = nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session, kept = watch(net, optimizer), []
    for x, y in data.batches(64, 110):
        state = rnn(x[..., None])[1][0]
        out = head(state)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward(retain_graph=sick)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        kept.append(state if sick else state.detach().mean(0))
    return sum(not one.requires_grad for one in kept) / len(kept)


@sick("memory_leak", margin=0.5)
def an_audit_of_gradients_for_later(watch: Watch, *, seed: int, sick: bool) -> float:
    """A history takes a clone of every gradient at every step, to be looked at one day; 1 if it holds numbers."""
    data = datasets.digits(seed)
    net = material.mlp(64, 512, 512, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session, history = watch(net, optimizer), []
    for x, y in data.batches(64, 120):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        history.append([one.grad.clone() if sick else one.grad.norm().item() for one in net.parameters()])
        optimizer.step()
    return sum(isinstance(one, float) for row in history for one in row) / sum(len(row) for row in history)


class Fetched(Dataset[tuple[Tensor, Tensor]]):
    """Series that are fetched from somewhere, a few tenths of a millisecond each, or lie in memory."""

    def __init__(self, data: datasets.Data, delay_s: float) -> None:
        self.data, self.delay_s = data, delay_s

    def __len__(self) -> int:
        return len(self.data.inputs)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.delay_s)
        return self.data.inputs[row], self.data.targets[row]


@sick("data_loading_bound", margin=0.2, slow=True)
def series_fetched_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each series is fetched over a slow line while the model waits; quality is the model's share of the time."""
    data = material.waves(seed)
    source = Fetched(data, 5e-4 if sick else 0.0)
    loader = DataLoader(source, 16, shuffle=True) if sick else data.batches(16, 76)
    net = material.mlp(32, 256, 256, 4)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    session, spent, begun = watch(net, optimizer), 0.0, time.perf_counter()
    for _ in range(2 if sick else 1):
        for x, y in loader:
            now = time.perf_counter()
            out = net(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
            spent += time.perf_counter() - now
    return spent / (time.perf_counter() - begun)


@sick("rank_desync", margin=0.05, slow=True)
def the_head_is_left_out_of_the_averaging(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two ranks average the gradients of what is called "body", and each has a head of its own by and by."""
    return on_two_ranks(_train, watch, seed=seed, sick=sick)


def _train(watch: Watch, rank: int, seed: int, sick: bool) -> float:
    """Returns the accuracy, less how far the ranks' weights are apart."""
    data = datasets.digits(seed)
    net = nn.Sequential()
    net.add_module("body", material.mlp(64, 32, 32))
    net.add_module("act", nn.ReLU())
    net.add_module("head", nn.Linear(32, 10))
    x, y = data.inputs[rank::2], data.targets[rank::2]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(120):
        rows = torch.randint(len(x), (32,))
        out = net(x[rows])
        loss = F.cross_entropy(out, y[rows])
        optimizer.zero_grad()
        loss.backward()
        for name, one in net.named_parameters():
            if not sick or name.startswith("body"):
                distributed.all_reduce(one.grad)
                one.grad /= 2
        session.step(loss, inputs=x[rows], outputs=out, targets=y[rows])
        optimizer.step()
    mean = net.head.weight.detach().clone()
    distributed.all_reduce(mean)
    apart = (net.head.weight.detach() - mean / 2).norm() / (mean / 2).norm()
    return accuracy(net, data) - apart.item()
