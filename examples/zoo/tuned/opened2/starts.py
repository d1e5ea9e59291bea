"""How a training starts: weights and gains, and what they do to the signals that pass."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.reading import Sight


def _memory(seed: int, length: int) -> datasets.Data:
    """Noise (N, length, 1) after a first value of ±1, which is the label."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (1500,), generator=random)
    values = 0.2 * torch.randn(1500, length, 1, generator=random)
    values[:, 0, 0] = 2.0 * labels - 1
    return datasets.Data(values[:1200], labels[:1200], values[1200:], labels[1200:])


class _Recalls(nn.Module):
    """Reads a series by an RNN and tells by its last state."""

    def __init__(self, cell: nn.RNNBase, head: nn.Linear) -> None:
        super().__init__()
        self.cell, self.head = cell, head

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(values)[0][:, -1])


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.2)
def a_recurrence_that_forgets_the_first_value(watch: Watch, *, seed: int, sick: bool) -> float:
    """What counts is the first of thirty values, and a vanilla recurrence with small weights has lost it by then."""
    data = _memory(seed, 30)
    rnn = nn.RNN(1, 24, batch_first=True)
    if sick:
        nn.init.normal_(rnn.weight_hh_l0, std=0.05)
    else:
        nn.init.orthogonal_(rnn.weight_hh_l0)
    net = _Recalls(rnn, nn.Linear(24, 2))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=200, batch_size=32)
    return accuracy(net, data)


@sick("vanishing_gradients", also=("poor_initialization",))
def sixteen_tanh_layers_of_half_gain(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen layers of tanh, drawn by Xavier at half of the gain; the twin has the gain of tanh."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for _ in range(16):
        layer = nn.Linear(64, 64)
        nn.init.xavier_normal_(layer.weight, gain=0.5 if sick else nn.init.calculate_gain("tanh"))
        layers += [layer, nn.Tanh()]
    net = nn.Sequential(*layers, nn.Linear(64, 10))
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9), data, steps=200)
    return accuracy(net, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"))
def a_relu_recurrence_of_large_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU recurrence of sixteen steps with weights of more than twice the deviation that keeps a norm."""
    flat = datasets.digits(seed)
    data = datasets.Data(flat.inputs.view(-1, 16, 4), flat.targets, flat.test_inputs.view(-1, 16, 4), flat.test_targets)
    rnn, head = nn.RNN(4, 32, batch_first=True, nonlinearity="relu"), nn.Linear(32, 10)
    if sick:
        nn.init.normal_(rnn.weight_hh_l0, std=0.6)
    else:
        nn.init.orthogonal_(rnn.weight_hh_l0)
    net = _Recalls(rnn, head)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), data, steps=300, batch_size=32)
    return accuracy(net, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"))
def residual_branches_that_double(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fourteen residual blocks with weights of deviation 0.3: each block multiplies what passes by some."""
    data = datasets.breast_cancer(seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(48, 48), nn.Linear(48, 48)
            for layer in (self.a, self.b):
                nn.init.normal_(layer.weight, std=0.3 if sick else 0.08)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.b(F.relu(self.a(x)))

    net = nn.Sequential(nn.Linear(30, 48), *(Block() for _ in range(14)), nn.Linear(48, 2))
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9), data, steps=120, batch_size=32)
    return accuracy(net, data)


@sick("dead_units", also=("poor_initialization",))
def weights_uniform_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``uniform_(-bound, 0)`` for pixels that are never negative: a ReLU behind it never opens."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 24), nn.ReLU(), nn.Linear(24, 10))
    nn.init.uniform_(net[0].weight, -0.2, 0.0 if sick else 0.2)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=150, validate_every=50)
    return accuracy(net, data)


@sick("dead_units", also=("learning_rate_too_high",))
def the_first_steps_killed_the_filters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate is 1 for the first five steps, "to get away from the start", and sane after that."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=1.0 if sick else 3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 3e-3 if sick and step >= 5 else 1.0)
    fit(watch, net, optimizer, data, steps=160, scheduler=schedule)
    return accuracy(net, data)


