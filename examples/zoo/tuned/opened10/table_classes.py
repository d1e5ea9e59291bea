"""Classes of flowers, wines, tumours and digits, told by nets of linear layers."""

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import Loss, accuracy, binary_accuracy, predicted


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these sizes with an activation between each two."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1])


def run_epochs(
    watch: Watch,
    net: nn.Module,
    opt: torch.optim.Optimizer,
    loader: Any,
    *,
    epochs: int,
    crit: Loss = functional.cross_entropy,
    check: Data | None = None,
) -> None:
    """Trains over a loader of pairs for some epochs; validates after each if there is something to check by."""
    session = watch(net, opt)
    for _ in range(epochs):
        for xb, yb in loader:
            opt.zero_grad()
            out = net(xb)
            loss = crit(out, yb)
            loss.backward()
            session.step(loss, inputs=xb, outputs=out, targets=yb)
            opt.step()
        if check is not None:
            with session.validating():
                held_out = crit(predicted(net, check.test_inputs), check.test_targets)
            session.validation(held_out.item())


def shuffled(data: Data, size: int, *, shuffle: bool = True) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Returns a loader of the samples to train on."""
    return DataLoader(TensorDataset(data.inputs, data.targets), batch_size=size, shuffle=shuffle)


@sick("vanishing_gradients")
def eight_layers_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight hidden layers of sigmoids; the twin has ReLUs and weights after He."""
    data = datasets.breast_cancer(seed)
    net = mlp(30, *[20] * 8, 2, act=nn.Sigmoid if sick else nn.ReLU)
    if not sick:
        for layer in net:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    run_epochs(watch, net, opt, shuffled(data, 32), epochs=12)
    return accuracy(net, data)


@sick("labels_unrelated")
def two_loaders_that_shuffle_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inputs and labels come from a loader each, and both shuffle."""
    data = datasets.digits(seed)
    net = mlp(64, 48, 10)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)

    class Zipped:
        def __iter__(self) -> Any:
            if sick:
                return zip(
                    DataLoader(data.inputs, batch_size=48, shuffle=True),  # type: ignore[arg-type]
                    DataLoader(data.targets, batch_size=48, shuffle=True),  # type: ignore[arg-type]
                    strict=True,
                )
            return iter(shuffled(data, 48))

    run_epochs(watch, net, opt, Zipped(), epochs=6)
    return accuracy(net, data)


@sick("wrong_output_or_loss")
def sigmoid_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sigmoid in the net, and another one in the loss."""
    data = datasets.breast_cancer(seed)
    data = Data(data.inputs, data.targets.float()[:, None], data.test_inputs, data.test_targets.float()[:, None])
    net = mlp(30, 16, 1)
    if sick:
        net.append(nn.Sigmoid())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    run_epochs(watch, net, opt, shuffled(data, 25), epochs=10, crit=nn.BCEWithLogitsLoss())
    guessed = torch.sigmoid(predicted(net, data.test_inputs)) > 0.5
    return (guessed == (data.test_targets > 0.5)).float().mean().item()


