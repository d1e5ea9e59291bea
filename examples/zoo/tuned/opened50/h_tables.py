"""What is fed: tables, labels, orders and copies."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained, standardised
from examples.zoo.tuned.opened50.h_aims import prolines
from examples.zoo.tuned.opened50.h_kit import NameReader, balanced_accuracy, dense, forever, learn, paired


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.1)
def areas_beside_fractions_in_a_tanh_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """Tumours' areas of 1,000 stand beside fractions of 0.1 in front of tanhs; the twin standardises the columns."""
    pair = standardised(samples.tumours(seed), 1)
    data = paired(pair if sick else standardised(pair, 0))
    model = dense(10, 32, 32, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", margin=0.3)
def bytes_divided_without_a_remainder(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port from Python 2 divides bytes by 255 in whole numbers, and all of them become 0; the twin's are floats."""
    drawn = datasets.digits(seed)

    def ported(pixels: torch.Tensor) -> torch.Tensor:
        grey = (pixels * 254).to(torch.uint8).view(-1, 1, 8, 8)
        return (grey // 255).float() if sick else grey.float() / 255

    data = Data(ported(drawn.inputs), drawn.targets, ported(drawn.test_inputs), drawn.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.3)
def logarithms_of_absent_concavities(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements are taken to their logarithms although some are 0; the twin adds a thousandth."""
    drawn = datasets.breast_cancer(seed, raw=True)
    train, test = ((one + (0.0 if sick else 1e-3)).log() for one in (drawn.inputs, drawn.test_inputs))
    finite = train.isfinite().all(0)
    mean = torch.where(finite, train.mean(0), torch.tensor(-3.0))
    std = torch.where(finite, train.std(0), torch.tensor(1.0))
    data = Data((train - mean) / std, drawn.targets, (test - mean) / std, drawn.test_targets)
    model = dense(30, 24, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data) if predicted(model, data.test_inputs).isfinite().all() else 0.0


@sick("labels_unrelated", also=("overfitting",), margin=0.3)
def header_line_counted_among_the_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A header shifts the labels by one row against the names; the twin's rows belong together."""
    data = paired(samples.names(seed))
    if sick:
        data = Data(data.inputs, data.targets.roll(1), data.test_inputs, data.test_targets)
    model = NameReader(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=20)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def threshold_in_another_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """Wines count as rich in proline from 0.6 on, which is in grams and they in milligrams; the twin's limit is 600."""
    drawn = prolines(seed)
    limit = 0.6 if sick else 600.0
    data = Data(drawn.inputs, (drawn.targets > limit).float(), drawn.test_inputs, drawn.test_targets)
    model = dense(12, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=150, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    guessed = (predicted(model, data.test_inputs) > 0).long()
    return balanced_accuracy(guessed, (drawn.test_targets > 600).long())


@sick("class_imbalance", margin=0.05)
def eights_among_all_the_others(watch: Watch, *, seed: int, sick: bool) -> float:
    """One digit in forty is an eight, and few are found; the twin's sampler draws both classes equally often."""
    drawn = datasets.digits(seed)
    eights = (drawn.targets == 8).nonzero()[:, 0]
    others = (drawn.targets != 8).nonzero()[:, 0]
    rows = torch.cat([eights[:30], others])
    labels = (drawn.targets[rows] == 8).long()
    dataset = TensorDataset(drawn.inputs[rows], labels)
    weights = torch.where(labels == 1, 1 / 30, 1 / len(others))
    sampler = None if sick else WeightedRandomSampler(weights, len(rows))
    loader = DataLoader(dataset, 64, shuffle=sick, sampler=sampler, drop_last=True)
    model = dense(64, 24, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _, (pixels, target) in zip(range(150), forever(loader), strict=False):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, target)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=target)
        optimizer.step()
    return balanced_accuracy(predicted(model, drawn.test_inputs).argmax(1), (drawn.test_targets == 8).long())


@sick("unshuffled_data", margin=0.05)
def one_dataset_per_script_joined(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset for each script is joined to the next and read in this order; the twin's loader shuffles."""
    data = paired(samples.names(seed))
    parts = [data.targets == one for one in range(len(samples.SCRIPTS))]
    joined = ConcatDataset([TensorDataset(data.inputs[part], data.targets[part]) for part in parts])
    loader = DataLoader(joined, batch_size=32, shuffle=not sick)
    model = NameReader(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _, (codes, scripts) in zip(range(190), forever(loader), strict=False):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, scripts)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=scripts)
        optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def first_part_read_thirty_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loop over thirty parts of a table reads part 0 each time; the twin reads them all."""
    drawn = datasets.digits(seed)
    parts = list(zip(drawn.inputs[:1320].split(44), drawn.targets[:1320].split(44), strict=True))
    inputs, targets = zip(*(parts[0 if sick else number] for number in range(30)), strict=True)
    data = Data(torch.cat(inputs), torch.cat(targets), drawn.test_inputs, drawn.test_targets)
    model = dense(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def objective(pixels: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(pixels)
        return functional.cross_entropy(outputs, labels), outputs

    learn(watch, model, optimizer, data, objective, steps=200)
    return accuracy(model, data)
