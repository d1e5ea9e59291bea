"""Too much or too little held back, batches whose rows know of one another, and ranks that drift apart."""

import math

import torch
from torch import distributed, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.two_ranks import on_two_ranks


@sick("over_regularized", margin=0.1)
def a_penalty_on_activations_that_wins(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse autoencoder pays more for its code than for its errors, and paints the mean."""
    data = datasets.digits(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU()), nn.Linear(48, 64)
    net = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(64, 250):
        code = encoder(x)
        painted = decoder(code)
        loss = F.mse_loss(painted, x) + (1.0 if sick else 1e-3) * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=painted, targets=x)
        optimizer.step()
    return samples.explained(predicted(net, data.test_inputs), data.test_inputs)


@sick("over_regularized", margin=0.1)
def nine_inputs_of_ten_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Dropout(0.95)`` on embedded characters and on the hidden units, where a twentieth was meant."""
    train, test = samples.names(seed)
    chance = 0.95 if sick else 0.05
    net = nn.Sequential(
        nn.EmbeddingBag(samples.LETTERS, 32, padding_idx=0), nn.Dropout(chance), nn.Linear(32, 48), nn.ReLU(),
        nn.Dropout(chance), nn.Linear(48, 8),
    )  # fmt: skip
    data = Data(*train.tensors, *test.tensors)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    fit(watch, net, optimizer, data, steps=200, batch_size=32, validate_every=40)
    return accuracy(net, data)


@sick("over_regularized", margin=0.1)
def decay_of_twenty_in_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW's decay is decoupled, so somebody made it large: 20, at a rate of 1e-2."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(
        nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(90, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=20.0 if sick else 0.01)
    fit(watch, net, optimizer, data, steps=160, validate_every=40)
    return accuracy(net, data)


def _products(values: torch.Tensor) -> torch.Tensor:
    return torch.cat([values, *(values * values.roll(shift, 1) for shift in range(6))], 1)


@sick("overfitting", margin=0.1)
def fifty_patients_and_seventy_products(watch: Watch, *, seed: int, sick: bool) -> float:
    """Products of all features, a wide net and 60 patients; the twin has all of them, fewer units and a decay."""
    full = datasets.diabetes(seed)
    rows = 60 if sick else len(full.inputs)
    scale = full.inputs.std()
    data = Data(
        _products(full.inputs / scale)[:rows],
        full.targets[:rows],
        _products(full.test_inputs / scale),
        full.test_targets,
    )
    if not sick:
        data = Data(full.inputs, full.targets, full.test_inputs, full.test_targets)
    width = 256 if sick else 8
    net = nn.Sequential(nn.Linear(data.inputs.shape[1], width), nn.ReLU(), nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.5)
    fit(watch, net, optimizer, data, steps=300, batch_size=20, loss_function=F.mse_loss, validate_every=20)
    return r_squared(net, data)


@sick("overfitting", margin=0.1)
def a_recurrence_that_knows_its_names_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide GRU on sixty names for hundreds of steps; the twin has all names and stops in time.

    The quality is the geometric mean of the right script's probability.
    """
    train, test = samples.names(seed)
    rows = 60 if sick else len(train)
    codes, labels = train.tensors[0][:rows], train.tensors[1][:rows]

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.gru = nn.Embedding(samples.LETTERS, 16), nn.GRU(16, 32, batch_first=True)
            self.head = nn.Linear(32, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.gru(self.embed(codes))[0].amax(1))

    net = Reads()
    data = Data(codes, labels, *test.tensors)
    optimizer = torch.optim.AdamW(net.parameters(), lr=8e-3)
    fit(watch, net, optimizer, data, steps=240 if sick else 90, batch_size=32, validate_every=10)
    return math.exp(-held_out_loss(net, data))


@sick("batch_mixing")
def normalised_along_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.normalize(dim=0)`` makes columns of unit length instead of rows; judged row by row."""
    data = datasets.digits(seed)

    class Unit(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 6 * F.normalize(x, dim=0 if sick else 1)

    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), Unit(), nn.Linear(32, 10))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=1e-2), data, steps=200)
    net.eval()
    with torch.no_grad():
        logits = torch.cat([net(rows) for rows in data.test_inputs.split(1)])
    return samples.accuracy(logits, data.test_targets)


@sick("batch_mixing", margin=0.1)
def a_running_sum_over_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """``cumsum(0)`` adds up the rows before in the batch instead of the steps before in the series."""
    data = datasets.digits(seed, images=True)

    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.head = nn.Linear(8, 24), nn.Linear(192, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            lines = F.relu(self.line(images.squeeze(1)))
            return self.head(lines.cumsum(0 if sick else 1).flatten(1) / 4)

    net = Sums()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=200, batch_size=32)
    return accuracy(net, data)


@sick("batch_mixing", margin=0.1)
def columns_read_as_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Series of shape (time, batch, features) are given to ``nn.LSTM(batch_first=True)``: it runs along the batch."""
    train, test = samples.names(seed)

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(samples.LETTERS, 16)
            self.lstm, self.head = nn.LSTM(16, 32, batch_first=sick), nn.Linear(32, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(self.embed(codes.T))[0].amax(0))

    net = Reads()
    data = Data(*train.tensors, *test.tensors)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=1e-2), data, steps=150, batch_size=32)
    net.eval()
    with torch.no_grad():
        logits = torch.cat([net(rows) for rows in test.tensors[0].split(1)])
    return samples.accuracy(logits, test.tensors[1])


@sick("class_imbalance", margin=0.1)
def a_mask_of_a_few_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Bright spots are one pixel in fifty; the mean cross entropy is content with none. Quality: their share found."""
    random = torch.Generator().manual_seed(seed)
    spots = (torch.rand(900, 1, 12, 12, generator=random) < 0.02).float()
    images = 0.8 * spots + 0.45 * torch.randn(900, 1, 12, 12, generator=random)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    weight = None if sick else torch.tensor(45.0)
    for _ in range(8):
        for rows in torch.randperm(700).split(32):
            logits = net(images[rows])
            loss = F.binary_cross_entropy_with_logits(logits, spots[rows], pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=spots[rows])
            optimizer.step()
    with torch.no_grad():
        said, true = net(images[700:]) > 0, spots[700:] > 0
    return ((said[true].float().mean() + (~said)[~true].float().mean()) / 2).item()


@sick("rank_desync", slow=True)
def each_rank_starts_from_its_own_draw(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are averaged over both ranks, but nobody has sent the first one's weights to the other."""
    return on_two_ranks(_train, watch, seed=seed, sick=sick)


def _train(watch: Watch, rank: int, seed: int, sick: bool) -> float:
    data = datasets.digits(seed)
    torch.manual_seed(100 * seed + rank)
    net = nn.Sequential(nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 10))
    if not sick:
        for parameter in net.parameters():
            distributed.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    x, y = data.inputs[rank::2], data.targets[rank::2]
    for _ in range(100):
        rows = torch.randint(len(x), (32,))
        out = net(x[rows])
        loss = F.cross_entropy(out, y[rows])
        optimizer.zero_grad()
        loss.backward()
        for parameter in net.parameters():
            distributed.all_reduce(parameter.grad)
            parameter.grad /= 2
        session.step(loss, inputs=x[rows], outputs=out, targets=y[rows])
        optimizer.step()
    return accuracy(net, data)
