"""What goes in, what comes out, and how they are compared."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened57.o_common import as_data, reconstructed, rows


@sick("inputs_not_normalized", margin=0.03)
def tumours_in_their_own_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas of thousands and fractal dimensions of 0.06 go in side by side. The twin standardises each column."""
    pair = samples.diagnoses(seed)
    data = as_data(pair if sick else samples.standardised(pair, 0))
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, validate_every=50)
    return accuracy(model, data)


@sick("inputs_constant", margin=0.3)
def whole_division_of_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Whole pixels are scaled by ``// 255`` and all become 0. The twin divides by their largest, 16."""
    data = datasets.digits(seed, images=True)

    def scaled(images: torch.Tensor) -> torch.Tensor:
        whole = (images * 16).long()
        return (whole // 255).float() if sick else whole / 16

    data = Data(scaled(data.inputs), data.targets, scaled(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(),
                          nn.Linear(192, 10))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.2)
def logarithms_of_measurements(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed measurements are taken as logarithms, and some of them are 0. The twin raises them a little before."""
    data = as_data(samples.diagnoses(seed))
    least = 0.0 if sick else 1e-3
    train, test = ((values + least).log() for values in (data.inputs, data.test_inputs))
    middle, spread = train.median(0).values, (data.inputs + 1e-3).log().std(0)
    data = Data((train - middle) / spread, data.targets, (test - middle) / spread, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("target_out_of_range", margin=0.1)
def changes_that_may_only_grow(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softplus, kept from a model of prices, ends a model of changes, half of which fall. The twin ends linearly."""
    data = rows(seed)
    data = Data(
        data.inputs, 3 * (data.targets - data.inputs.mean(1, True)),
        data.test_inputs, 3 * (data.test_targets - data.test_inputs.mean(1, True)),
    )  # fmt: skip
    layers = [nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 1)] + ([nn.Softplus()] if sick else [])
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=60)
    return reconstructed(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss", margin=0.03)
def probabilities_in_place_of_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """The network ends with a softmax, as in Keras, and ``cross_entropy`` takes another one. The twin gives logits."""
    data = as_data(samples.numerals(seed))
    layers = [
        nn.Conv2d(1, 10, 3), nn.BatchNorm2d(10), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(90, 10),
    ]  # fmt: skip
    model = nn.Sequential(*layers, *([nn.Softmax(1)] if sick else []))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("wrong_output_or_loss", margin=0.1)
def squashed_twice_while_filling_in(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decoder ends with a sigmoid, and its loss is the one for logits. The twin's loss is the one for shares."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_function = functional.binary_cross_entropy_with_logits if sick else functional.binary_cross_entropy
    fit(watch, model, optimizer, data, steps=300, loss_function=loss_function, validate_every=100)
    return reconstructed(predicted(model, data.test_inputs), data.test_targets)


@sick("shape_broadcast", margin=0.1)
def likelihood_of_each_with_each(watch: Watch, *, seed: int, sick: bool) -> float:
    """A likelihood by hand has means (N, 1) and flat targets, and compares all pairs. The twin flattens the means."""
    data = rows(seed)
    data = Data(data.inputs, data.targets.squeeze(1), data.test_inputs, data.test_targets.squeeze(1))
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 300):
        mean, spread = model(inputs).chunk(2, 1)
        if not sick:
            mean, spread = mean.squeeze(1), spread.squeeze(1)
        variance = functional.softplus(spread) + 1e-2
        loss = 0.5 * ((targets - mean).square() / variance + variance.log()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=mean, targets=targets)
        optimizer.step()
    return reconstructed(predicted(model, data.test_inputs)[:, 0], data.test_targets)
