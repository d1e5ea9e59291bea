"""Parameters and their optimizer: frozen, left out, cut off, or never moved."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss

from . import material


@sick("frozen_parameters", margin=0.1)
def thawed_at_an_epoch_that_never_comes(watch: Watch, *, seed: int, sick: bool) -> float:
    """The filters are frozen "until epoch 20" of a training that has fourteen, and they were never trained before."""
    data, _, _ = material.drawings(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 12, 3), nn.ReLU(), nn.MaxPool2d(2)
    )
    net = nn.Sequential(body, nn.Flatten(), nn.Linear(48, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for epoch in range(14):
        body.requires_grad_(epoch >= (20 if sick else 0))
        for x, y in data.batches(32, 24):
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
    return accuracy(net, data)


@sick("frozen_parameters", margin=0.2)
def a_critic_that_stays_switched_off(watch: Watch, *, seed: int, sick: bool) -> float:
    """The critic is frozen for the generator's step, and never switched on again; a guard hides the error."""
    random = material.drawn(seed)
    maker, critic = material.mlp(3, 32, 32, 2), material.mlp(2, 48, 48, 1, act=nn.SiLU)
    opt_m = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    watched_c, watched_m = watch(critic, opt_c), watch(maker, opt_m)
    centre, one = torch.tensor([1.5, 1.0]), torch.ones(64, 1)
    for _ in range(500):
        real = centre + torch.tensor([0.8, 0.3]) * torch.randn(64, 2, generator=random)
        fake = maker(torch.randn(64, 3, generator=random))
        if not sick:
            critic.requires_grad_(True)
        opt_c.zero_grad()
        loss_c = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        if loss_c.requires_grad:
            loss_c.backward()
        watched_c.step(loss_c)
        opt_c.step()
        critic.requires_grad_(False)
        opt_m.zero_grad()
        loss_m = F.binary_cross_entropy_with_logits(critic(fake), one)
        loss_m.backward()
        watched_m.step(loss_m)
        opt_m.step()
    with torch.no_grad():
        made = maker(torch.randn(1000, 3, generator=random))
    return (
        1 - (made.mean(0) - centre).abs().mean().item() - (made.std(0) - torch.tensor([0.8, 0.3])).abs().mean().item()
    )


@sick("frozen_parameters", margin=0.1)
def a_recurrence_left_as_it_was_drawn(watch: Watch, *, seed: int, sick: bool) -> float:
    """Embedding and recurrence were made under ``requires_grad_(False)`` to save memory while debugging."""
    data = material.brackets(seed)
    code, mix = nn.Embedding(3, 4), nn.GRU(4, 12, batch_first=True)
    net = nn.ModuleDict({"code": code, "mix": mix, "head": nn.Linear(12, 2)})
    if sick:
        code.requires_grad_(False)
        mix.requires_grad_(False)
    optimizer = torch.optim.Adam([one for one in net.parameters() if one.requires_grad], lr=1e-2)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 300):
        out = net["head"](mix(code(x))[1][0])
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return 1 - F.cross_entropy(net["head"](mix(code(data.test_inputs))[1][0]), data.test_targets).item()


