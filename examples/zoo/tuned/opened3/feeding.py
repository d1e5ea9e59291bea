"""What enters the model and what is asked of it: scales, constants, missing values, labels of something else."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared

from . import material
from .speeds import Listener


def _changed(data: Data, change: object) -> Data:
    return Data(change(data.inputs), data.targets, change(data.test_inputs), data.test_targets)  # type: ignore[operator]


@sick("inputs_not_normalized", also=("saturated_units", "learning_rate_too_high"), margin=0.1)
def millivolts_into_a_recurrence(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recorder gives millivolts around 3300, a GRU is fed with them; the twin takes off the mean and divides."""
    data = material.waves(seed, length=16, noise=0.2)
    raw = _changed(data, lambda series: 3300 + 400 * series)
    mean, std = raw.inputs.mean(), raw.inputs.std()
    data = raw if sick else _changed(raw, lambda series: (series - mean) / std)
    net = Listener(24, 4)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=8e-3), data, steps=260, batch_size=32)
    return accuracy(net, data)


@sick("inputs_not_normalized", also=("exploding_gradients", "learning_rate_too_high", "dead_units"), margin=0.1)
def a_photograph_in_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A patch's middle from its rim, in bytes up to 255, by SGD; the twin divides and centres."""
    patches = datasets.patches(seed, size=6, count=900)
    middle = torch.zeros(6, 6, dtype=torch.bool)
    middle[2:4, 2:4] = True
    rim, asked = patches[:, ~middle.flatten()], patches[:, middle.flatten()].mean(1, keepdim=True) / 127.5 - 1
    data = material.parted(rim if sick else rim / 127.5 - 1, asked)
    net = material.mlp(32, 32, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    fit(watch, net, optimizer, data, steps=220, batch_size=32, loss_function=F.mse_loss)
    return r_squared(net, data)


@sick("inputs_not_normalized", also=("saturated_units", "poor_initialization"), margin=0.1)
def nodes_summed_over_hundreds_of_others(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two features of the nodes are incomes in currency, about ten thousand; the twin standardises them."""
    features, adjacency, kinds, known = material.community(seed)
    income = torch.exp(9 + 0.5 * torch.randn(len(features), 2, generator=material.drawn(seed + 3)))
    features = torch.cat([features, income if sick else (income - income.mean(0)) / income.std(0)], 1)
    mean = adjacency / adjacency.sum(1, keepdim=True)
    one, two = nn.Linear(10, 24), nn.Linear(24, 3)
    net = nn.ModuleList([one, two])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-3)
    session = watch(net, optimizer)
    for _ in range(120):
        out = two(mean @ one(mean @ features).tanh())
        loss = F.cross_entropy(out[known], kinds[known])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features, outputs=out[known], targets=kinds[known])
        optimizer.step()
    with torch.no_grad():
        return material.hit_rate(two(mean @ one(mean @ features).tanh())[~known], kinds[~known])


@sick("inputs_constant", margin=0.2)
def every_code_is_cut_off(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes are truncated to a length of eight from the right end, where padding stands: only padding is left."""
    data = material.brackets(seed, length=8)
    padded = _changed(data, lambda codes: F.pad(codes, (0, 8)))
    data = _changed(padded, lambda codes: codes[:, -8:] if sick else codes[:, :8])
    net = nn.Sequential(nn.Embedding(3, 16), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))
    fit(watch, net, torch.optim.AdamW(net.parameters(), lr=3e-3), data, steps=220, batch_size=32)
    return accuracy(net, data)


@sick("inputs_constant", margin=0.2)
def a_gain_that_leaves_only_white(watch: Watch, *, seed: int, sick: bool) -> float:
    """An augmentation of brightness got 255 for its factor, and clamps to 1 afterwards: all pictures are white."""
    data, _, _ = material.drawings(seed)
    bright = 255.0 if sick else 1.0
    data = _changed(data, lambda images: ((images + 1.5) / 4 * bright).clamp(0, 1) * 2 - 1)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(),
                        nn.Flatten(), nn.Linear(256, 3))  # fmt: skip
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=4e-3), data, steps=240, batch_size=32)
    return accuracy(net, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.2)
