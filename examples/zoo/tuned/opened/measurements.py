"""Tables of flowers, wines, tumours and patients: losses written by hand, and functions that hand over each other."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data

Objective = Callable[[Tensor, Tensor], Tensor]


def mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these widths with an activation between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1])


def epochs(data: Data, count: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields shuffled batches without the smaller one at the end."""
    for _ in range(count):
        for rows in torch.randperm(len(data.inputs))[: len(data.inputs) // size * size].view(-1, size):
            yield data.inputs[rows], data.targets[rows]


def learn(
    watch: Watch, net: nn.Module, opt: optim.Optimizer, task: tuple[Data, Objective], *, count: int, size: int = 32
) -> Tensor:
    """Trains, and returns the outputs for what is judged."""
    data, objective = task
    session = watch(net, opt)
    for x, y in epochs(data, count, size):
        out = net(x)
        loss = objective(out, y)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        opt.step()
    net.eval()
    with torch.no_grad():
        return net(data.test_inputs)


def explained(out: Tensor, data: Data) -> float:
    """Returns R², -1 at least."""
    wanted = data.test_targets.view(-1)
    return (1 - (out.view(-1) - wanted).square().mean() / wanted.var()).clamp(min=-1).item()


def right(out: Tensor, data: Data) -> float:
    """Returns the share of right classes, or of right signs."""
    guess = (out.view(-1) > 0).long() if out.shape[-1] == 1 else out.argmax(1)
    return (guess == data.test_targets).float().mean().item()


def likelihood(p: Tensor, y: Tensor) -> Tensor:
    """Returns the mean logarithm of the probability of what was seen."""
    return (y * torch.log(p + 1e-6) + (1 - y) * torch.log(1 - p + 1e-6)).mean()


@sick("shape_broadcast")
def a_likelihood_of_columns_and_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cross entropy by hand gets probabilities (N, 1) and labels (N,), and compares all with all."""
    data = datasets.breast_cancer(seed)
    net = mlp(30, 16, 1).append(nn.Sigmoid())

    def objective(out: Tensor, y: Tensor) -> Tensor:
        return -likelihood(out if sick else out.squeeze(1), y.float())

    out = learn(watch, net, optim.Adam(net.parameters(), lr=3e-3), (data, objective), count=12)
    return right(out - 0.5, data)


@sick("shape_broadcast")
def errors_of_a_vector_and_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model squeezes its output, the targets are a column: absolute errors of all pairs."""
    data = datasets.diabetes(seed)
    net = mlp(10, 24, 1, act=nn.Tanh).append(nn.Flatten(0))

    def objective(out: Tensor, y: Tensor) -> Tensor:
        return (out - (y if sick else y[:, 0])).abs().mean()

    return explained(learn(watch, net, optim.RMSprop(net.parameters(), lr=3e-3), (data, objective), count=15), data)


@sick("flipped_loss_sign")
def a_likelihood_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """The logarithm of the likelihood is minimised."""
    data = datasets.breast_cancer(seed)
    net = mlp(30, 20, 1, act=nn.SiLU).append(nn.Sigmoid())
    sign = 1 if sick else -1

    def objective(out: Tensor, y: Tensor) -> Tensor:
        return sign * likelihood(out[:, 0], y.float())

    return right(learn(watch, net, optim.SGD(net.parameters(), lr=0.2), (data, objective), count=12) - 0.5, data)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def softplus_for_standardised_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """A head for counts, above zero, and targets that were standardised later."""
    data = datasets.diabetes(seed)
    net = mlp(10, 24, 1)
    if sick:
        net.append(nn.Softplus())
    opt = optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    return explained(learn(watch, net, opt, (data, nn.MSELoss()), count=12), data)


@sick("wrong_output_or_loss")
def absolute_errors_of_class_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """One output is drawn towards the number of the class and rounded: class 1 lies between 0 and 2 by name only."""
    data = datasets.wine(seed)
    order = torch.tensor([1, 0, 2])
    data = Data(data.inputs, order[data.targets], data.test_inputs, order[data.test_targets])
    net = mlp(13, 8, 1 if sick else 3)

    def objective(out: Tensor, y: Tensor) -> Tensor:
        return functional.smooth_l1_loss(out[:, 0], y.float()) if sick else functional.cross_entropy(out, y)

    out = learn(watch, net, optim.Adam(net.parameters(), lr=4e-3), (data, objective), count=20, size=16)
    guess = out[:, 0].round() if sick else out.argmax(1)
    return (guess == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss")
def likelihood_of_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets a softmax instead of its logarithm."""
    data = datasets.digits(seed)
    net = mlp(64, 32, 10).append(nn.Softmax(1) if sick else nn.LogSoftmax(1))
    opt = optim.SGD(net.parameters(), lr=0.1)
    return right(learn(watch, net, opt, (data, nn.NLLLoss()), count=6), data)


@sick("inputs_not_normalized")
def thirty_raw_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """Thirty columns of a table, from thousandths to thousands, in a small net with SGD."""
    data = datasets.breast_cancer(seed, raw=sick)
    net = mlp(30, 16, 1, act=nn.GELU)

    def objective(out: Tensor, y: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(out[:, 0], y.float())

    return right(learn(watch, net, optim.SGD(net.parameters(), lr=0.05), (data, objective), count=20), data)


@sick("inputs_not_normalized", margin=0.02)
def divided_by_255_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels that are from 0 to 1 are divided by 255 once more: nearly nothing is left of them."""
    data = datasets.digits(seed)
    scale = 255 if sick else 1
    data = Data(data.inputs / scale, data.targets, data.test_inputs / scale, data.test_targets)
    net = mlp(64, 48, 10)
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return right(learn(watch, net, opt, (data, functional.cross_entropy), count=5), data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def logarithms_of_a_table_with_zeros(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed columns are passed through a logarithm, and some tumours have no concave points."""
    raw = datasets.breast_cancer(seed, raw=True)
    rows = [x.log() if sick else x.clamp(min=1e-3).log() for x in (raw.inputs, raw.test_inputs)]
    finite = rows[0].isfinite()
    mean = rows[0].where(finite, torch.zeros(())).sum(0) / finite.sum(0)
    data = Data((rows[0] - mean) / 2, raw.targets, (rows[1] - mean) / 2, raw.test_targets)
    net = mlp(30, 16, 2)
    opt = optim.Adam(net.parameters(), lr=3e-3)
    return right(learn(watch, net, opt, (data, functional.cross_entropy), count=10), data)


class _OwnNorm(nn.Module):
    """A batch norm by hand, with the deviation that divides by N - 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.std(0) + 1e-5) * self.gain + self.bias


@sick("non_finite_forward")
def the_deviation_of_a_single_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last batch of an epoch has one row, and the deviation of one row is NaN."""
    data = datasets.wine(seed)
    data = Data(data.inputs[:129], data.targets[:129], data.test_inputs, data.test_targets)
    net = nn.Sequential(nn.Linear(13, 24), _OwnNorm(24), nn.ReLU(), nn.Linear(24, 3))
    opt = optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for _ in range(20):
        for rows in torch.randperm(129).split(16):
            if len(rows) < 2 and not sick:
                continue
            out = net(data.inputs[rows])
            loss = functional.cross_entropy(out, data.targets[rows])
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=out, targets=data.targets[rows])
            opt.step()
    with torch.no_grad():
        return right(net(data.test_inputs), data)


@sick("learning_rate_too_high")
def momentum_that_swings(watch: Watch, *, seed: int, sick: bool) -> float:
    """A regression by SGD with a momentum of 0.97 at a rate of 0.25."""
    data = datasets.diabetes(seed)
    net = mlp(10, 32, 32, 1)
    opt = optim.SGD(net.parameters(), lr=0.25 if sick else 2e-3, momentum=0.97)
    return explained(learn(watch, net, opt, (data, functional.smooth_l1_loss), count=15), data)


@sick("poor_initialization", also=("vanishing_gradients",))
def a_gain_of_a_twentieth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Xavier's initialisation with a gain of 0.05 in five layers."""
    data = datasets.wine(seed)
    net = mlp(13, 32, 32, 32, 32, 3, act=nn.Tanh)
    for layer in net[::2]:
        nn.init.xavier_uniform_(layer.weight, gain=0.05 if sick else 5 / 3)
        nn.init.zeros_(layer.bias)
    opt = optim.SGD(net.parameters(), lr=0.03, momentum=0.8)
    return right(learn(watch, net, opt, (data, functional.cross_entropy), count=20, size=16), data)


@sick("overfitting", margin=0.1)
def squares_and_products_of_all_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """All products of ten columns in a wide net, for 331 patients, many epochs; the twin has the columns and decay."""
    data = datasets.diabetes(seed)
    if sick:
        upper = torch.triu_indices(10, 10)
        wide = [torch.cat([x, (x[:, :, None] * x[:, None])[:, upper[0], upper[1]]], 1) for x in
                (data.inputs, data.test_inputs)]  # fmt: skip
        data = Data(wide[0], data.targets, wide[1], data.test_targets)
    net = mlp(65, 96, 1) if sick else nn.Sequential(nn.Dropout(0.1), nn.Linear(10, 1))
    opt = optim.AdamW(net.parameters(), lr=3e-3 if sick else 2e-2, weight_decay=0.0 if sick else 0.05)
    session = watch(net, opt)
    for step, (x, y) in enumerate(data.batches(32, 400), 1):
        net.train()
        out = net(x)
        loss = functional.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        opt.step()
        if step % 20 == 0:
            net.eval()
            with session.validating(), torch.no_grad():
                session.validation(functional.mse_loss(net(data.test_inputs), data.test_targets).item())
    with torch.no_grad():
        return explained(net.eval()(data.test_inputs), data)