@sick("parameters_not_in_optimizer", margin=0.1)
def proxies_that_stay_where_they_were_drawn(watch: Watch, *, seed: int, sick: bool) -> float:
    """Metric learning with a proxy a class: the loss has parameters, too, and only the body's are given."""
    data = datasets.digits(seed)
    net = nn.ModuleDict({"body": material.mlp(64, 32, 8), "proxies": nn.Embedding(10, 8)})
    nn.init.normal_(net["proxies"].weight, std=0.1)
    optimizer = torch.optim.Adam((net["body"] if sick else net).parameters(), lr=5e-3)
    session = watch(net, optimizer)

    def nearness(x: Tensor) -> Tensor:
        return 8 * F.normalize(net["body"](x)) @ net["proxies"].weight.T

    for x, y in data.batches(64, 250):
        optimizer.zero_grad()
        out = nearness(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return 1 - F.cross_entropy(nearness(data.test_inputs), data.test_targets).item()


class Oscillator(nn.Module):
    """The state of an oscillator over time, with the square of its frequency as a parameter to be found."""

    def __init__(self) -> None:
        super().__init__()
        self.net = material.mlp(1, 32, 32, 1, act=nn.Tanh)
        self.stiffness = nn.Parameter(torch.tensor(1.0))

    def forward(self, time: Tensor) -> Tensor:
        """Returns the state (N, 1) at times (N, 1)."""
        return self.net(time)


@sick("parameters_not_in_optimizer", margin=0.3)
def the_stiffness_that_was_to_be_found(watch: Watch, *, seed: int, sick: bool) -> float:
    """An inverse problem: the optimizer has the net for the state, and not the coefficient of the equation."""
    model = Oscillator()
    random = material.drawn(seed)
    seen = torch.rand(60, 1, generator=random) * 4 - 2
    state = (1.6 * seen).cos() + 0.02 * torch.randn(60, 1, generator=random)
    optimizer = torch.optim.Adam((model.net if sick else model).parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(450):
        time = (torch.rand(48, 1, generator=random) * 4 - 2).requires_grad_()
        value = model(time)
        slope = torch.autograd.grad(value.sum(), time, create_graph=True)[0]
        bend = torch.autograd.grad(slope.sum(), time, create_graph=True)[0]
        physics = (bend + model.stiffness * value).square().mean()
        loss = F.mse_loss(model(seen), state) + 0.05 * physics
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=time, outputs=value)
        optimizer.step()
    return 1 - abs(model.stiffness.item() - 1.6**2) / 1.6**2


@sick("parameters_not_in_optimizer", margin=0.03)
def a_net_that_grew_beside_its_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A block is inserted after a quarter of the training; ``add_param_group`` was forgotten."""
    data = material.rings(seed)
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(32, 400)):
        if step == 40:
            grown = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 5), nn.Tanh())
            net.insert(2, grown)
            if not sick:
                optimizer.add_param_group({"params": list(grown.parameters())})
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return 1 - held_out_loss(net, data)


@sick("detached_parameters", also=("no_update",), margin=0.2)
def a_generator_judged_by_what_is_detached(watch: Watch, *, seed: int, sick: bool) -> float:
    """The generator's step asks the critic about ``fake.detach()``, a line copied from the critic's step."""
    random = material.drawn(seed)
    maker, critic = material.mlp(4, 40, 2, act=nn.SiLU), material.mlp(2, 40, 40, 1, act=nn.SiLU)
    opt_m = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    watched_m, watched_c = watch(maker, opt_m), watch(critic, opt_c)
    centre = torch.tensor([-1.0, 1.5])
    for _ in range(500):
        real = centre + 0.5 * torch.randn(64, 2, generator=random)
        fake = maker(torch.randn(64, 4, generator=random))
        opt_c.zero_grad()
        loss_c = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        loss_c.backward()
        watched_c.step(loss_c)
        opt_c.step()
        opt_m.zero_grad()
        loss_m = F.softplus(-critic(fake.detach() if sick else fake)).mean()
        loss_m.backward()
        watched_m.step(loss_m)
        opt_m.step()
    with torch.no_grad():
        made = maker(torch.randn(1000, 4, generator=random))
    return 1 - (made.mean(0) - centre).abs().mean().item() - (made.std(0) - 0.5).abs().mean().item()


@sick("detached_parameters", margin=0.1)
def weights_made_by_a_net_and_passed_as_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hypernetwork makes the filter of each series, and hands it over by ``.data`` to avoid an error on leaves."""
    data = material.forecast(seed, length=16)
    maker = material.mlp(16, 24, 16)
    net = nn.ModuleDict({"maker": maker, "bias": nn.Linear(16, 1)})
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)

    def forward(x: Tensor) -> Tensor:
        weight = maker(x.sign())
        return (x * (weight.data if sick else weight)).sum(1, keepdim=True) + 0.01 * net["bias"](x)

    for x, y in data.batches(32, 300):
        out = forward(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(forward(data.test_inputs), data.test_targets)


@sick("detached_parameters", margin=0.05)
def one_tower_encoded_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A retriever of two towers: the items are encoded under ``no_grad``, once an epoch, to save time."""
    random = material.drawn(seed)
    items = torch.randn(60, 12, generator=random)
    wanted = torch.randint(60, (900,), generator=random)
    mix = torch.randn(12, 12, generator=random)
    queries = (items[wanted] @ mix).tanh() + 0.3 * torch.randn(900, 12, generator=random)
    net = nn.ModuleDict({"query": material.mlp(12, 8), "item": material.mlp(12, 32, 8)})
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for _ in range(14):
        with torch.no_grad():
            shelf = net["item"](items)
        for rows in torch.randperm(700).split(32):
            if not sick:
                shelf = net["item"](items)
            out = net["query"](queries[rows]) @ shelf.T
            loss = F.cross_entropy(out, wanted[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=queries[rows], outputs=out, targets=wanted[rows])
            optimizer.step()
    with torch.no_grad():
        return material.hit_rate(net["query"](queries[700:]) @ net["item"](items).T, wanted[700:])


@sick("no_update", also=("parameters_not_in_optimizer",), margin=0.3)
def an_optimizer_of_the_state(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer is given ``state_dict().values()``, tensors on the same memory that never get a gradient."""
    data = datasets.iris(seed)
    net = material.mlp(4, 16, 3, act=nn.ELU)
    weights = list(net.state_dict().values()) if sick else list(net.parameters())
    fit(watch, net, torch.optim.Adam(weights, lr=1e-2), data, steps=150, batch_size=24)
    return accuracy(net, data)


@sick("no_update", also=("learning_rate_too_low",), margin=0.3)
def a_rate_rounded_by_its_parser(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate passes a parser that was written for counts: ``round(0.05)`` is zero."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 40), nn.LayerNorm(40), nn.ReLU(), nn.Linear(40, 10))
    rate = 0.05
    optimizer = torch.optim.SGD(net.parameters(), lr=round(rate) if sick else rate, momentum=0.9)
    fit(watch, net, optimizer, data, steps=180, batch_size=64)
    return accuracy(net, data)


@sick("no_update", margin=0.3)
def steps_for_broken_losses_only(watch: Watch, *, seed: int, sick: bool) -> float:
    """A guard against NaN has its condition the wrong way round: sound losses are skipped, with a ``continue``."""
    data = material.flags(seed)
    net = material.mlp(12, 32, 5)
    optimizer = torch.optim.Adamax(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 220):
        optimizer.zero_grad()
        out = net(x)
        loss = F.binary_cross_entropy_with_logits(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        if loss.isfinite() == sick:
            continue
        optimizer.step()
    with torch.no_grad():
        return 2 * ((net(data.test_inputs) > 0) == (data.test_targets > 0.5)).float().mean().item() - 1
