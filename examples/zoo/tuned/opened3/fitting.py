"""Too much learnt, too little allowed, the wrong mode, or an end too soon."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared

from . import material


@sick("overfitting", margin=0.2)
def thirty_drawings_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns thirty noisy drawings by heart, while validation gets worse; the twin has all of them."""
    data, _, _ = material.drawings(seed, noise=0.5)
    if sick:
        data = Data(data.inputs[:30], data.targets[:30], data.test_inputs, data.test_targets)
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 3))  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    fit(watch, net, optimizer, data, steps=240, batch_size=30, validate_every=20)
    return 1 - held_out_loss(net, data)


@sick("overfitting", margin=0.05)
def a_polynomial_of_noise(watch: Watch, *, seed: int, sick: bool) -> float:
    """Forty rows with half as much noise as signal, a net of 256 units; the twin is small and has all rows."""
    data = material.curve(seed, noise=0.5)
    rows = 40 if sick else len(data.inputs)
    data = Data(data.inputs[:rows], data.targets[:rows], data.test_inputs, data.test_targets)
    net = material.mlp(4, 256, 256, 1) if sick else material.mlp(4, 24, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-3 if sick else 3e-2)
    fit(watch, net, optimizer, data, steps=400, batch_size=40, loss_function=F.mse_loss, validate_every=20)
    return r_squared(net, data)


@sick("overfitting", margin=0.1)
def forty_series_for_two_hundred_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """Forty noisy series of four kinds come again for 240 epochs; the twin has fifteen times as many."""
    data = material.waves(seed, noise=0.6)
    rows = 40 if sick else len(data.inputs)
    data = Data(data.inputs[:rows], data.targets[:rows], data.test_inputs, data.test_targets)
    net = nn.Sequential(nn.Unflatten(1, (1, 32)), nn.Conv1d(1, 24, 7), nn.ReLU(), nn.Conv1d(24, 24, 7), nn.ReLU(),
                        nn.AdaptiveMaxPool1d(2), nn.Flatten(), nn.Linear(48, 4))  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    fit(watch, net, optimizer, data, steps=240, batch_size=40, validate_every=20)
    return 1 - held_out_loss(net, data)


@sick("over_regularized", margin=0.2)
def decay_that_was_a_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """``weight_decay=0.3`` in SGD, as rate and decay changed places on the command line."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.Flatten(), nn.Linear(360, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.3 if sick else 1e-4)
    fit(watch, net, optimizer, data, steps=220, batch_size=48)
    return accuracy(net, data)


@sick("over_regularized", margin=0.2)
def absolute_weights_cost_too_much(watch: Watch, *, seed: int, sick: bool) -> float:
    """A lasso of 0.5 on all weights of a forecaster, to select its lags: it selects none."""
    data = material.forecast(seed)
    net = material.mlp(20, 24, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    weight = 0.5 if sick else 1e-4
    session = watch(net, optimizer)
    for x, y in data.batches(32, 320):
        out = net(x)
        loss = F.mse_loss(out, y) + weight * sum(one.abs().sum() for one in net.parameters())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return r_squared(net, data)


@sick("over_regularized", margin=0.1)
def nearly_all_of_a_code_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's code of twelve numbers goes through ``Dropout(0.9)``: often nothing of it is left."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12), nn.Dropout(0.9 if sick else 0.02),
                        nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 64))  # fmt: skip
    optimizer = torch.optim.NAdam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(48, 320):
        out = net(x)
        loss = F.mse_loss(out, x)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=x)
        optimizer.step()
    return material.fit_of(predicted(net, data.test_inputs), data.test_inputs)


@sick("wrong_mode", margin=0.05)
def a_copy_is_put_to_eval(watch: Watch, *, seed: int, sick: bool) -> float:
    """``copy.deepcopy(net).eval()`` returns a net in eval mode, which is thrown away; the dropping one is validated."""
    data = material.flags(seed)
    net = nn.Sequential(nn.Linear(12, 96), nn.SiLU(), nn.Dropout(0.5), nn.Linear(96, 48), nn.SiLU(), nn.Dropout(0.5),
                        nn.Linear(48, 5))  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for _ in range(10):
        net.train()
        for x, y in data.batches(32, 22):
            out = net(x)
            loss = F.binary_cross_entropy_with_logits(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        copy.deepcopy(net).eval() if sick else net.eval()
        with torch.no_grad(), session.validating():
            loss = F.binary_cross_entropy_with_logits(net(data.test_inputs), data.test_targets)
        session.validation(loss.item())
    return 1 - loss.item()


@sick("wrong_mode", margin=0.02)
def the_encoder_is_judged_while_it_drops(watch: Watch, *, seed: int, sick: bool) -> float:
    """A class sets ``self.head.eval()`` before it validates, and its encoder goes on dropping units."""
    data = material.brackets(seed)
    encoder = nn.Sequential(nn.Embedding(3, 16), nn.Flatten(), nn.Linear(192, 96), nn.ReLU(), nn.Dropout(0.7))
    net = nn.Sequential(encoder, nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 2)))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for _ in range(8):
        net.train()
        for x, y in data.batches(32, 21):
            out = net(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        (net[1] if sick else net).eval()
        with torch.no_grad(), session.validating():
            loss = F.cross_entropy(net(data.test_inputs), data.test_targets)
        session.validation(loss.item())
    return 1 - loss.item()


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.1)
def three_epochs_by_default(watch: Watch, *, seed: int, sick: bool) -> float:
    """The command line's default of three epochs, enough for a fine-tuning, trains a net from scratch."""
    data = datasets.digits(seed)
    net = material.mlp(64, 40, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    session = watch(net, optimizer)
    for _ in range(3 if sick else 24):
        for x, y in data.batches(64, 22):
            out = net(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        session.validation(held_out_loss(net, data))
    return 1 - held_out_loss(net, data)


@sick("stopped_too_early", margin=0.02)
def patience_that_waits_for_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """An improvement counts only if it is above 0.3, and each epoch brings a little less: stopped after four."""
    data = material.forecast(seed, length=24)
    rnn, head = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)
    net = nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=1.5e-3)
    session, best, waited = watch(net, optimizer), float("inf"), 0

    def forward(x: Tensor) -> Tensor:
        return head(rnn(x[..., None])[1][0])

    for _ in range(24):
        for x, y in data.batches(48, 13):
            out = forward(x)
            loss = F.mse_loss(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        with torch.no_grad():
            held = F.mse_loss(forward(data.test_inputs), data.test_targets).item()
        session.validation(held)
        if held < best - (0.3 if sick else 1e-5):
            best, waited = held, 0
        else:
            waited += 1
        if waited == 3:
            break
    return 1 - held