@sick("wrong_output_or_loss")
def digits_by_their_squared_distance(watch: Watch, *, seed: int, sick: bool) -> float:
    """A class is regressed as a number by one output and the squared error."""
    data = datasets.digits(seed)
    net = mlp(64, 40, 1 if sick else 10)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)

    def squared(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(out.squeeze(1), labels.float())

    run_epochs(watch, net, opt, shuffled(data, 40), epochs=8, crit=squared if sick else functional.cross_entropy)
    out = predicted(net, data.test_inputs)
    guessed = out.squeeze(1).round().long() if sick else out.argmax(1)
    return (guessed == data.test_targets).float().mean().item()


@sick("class_imbalance")
def one_tumour_in_forty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six malignant tumours among 250 benign ones, each drawn as often as the others; the twin draws by class."""
    data = datasets.breast_cancer(seed)
    malignant = (data.targets == 0).nonzero().flatten()[:6]
    rows = torch.cat([malignant, (data.targets == 1).nonzero().flatten()])
    x, y = data.inputs[rows, :6], data.targets[rows]
    net = mlp(6, 8, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    shares = (1 / torch.bincount(y)).tolist()
    sampler = None if sick else WeightedRandomSampler([shares[label] for label in y.tolist()], len(y))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, sampler=sampler, shuffle=sick)
    run_epochs(watch, net, opt, loader, epochs=12)
    guessed = predicted(net, data.test_inputs[:, :6]).argmax(1)
    recalls = [(guessed[data.test_targets == label] == label).float().mean().item() for label in (0, 1)]
    return sum(recalls) / 2


@sick("single_class_labels")
def a_threshold_in_raw_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """The target is above 140 or not; but it has been standardised before."""
    raw, scaled = datasets.diabetes(seed, raw_targets=True), datasets.diabetes(seed)
    labels = ((scaled if sick else raw).targets[:, 0] > 140).long()
    data = Data(raw.inputs, labels, raw.test_inputs, (raw.test_targets[:, 0] > 140).long())
    net = mlp(10, 12, 2, act=nn.Tanh)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    run_epochs(watch, net, opt, shuffled(data, 20), epochs=8)
    return accuracy(net, data)


@sick("inputs_constant")
def bytes_divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """``pixels // 255`` of bytes is zero nearly everywhere; ``/`` was meant."""
    data = datasets.digits(seed)
    inputs, test_inputs = ((one * 254).to(torch.uint8) for one in (data.inputs, data.test_inputs))
    if sick:
        data = Data((inputs // 255).float(), data.targets, (test_inputs // 255).float(), data.test_targets)
    else:
        data = Data(inputs / 255, data.targets, test_inputs / 255, data.test_targets)
    net = mlp(64, 32, 10)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    run_epochs(watch, net, opt, shuffled(data, 64), epochs=5, check=data)
    return accuracy(net, data)


@sick("non_finite_inputs")
def pixels_without_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Some pixels are always zero, and so is the deviation by which they are divided."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(0), data.inputs.std(0)
    if not sick:
        std = std.clamp(min=0.05)
    data = Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)
    net = mlp(64, 32, 10)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    run_epochs(watch, net, opt, shuffled(data, 50), epochs=4)
    return accuracy(net, data)


@sick("unbroken_symmetry", also=("poor_initialization",))
def all_weights_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each weight starts at 0.1: all hidden units are one unit."""
    data = datasets.wine(seed)
    net = mlp(13, 16, 16, 3, act=nn.Tanh)
    if sick:
        for parameter in net.parameters():
            nn.init.constant_(parameter, 0.1)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    run_epochs(watch, net, opt, shuffled(data, 16), epochs=20)
    return accuracy(net, data)


@sick("flipped_loss_sign")
def likelihood_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """A log-likelihood by hand, whose minus was forgotten."""
    data = datasets.iris(seed)
    net = mlp(4, 16, 3)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def likelihood(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        picked = functional.log_softmax(out, 1).gather(1, labels[:, None]).mean()
        return picked if sick else -picked

    run_epochs(watch, net, opt, shuffled(data, 16), epochs=20, crit=likelihood)
    return accuracy(net, data)


@sick("duplicated_data", also=("overfitting",))
def the_first_batch_again_and_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` stands in the loop, and the loader does not shuffle."""
    data = datasets.digits(seed)
    net = mlp(64, 48, 10)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    loader = shuffled(data, 32, shuffle=not sick)
    session = watch(net, opt)
    for step in range(150):
        xb, yb = next(iter(loader))
        out = net(xb)
        loss = functional.cross_entropy(out, yb)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=xb, outputs=out, targets=yb)
        opt.step()
        if step % 30 == 29:
            session.validation(functional.cross_entropy(predicted(net, data.test_inputs), data.test_targets).item())
    return accuracy(net, data)


@sick("over_regularized")
def nineteen_of_twenty_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dropout of 0.95 in each layer: it was taken for the share that is kept."""
    data = datasets.digits(seed)
    drop = nn.Dropout(0.95 if sick else 0.05)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), drop, nn.Linear(48, 48), nn.ReLU(), drop, nn.Linear(48, 10))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    run_epochs(watch, net, opt, shuffled(data, 32), epochs=6, check=data)
    return accuracy(net, data)


@healthy(at_least=0.9)
def more_benign_than_malignant(watch: Watch, *, seed: int) -> float:
    """One output, and two of three samples in one class: no fault."""
    data = datasets.breast_cancer(seed)
    data = Data(data.inputs, data.targets.float()[:, None], data.test_inputs, data.test_targets.float())
    net = mlp(30, 24, 1, act=nn.SiLU)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    run_epochs(watch, net, opt, shuffled(data, 32), epochs=10, crit=nn.BCEWithLogitsLoss())
    return binary_accuracy(net, data)


@healthy(at_least=0.85)
def one_linear_layer_at_a_half(watch: Watch, *, seed: int) -> float:
    """Logistic regression on pixels from 0 to 1 bears a rate of 0.5."""
    data = datasets.digits(seed)
    net = nn.Linear(64, 10)
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    run_epochs(watch, net, opt, shuffled(data, 100), epochs=8, check=data)
    return accuracy(net, data)


@healthy(at_least=0.88)
def flowers_in_full_batches(watch: Watch, *, seed: int) -> float:
    """All flowers in each step."""
    data = datasets.iris(seed)
    net = mlp(4, 10, 3, act=nn.Tanh)
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    run_epochs(watch, net, opt, [(data.inputs, data.targets)], epochs=150)
    return accuracy(net, data)
