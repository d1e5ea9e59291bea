"""Where weights start, and what that does to gradients and units."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared

from . import material


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.2)
def a_dozen_convolutions_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten convolutions with sigmoids between them, on series; the twin has ReLUs and a norm after each."""
    data = material.waves(seed, noise=0.2)
    layers: list[nn.Module] = [nn.Unflatten(1, (1, 32)), nn.Conv1d(1, 12, 3, padding=1)]
    for _ in range(9):
        layers += [nn.Sigmoid()] if sick else [nn.BatchNorm1d(12), nn.ReLU()]
        layers += [nn.Conv1d(12, 12, 3, padding=1)]
    net = nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(48, 4))
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), data, steps=200, batch_size=32)
    return accuracy(net, data)


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.2)
def an_echo_from_forty_steps_ago(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tanh recurrence with PyTorch's weights must recall the first of forty numbers; the twin's start orthogonal."""
    random = material.drawn(seed)
    series = torch.cat([torch.randn(900, 1, generator=random), 0.1 * torch.randn(900, 39, generator=random)], 1)
    data = material.parted(series, series[:, :1].clone())
    rnn, head = nn.RNN(1, 24, batch_first=True), nn.Linear(24, 1)
    if not sick:
        nn.init.orthogonal_(rnn.weight_hh_l0)
        nn.init.zeros_(rnn.bias_hh_l0)
    net = nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 320):
        out = head(rnn(x[..., None])[1][0])
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(head(rnn(data.test_inputs[..., None])[1][0]), data.test_targets)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.2)
def a_deep_net_drawn_without_the_root(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten layers drawn with a deviation of 0.5 where the root of 2/48, 0.2, would keep the size."""
    data = material.curve(seed)
    net = material.mlp(4, *[48] * 10, 1)
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.5 if sick else math.sqrt(2 / layer.in_features))
            nn.init.zeros_(layer.bias)
    nn.init.normal_(net[-1].weight, std=0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=2e-3, momentum=0.9)
    fit(watch, net, optimizer, data, steps=320, batch_size=32, loss_function=F.smooth_l1_loss)
    return r_squared(net, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.2)
def messages_that_are_summed_and_not_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight rounds on a graph add up all neighbours, so that values grow twentyfold each time; the twin takes means."""
    features, adjacency, kinds, known = material.community(seed)
    rule = adjacency if sick else adjacency / adjacency.sum(1, keepdim=True)
    layers = nn.ModuleList([nn.Linear(8, 24), *(nn.Linear(24, 24) for _ in range(3)), nn.Linear(24, 3)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05, momentum=0.9)
    session = watch(layers, optimizer)

    def forward() -> Tensor:
        values = features
        for layer in layers[:-1]:
            values = layer(rule @ values).relu()
        return layers[-1](values)

    for _ in range(250):
        out = forward()
        loss = F.cross_entropy(out[known], kinds[known])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features, outputs=out[known], targets=kinds[known])
        optimizer.step()
    with torch.no_grad():
        return material.hit_rate(forward()[~known], kinds[~known])


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def a_threshold_that_was_to_make_codes_sparse(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse autoencoder's biases start at -4, and its units never answer: it learns the mean."""
    data = datasets.digits(seed)
    net = material.mlp(64, 40, 64)
    nn.init.constant_(net[0].bias, -4.0 if sick else 0.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(48, 260):
        out = net(x)
        loss = F.mse_loss(out, x)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=x)
        optimizer.step()
    return material.fit_of(predicted(net, data.test_inputs), data.test_inputs)


@sick("dead_units", also=("learning_rate_too_high",), margin=0.1)
def convolutions_killed_by_a_first_large_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rate of 8, left from a search for rates, drives the first two steps: filters never answer again."""
    data, _, _ = material.drawings(seed)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3))  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.04, momentum=0.9)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(32, 240)):
        optimizer.param_groups[0]["lr"] = 8.0 if sick and step < 2 else 0.04
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.1)
def cells_whose_weights_were_drawn_for_embeddings(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_(std=3)`` over all weights of an LSTM: gates are open or shut and stay so."""
    data = material.brackets(seed)
    code, rnn, head = nn.Embedding(3, 12), nn.LSTM(12, 24, batch_first=True), nn.Linear(24, 2)
    if sick:
        for one in rnn.parameters():
            nn.init.normal_(one, std=3)
    net = nn.ModuleDict({"code": code, "rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 260):
        out = head(rnn(code(x))[1][0][0])
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return 1 - F.cross_entropy(head(rnn(code(data.test_inputs))[1][0][0]), data.test_targets).item()


@sick("saturated_units", also=("poor_initialization",), margin=0.1)
def tanh_behind_a_matrix_of_ones_and_more(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of tanh for a curve start with weights from -6 to 6: nearly all units say -1 or 1."""
    data = material.curve(seed)
    net = material.mlp(4, 40, 40, 1, act=nn.Tanh)
    if sick:
        for layer in (net[0], net[2]):
            nn.init.uniform_(layer.weight, -6, 6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    fit(watch, net, optimizer, data, steps=500, batch_size=32, loss_function=F.mse_loss)
    return r_squared(net, data)


@sick("poor_initialization", also=("learning_rate_too_high", "exploding_gradients", "dead_units"), margin=0.1)
def a_head_that_begins_by_shouting(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last layer is drawn with a deviation of 8 and everything else as usual: the first steps are too large."""
    data = datasets.digits(seed)
    net = material.mlp(64, 48, 48, 10)
    if sick:
        nn.init.normal_(net[-1].weight, std=8)
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), data, steps=160, batch_size=48)
    return accuracy(net, data)


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.1)
def a_deep_net_of_tiny_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_(std=0.01)`` for six layers, as the first convolutional nets had it, without any norm."""
    data = datasets.wine(seed)
    net = material.mlp(13, 32, 32, 32, 32, 3)
    if sick:
        for layer in net:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    fit(watch, net, optimizer, data, steps=200, batch_size=32)
    return accuracy(net, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def experts_that_are_copies(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden units of a net for three rings all start at one half, so that all are one unit."""
    data = material.rings(seed)
    net = material.mlp(2, 40, 3, act=nn.Softplus)
    if sick:
        nn.init.constant_(net[0].weight, 0.5)
        nn.init.zeros_(net[0].bias)
        nn.init.constant_(net[2].weight, 0.5)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-2), data, steps=350, batch_size=48)
    return accuracy(net, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def channels_expanded_from_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """One drawn filter is expanded to all channels, and the head is zero: the channels stay what they were, equal."""
    data = material.waves(seed, noise=0.2)
    conv, head = nn.Conv1d(1, 16, 7), nn.Linear(16, 4)
    if sick:
        with torch.no_grad():
            conv.weight.copy_(conv.weight[:1].expand_as(conv.weight).clone())
            conv.bias.zero_()
            head.weight.zero_()
    net = nn.Sequential(nn.Unflatten(1, (1, 32)), conv, nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), head)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=1e-2), data, steps=260, batch_size=32)
    return accuracy(net, data)
