"""Sound trainings with the practices of the trade: averages, accumulation, freezing, precision, tying, stopping."""

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import AveragedModel

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss, r_squared

from . import material
from .material import descend


@healthy(at_least=0.9)
def averaged_weights_and_a_large_rate(watch: Watch, *, seed: int) -> float:
    """``AveragedModel`` follows a restless net, and is what is kept."""
    data = datasets.digits(seed)
    net = material.mlp(64, 48, 10)
    mean = AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.97))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.8)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 240):
        out = net(x)
        descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
        mean.update_parameters(net)
    return accuracy(mean, data)


@healthy(at_least=0.9)
def five_parts_averaged(watch: Watch, *, seed: int) -> float:
    """Five micro-batches of twelve, each divided by five, a clip, and a step."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.Flatten(), nn.Linear(360, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.08, momentum=0.9)
    session = watch(net, optimizer)
    for number, (x, y) in enumerate(data.batches(12, 700), 1):
        out = net(x)
        loss = F.cross_entropy(out, y) / 5
        loss.backward()
        if number % 5 == 0:
            clip_grad_norm_(net.parameters(), 2.0)
        session.step(loss, inputs=x, outputs=out, targets=y)
        if number % 5 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(net, data)


@healthy(at_least=0.9)
def brain_floats_on_series(watch: Watch, *, seed: int) -> float:
    """Autocast to bfloat16 around an MLP on series, the loss in full precision."""
    data = material.waves(seed, noise=0.2)
    net = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 200):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(x)
        descend(session, optimizer, F.cross_entropy(out.float(), y), inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.8)
def an_encoder_tied_to_its_decoder(watch: Watch, *, seed: int) -> float:
    """The decoder uses the transposed weight of the encoder: one matrix, two uses."""
    data = datasets.digits(seed)
    net = nn.Linear(64, 24)
    back = nn.Parameter(torch.zeros(64))
    net.register_parameter("back", back)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)

    def forward(x: Tensor) -> Tensor:
        return F.linear(net(x).tanh(), net.weight.T, back)

    for x, _ in data.batches(48, 250):
        out = forward(x)
        descend(session, optimizer, F.mse_loss(out, x), inputs=x, outputs=out, targets=x)
    with torch.no_grad():
        return material.fit_of(forward(data.test_inputs), data.test_inputs)


@healthy(at_least=0.75)
def the_best_epoch_is_kept(watch: Watch, *, seed: int) -> float:
    """Early stopping with a patience of six epochs, and the best weights loaded at the end."""
    data = material.curve(seed, count=800, noise=0.2)
    net = material.mlp(4, 32, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    session, best, kept, waited = watch(net, optimizer), float("inf"), copy.deepcopy(net.state_dict()), 0
    for _ in range(30):
        for x, y in data.batches(48, 13):
            out = net(x)
            descend(session, optimizer, F.mse_loss(out, y), inputs=x, outputs=out, targets=y)
        held = held_out_loss(net, data, F.mse_loss)
        session.validation(held)
        waited += 1
        if held < best:
            best, kept, waited = held, copy.deepcopy(net.state_dict()), 0
        if waited == 6:
            break
    net.load_state_dict(kept)
    return r_squared(net, data)


@healthy(at_least=0.85)
def a_head_first_and_the_body_later(watch: Watch, *, seed: int) -> float:
    """A body that has learnt odd from even is frozen for sixty steps, then thawed at a tenth of the head's rate."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU())
    before = nn.Sequential(body, nn.Linear(48, 2))
    first = torch.optim.Adam(before.parameters(), lr=3e-3)
    for x, y in data.batches(48, 60):
        first.zero_grad()
        F.cross_entropy(before(x), y % 2).backward()
        first.step()
    head = nn.Linear(48, 10)
    net = nn.Sequential(body, head)
    optimizer = torch.optim.Adam([{"params": body.parameters(), "lr": 1e-3}, {"params": head.parameters(), "lr": 1e-2}])
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(48, 240)):
        body.requires_grad_(step >= 60)
        out = net(x)
        descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.85)
def low_ranks_beside_a_frozen_net(watch: Watch, *, seed: int) -> float:
    """LoRA: one of two thin matrices starts at zero, so the other has a gradient of exactly zero at first."""
    data = datasets.digits(seed)
    body = material.mlp(64, 64, 10)
    first = torch.optim.Adam(body.parameters(), lr=4e-3)
    for x, y in data.batches(48, 120):
        first.zero_grad()
        F.cross_entropy(body(x.flip(1)), y).backward()
        first.step()
    body.requires_grad_(False)

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = body
            self.down, self.up = nn.Linear(64, 8, bias=False), nn.Linear(8, 64, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, x: Tensor) -> Tensor:
            return self.body[2]((self.body[0](x) + self.up(self.down(x))).relu())

    net = Adapted()
    optimizer = torch.optim.AdamW([net.down.weight, net.up.weight], lr=1e-2)
    fit(watch, net, optimizer, data, steps=240, batch_size=48)
    return accuracy(net, data)


@healthy(at_least=0.85)
def a_straight_gradient_through_a_step(watch: Watch, *, seed: int) -> float:
    """Weights of three values by an autograd function of one's own, whose backward pass is the identity."""

    class Ternary(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, weight: Tensor) -> Tensor:
            size = weight.abs().mean()
            return size * (weight / size).round().clamp(-1, 1)

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
            return gradient

    class Rounded(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, Ternary.apply(self.weight), self.bias)

    data = datasets.digits(seed)
    net = nn.Sequential(Rounded(64, 96), nn.LayerNorm(96), nn.ReLU(), Rounded(96, 10))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=240, batch_size=64)
    return accuracy(net, data)


@healthy(at_least=0.9)
def weights_passed_to_a_function(watch: Watch, *, seed: int) -> float:
    """``functional_call`` with noisy copies of all weights: gradients flow to the weights themselves."""
    data = datasets.wine(seed)
    net = material.mlp(13, 24, 3, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 200):
        weights = {name: one + 0.02 * torch.randn_like(one) for name, one in net.named_parameters()}
        out = functional_call(net, weights, (x,))
        descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.85)
def batches_mixed_by_a_random_share(watch: Watch, *, seed: int) -> float:
    """Mixup: rows are mixed with others on purpose, and so are labels; the loss cannot come near zero."""
    data = datasets.digits(seed)
    net = material.mlp(64, 64, 10)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session, beta = watch(net, optimizer), torch.distributions.Beta(0.4, 0.4)
    for x, y in data.batches(64, 260):
        share, order = beta.sample(), torch.randperm(len(x))
        mixed = share * x + (1 - share) * x[order]
        out = net(mixed)
        loss = share * F.cross_entropy(out, y) + (1 - share) * F.cross_entropy(out, y[order])
        descend(session, optimizer, loss, inputs=mixed, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.85)
def pushed_to_where_it_hurts(watch: Watch, *, seed: int) -> float:
    """Adversarial training by the sign of the input's gradient: the loss is higher than without, by intent."""
    data = datasets.digits(seed)
    net = material.mlp(64, 64, 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 240):
        asked = x.clone().requires_grad_()
        slope = torch.autograd.grad(F.cross_entropy(net(asked), y), asked)[0]
        worse = (x + 0.05 * slope.sign()).clamp(0, 1)
        out = net(worse)
        descend(session, optimizer, F.cross_entropy(out, y), inputs=worse, outputs=out, targets=y)
    return accuracy(net, data)
