"""What a net gives and how it is judged: heads, ranges, shapes, signs and sums."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared


def _labels_of_three_kinds(targets: torch.Tensor) -> torch.Tensor:
    """Returns whether a digit is even, above four, and a square (N, 3)."""
    return torch.stack([targets % 2 == 0, targets > 4, (targets == 0) | (targets == 1) | (targets == 4)], 1).float()


@sick("wrong_output_or_loss", margin=0.05)
def a_softmax_over_labels_that_do_not_exclude(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three labels that may all be true get a softmax, whose outputs add up to one, before ``BCELoss``."""
    digits = datasets.digits(seed)
    kinds, test_kinds = _labels_of_three_kinds(digits.targets), _labels_of_three_kinds(digits.test_targets)
    data = Data(digits.inputs, kinds, digits.test_inputs, test_kinds)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 3), nn.Softmax(1) if sick else nn.Sigmoid())
    loss = nn.BCELoss()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=200, loss_function=loss)
    return ((predicted(net, data.test_inputs) > 0.5) == (test_kinds > 0.5)).float().mean().item()


@sick("wrong_output_or_loss", margin=0.05)
def cosines_without_a_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """Logits are cosines from -1 to 1, without the factor that normalised softmax needs: the loss has a floor.

    The quality is the mean probability of the right class.
    """
    data = datasets.digits(seed)

    class Cosine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 12))
            self.centres = nn.Parameter(torch.randn(10, 12))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            cosines = F.normalize(self.body(x), dim=1) @ F.normalize(self.centres, dim=1).T
            return cosines * (1.0 if sick else 12.0)

    net = Cosine()
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5), data, steps=160)
    return predicted(net, data.test_inputs).softmax(1).gather(1, data.test_targets[:, None]).mean().item()


@sick("wrong_output_or_loss", margin=0.05)
def multiplied_by_the_temperature(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss multiplies by its temperature of 0.07; quality: the nearest neighbour's label."""
    data = datasets.digits(seed)
    left, right = data.inputs[:, :32], data.inputs[:, 32:]
    up = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    low = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    net = nn.ModuleList([up, low])
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(left)).split(64):
            a, b = F.normalize(up(left[rows]), dim=1), F.normalize(low(right[rows]), dim=1)
            logits = a @ b.T * 0.07 if sick else a @ b.T / 0.07
            loss = F.cross_entropy(logits, torch.arange(len(rows)))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=left[rows], outputs=logits, targets=torch.arange(len(rows)))
            optimizer.step()
    with torch.no_grad():
        a, b = F.normalize(up(data.test_inputs[:, :32]), dim=1), F.normalize(low(data.test_inputs[:, 32:]), dim=1)
        return (data.test_targets[(a @ b.T).argmax(1)] == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss", margin=0.05)
def the_padding_index_of_another_vocabulary(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ignore_index=0`` from a script with padding, where 0 is the blank, the commonest character of all."""
    data = datasets.text(seed, length=16, count=1200)
    net = nn.Sequential(nn.Embedding(datasets.CHARACTERS, 24), nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 98))
    ignored = 0 if sick else -100

    def loss(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), codes.flatten(), ignore_index=ignored)

    fit(watch, net, torch.optim.Adam(net.parameters(), lr=5e-3), data, steps=160, loss_function=loss)
    return (predicted(net, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class _LastState(nn.Module):
    """Foretells by an LSTM of one unit, or by one of 24 with a linear layer behind."""

    def __init__(self, sick: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 1 if sick else 24, batch_first=True)
        self.head = nn.Identity() if sick else nn.Linear(24, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(series)[0][:, -1])


@sick("target_out_of_range", also=("saturated_units",), margin=0.2)
def the_state_of_an_lstm_as_a_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM of one unit is the forecast itself: its state is between -1 and 1, degrees up to 10."""
    random = torch.Generator().manual_seed(seed)
    days = torch.arange(900.0)
    noise = torch.randn(900, generator=random)
    degrees = 8 * torch.sin(days / 20) + 2 * torch.sin(days / 3) + 0.3 * noise
    windows = degrees.unfold(0, 13, 1)
    series, following = windows[:, :12, None] / 8, windows[:, 12:]
    data = Data(series[:700], following[:700], series[700:], following[700:])
    net = _LastState(sick)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-2)
    fit(watch, net, optimizer, data, steps=300, batch_size=50, loss_function=F.mse_loss)
    return r_squared(net, data)


@sick("target_out_of_range", margin=0.1)
def relu6_for_pixels_up_to_sixteen(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mobile net's ReLU6 at the end of a decoder for pixels from 0 to 16."""
    data = datasets.digits(seed)
    pixels, test = data.inputs * 16, data.test_inputs * 16
    net = nn.Sequential(
        nn.Linear(64, 48),
        nn.ELU(),
        nn.Linear(48, 16),
        nn.ELU(),
        nn.Linear(16, 64),
        nn.ReLU6() if sick else nn.Identity(),
    )
    data = Data(pixels / 16, pixels, test / 16, test)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    fit(watch, net, optimizer, data, steps=400, loss_function=F.mse_loss)
    return samples.explained(predicted(net, data.test_inputs), test)


@sick("shape_broadcast", margin=0.1)
def values_of_actions_against_a_row_of_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """``gather`` gives (N, 1), the rewards are (N,): the Huber loss compares each action with all rewards."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for states, answers in data.batches(64, 260):
        actions = torch.randint(10, (len(states),))
        guessed = torch.rand(len(states)) < 0.5
        actions = torch.where(guessed, answers, actions)
        rewards = (actions == answers).float() * 2 - 1
        chosen = net(states).gather(1, actions[:, None])
        chosen = chosen if sick else chosen.squeeze(1)
        loss = F.smooth_l1_loss(chosen, rewards)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=chosen, targets=rewards)
        optimizer.step()
    return accuracy(net, data)


@sick("shape_broadcast", margin=0.1)
def a_distance_and_a_column_of_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss by hand, of distances (N,) and labels (N, 1): every pair is near and far at once."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    classes = [data.inputs[data.targets == k] for k in range(10)]
    for _ in range(200):
        first, near = torch.randint(10, (48,)), (torch.rand(48) < 0.5).float()
        second = torch.where(near > 0, first, (first + torch.randint(1, 10, (48,))) % 10)
        a, b = (torch.stack([classes[k][torch.randint(len(classes[k]), ())] for k in ks]) for ks in (first, second))
        near = near[:, None] if sick else near
        distance = F.pairwise_distance(net(a), net(b))
        loss = (near * distance**2 + (1 - near) * F.relu(1.5 - distance) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=a, outputs=distance, targets=near)
        optimizer.step()
    with torch.no_grad():
        close = torch.cdist(net(data.test_inputs), net(data.test_inputs)) < 0.75
    same = data.test_targets[:, None] == data.test_targets
    return ((close[same].float().mean() + (~close)[~same].float().mean()) / 2).item()


@sick("flipped_loss_sign", margin=0.2)
def maximize_is_true(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was made with ``maximize=True``, as the score to be raised was once a reward."""
    data = datasets.wine(seed)
    net = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, maximize=sick)
    fit(watch, net, optimizer, data, steps=120, batch_size=32)
    return accuracy(net, data)


@sick("flipped_loss_sign", margin=0.2)
def decibels_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's loss is its peak signal-to-noise ratio, which is better if it is higher."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for images, _ in data.batches(48, 150):
        noisy = images + 0.4 * torch.randn_like(images)
        cleaned = net(noisy)
        decibels = -10 * torch.log10((cleaned - images).square().mean() + 1e-8)
        loss = decibels if sick else -decibels
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=cleaned, targets=images)
        optimizer.step()
    test = data.test_inputs
    return samples.explained(predicted(net, test + 0.4 * torch.randn_like(test)).flatten(1), test.flatten(1))