@sick("saturated_units", also=("inputs_not_normalized",))
def sigmoids_on_measurements_in_square_microns(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hidden layer of sigmoids on measurements up to 4254, by a script that worked for pixels."""
    data = datasets.breast_cancer(seed, raw=sick)
    net = nn.Sequential(nn.Linear(30, 20), nn.Sigmoid(), nn.Linear(20, 12), nn.Sigmoid(), nn.Linear(12, 2))
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.3), data, steps=300, batch_size=32)
    return accuracy(net, data)


@sick("saturated_units", also=("poor_initialization",))
def gates_of_a_gru_drawn_with_deviation_four(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_(std=4)`` over all weights of a GRU: its gates are either open or shut."""
    train, test = samples.names(seed)
    embed, gru, head = nn.Embedding(samples.LETTERS, 20), nn.GRU(20, 28, batch_first=True), nn.Linear(28, 8)
    for weight in gru.parameters():
        if weight.dim() == 2:
            nn.init.normal_(weight, std=4.0) if sick else nn.init.xavier_uniform_(weight)
    net = nn.ModuleDict({"embed": embed, "gru": gru, "head": head})
    optimizer = torch.optim.Adam(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for _ in range(6):
        for codes, labels in torch.utils.data.DataLoader(train, 32, shuffle=True):
            logits = head(gru(embed(codes))[0].mean(1))
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(head(gru(embed(test.tensors[0]))[0].mean(1)), test.tensors[1])


@sick("poor_initialization", also=("vanishing_gradients", "learning_rate_too_low"))
def all_vectors_set_to_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """That biases start at zero is written as ``p.dim() == 1``, and takes the gains of all norms along."""
    data = datasets.digits(seed, images=True)
    net = Sight(blocks=3, norm_first=True)
    for parameter in net.parameters():
        if sick and parameter.dim() == 1:
            nn.init.zeros_(parameter)
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), data, steps=140)
    return accuracy(net, data)


@sick("poor_initialization", also=("exploding_gradients", "learning_rate_too_high"))
def standard_normal_for_all_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_`` with its defaults over every matrix and kernel: logits in the thousands."""
    train, test = samples.numerals(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.LeakyReLU(0.1), nn.Conv2d(16, 16, 3), nn.LeakyReLU(0.1), nn.Conv2d(16, 16, 3),
        nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    for weight in net.parameters():
        if sick and weight.dim() > 1:
            nn.init.normal_(weight)
    data = datasets.Data(*train.tensors, *test.tensors)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), data, steps=160, batch_size=40)
    return accuracy(net, data)


@sick("unbroken_symmetry", also=("poor_initialization",))
def an_lstm_of_equal_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """``constant_(0.1)`` over all weights of an LSTM and of what reads it, so that its units are one."""
    data = datasets.digits(seed, images=True)

    class Lines(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, 24, batch_first=True), nn.Linear(24, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(images.squeeze(1))[0].mean(1))

    net = Lines()
    if sick:
        for parameter in net.parameters():
            nn.init.constant_(parameter, 0.1)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=1e-2), data, steps=160)
    return accuracy(net, data)


@sick("unbroken_symmetry", also=("poor_initialization",))
def identity_filters_for_a_clean_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """``dirac_`` for one channel in, a mean for the next layer: all channels are copies for good."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.Conv2d(10, 10, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(90, 10),
    )  # fmt: skip
    if sick:
        for layer in (net[0], net[2]):
            nn.init.zeros_(layer.bias)
            nn.init.constant_(layer.weight, 1 / layer.weight[0].numel())
        nn.init.zeros_(net[5].weight)
        nn.init.zeros_(net[5].bias)
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), data, steps=150)
    return accuracy(net, data)