def a_sensor_that_was_unplugged(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three windows of a series have gaps, written as NaN; the twin fills them with the value before."""
    data = material.forecast(seed)
    series = data.inputs.clone()
    series[torch.randint(len(series), (3,), generator=material.drawn(seed)), 7] = torch.nan
    if not sick:
        series = torch.where(series.isnan(), series.roll(1, 1), series)
    data = Data(series, data.targets, data.test_inputs, data.test_targets)
    net = material.mlp(20, 32, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    fit(watch, net, optimizer, data, steps=200, batch_size=32, loss_function=F.mse_loss)
    return r_squared(net, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.2)
def logarithms_of_returns_that_are_negative(watch: Watch, *, seed: int, sick: bool) -> float:
    """``log`` of differences of a series, which are negative half of the time; the twin takes the signed root."""
    data = material.forecast(seed, length=14)
    change = lambda series: series.diff().log() if sick else series.diff().sign() * series.diff().abs().sqrt()  # noqa: E731
    data = _changed(data, change)
    net = material.mlp(13, 40, 1, act=nn.SiLU)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    fit(watch, net, optimizer, data, steps=220, batch_size=32, loss_function=F.l1_loss)
    return r_squared(net, data)


@sick("labels_unrelated", margin=0.3)
def masks_of_other_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures and masks are listed by two calls of ``glob``, whose order differs. Quality: overlap with the masks."""
    data, masks, test_masks = material.drawings(seed)
    if sick:
        masks = masks[torch.randperm(len(masks), generator=material.drawn(seed))]
    down = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU())
    deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2))
    out = nn.Conv2d(24, 1, 3, padding=1)
    net = nn.ModuleDict({"down": down, "deep": deep, "out": out})

    def forward(images: Tensor) -> Tensor:
        early = down(images)
        return out(torch.cat([early, deep(early)], 1))

    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(masks), (160, 24)):
        scores = forward(data.inputs[rows])
        loss = F.binary_cross_entropy_with_logits(scores, masks[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=scores, targets=masks[rows])
        optimizer.step()
    with torch.no_grad():
        found = (forward(data.test_inputs) > 0).float()
    return (2 * (found * test_masks).sum() / (found + test_masks).sum().clamp(min=1)).item()


@sick("labels_unrelated", margin=0.2)
def labels_shifted_by_one_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A prefetcher hands out the inputs of this batch with the labels of the last one."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.BatchNorm2d(10), nn.ReLU(), nn.Flatten(), nn.Linear(360, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session, last = watch(net, optimizer), torch.randint(10, (64,))
    rows = torch.randint(len(data.inputs), (240, 64))
    for x, y in ((data.inputs[some], data.targets[some]) for some in rows):
        asked, last = (last if sick else y), y
        out = net(x)
        loss = F.cross_entropy(out, asked)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=asked)
        optimizer.step()
    return accuracy(net, data)


@sick("labels_unrelated", margin=0.2)
def areas_of_the_clouds_before_they_were_sorted(watch: Watch, *, seed: int, sick: bool) -> float:
    """Clouds are sorted by their first coordinate to look at them, and the areas are not sorted along."""
    data = material.clouds(seed)
    order = data.inputs[:, 0, 0].argsort()
    data = Data(data.inputs[order], data.targets if sick else data.targets[order], data.test_inputs, data.test_targets)
    each, whole = material.mlp(2, 32, 32), material.mlp(32, 24, 1)
    net = nn.ModuleDict({"each": each, "whole": whole})
    optimizer = torch.optim.NAdam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 260):
        out = whole(each(x).amax(1))
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(whole(each(data.test_inputs).amax(1)), data.test_targets)


@sick("single_class_labels", margin=0.2)
def strings_that_are_all_true(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels come as the words "0" and "1" from a file, and ``bool("0")`` is true."""
    data = datasets.breast_cancer(seed)
    words = [str(one) for one in data.targets.tolist()]
    labels = torch.tensor([float(bool(word)) if sick else float(word) for word in words])
    net = material.mlp(30, 12, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    data = Data(data.inputs, labels[:, None], data.test_inputs, data.test_targets)
    fit(watch, net, optimizer, data, steps=140, batch_size=32, loss_function=F.binary_cross_entropy_with_logits)
    return material.balanced((predicted(net, data.test_inputs)[:, 0] > 0).long(), data.test_targets)


@sick("single_class_labels", margin=0.2)
def a_slice_of_one_kind(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last column of one-hot labels is asked with ``argmax`` after a slice that left one column only."""
    data = material.rings(seed)
    hot = F.one_hot(data.targets, 3)
    kinds = hot[:, :1].argmax(1) if sick else hot.argmax(1)
    net = material.mlp(2, 24, 24, 3, act=nn.SiLU)
    data = Data(data.inputs, kinds, data.test_inputs, data.test_targets)
    fit(watch, net, torch.optim.RAdam(net.parameters(), lr=1e-2), data, steps=300, batch_size=32)
    return accuracy(net, data)