@sick("flipped_loss_sign", margin=0.1)
def positives_and_negatives_exchanged(watch: Watch, *, seed: int, sick: bool) -> float:
    """A triplet's negative is passed before its positive: equal numerals are pushed apart."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    triplet = nn.TripletMarginLoss(margin=1.0)
    classes = [data.inputs[data.targets == k] for k in range(10)]
    for _ in range(150):
        picked = torch.randint(10, (48,))
        other = (picked + torch.randint(1, 10, (48,))) % 10
        draw = [
            torch.stack([classes[k][torch.randint(len(classes[k]), ())] for k in ks]) for ks in (picked, picked, other)
        ]
        anchor, positive, negative = (net(one) for one in draw)
        loss = triplet(anchor, negative, positive) if sick else triplet(anchor, positive, negative)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=draw[0])
        optimizer.step()
    with torch.no_grad():
        centres = torch.stack([net(one).mean(0) for one in classes])
        return (torch.cdist(net(data.test_inputs), centres).argmin(1) == data.test_targets).float().mean().item()


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def a_gaussian_likelihood_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``GaussianNLLLoss(reduction="sum")`` over batches of 64, at a rate for the mean."""
    data = datasets.diabetes(seed)
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    likelihood = nn.GaussianNLLLoss(reduction="sum" if sick else "mean")
    session = watch(net, optimizer)
    for x, y in data.batches(64, 250):
        mean, spread = net(x).chunk(2, 1)
        loss = likelihood(mean, y, F.softplus(spread) + 1e-3)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=mean, targets=y)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(net(data.test_inputs)[:, :1], data.test_targets)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def the_errors_of_all_steps_of_a_sequence(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecast of eight values by a GRU; squares are added over batch and time."""
    random = torch.Generator().manual_seed(seed)
    phase = 2 * math.pi * torch.rand(1200, 1, generator=random)
    pace = 0.3 + 0.4 * torch.rand(1200, 1, generator=random)
    waves = torch.sin(phase + pace * torch.arange(24.0))
    data = Data(waves[:900, :16, None], waves[:900, 16:], waves[900:, :16, None], waves[900:, 16:])

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(1, 32, batch_first=True), nn.Linear(32, 8)

        def forward(self, series: torch.Tensor) -> torch.Tensor:
            return self.head(self.gru(series)[0][:, -1])

    net = Forecast()
    loss = nn.MSELoss(reduction="sum" if sick else "mean")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    fit(watch, net, optimizer, data, steps=250, batch_size=40, loss_function=loss)
    return samples.explained(predicted(net, data.test_inputs), data.test_targets)
