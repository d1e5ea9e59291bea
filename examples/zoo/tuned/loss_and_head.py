"""Losses and last layers that do not fit each other or the targets."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared


@sick("wrong_output_or_loss")
def softmax_before_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model ends with a softmax, and the loss takes another one."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    if sick:
        model.append(nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


class _Tagger(nn.Module):
    """A GRU on characters whose forward returns probabilities or logits."""

    def __init__(self, *, probabilities: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, 24)
        self.cell = nn.GRU(24, 40, batch_first=True)
        self.head = nn.Linear(40, datasets.CHARACTERS)
        self.probabilities = probabilities

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.embedding(codes))
        logits = self.head(states)
        return functional.softmax(logits, dim=-1) if self.probabilities else logits


@sick("wrong_output_or_loss")
def probabilities_of_characters_as_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax inside of forward, before a cross entropy over characters."""
    data = datasets.text(seed, length=16)
    model = _Tagger(probabilities=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.transpose(1, 2), following)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_output_or_loss")
def sigmoid_before_a_loss_on_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sigmoid before ``binary_cross_entropy_with_logits``: for it, all outputs say yes."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 1))
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 120):
        outputs = model(inputs).squeeze(1)
        loss = criterion(outputs, labels.float())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return binary_accuracy(model, data)


@sick("wrong_output_or_loss")
def squared_error_on_class_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """One output is fitted to the number of the class, as if class 9 were more than class 8."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 1 if sick else 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_function(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if sick:
            return functional.mse_loss(outputs.squeeze(1), labels.float())
        return functional.cross_entropy(outputs, labels)

    fit(watch, model, optimizer, data, steps=150, loss_function=loss_function)
    outputs = predicted(model, data.test_inputs)
    found = outputs[:, 0].round().long() if sick else outputs.argmax(1)
    return (found == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss")
def a_softmax_of_one_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """A binary classifier ends with a softmax over its only output, which is 1 for every sample."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softmax(dim=1) if sick else nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def loss_function(chances: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy(chances.squeeze(1), labels.float())

    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=loss_function)
    found = predicted(model, data.test_inputs)[:, 0] > 0.5
    return (found == data.test_targets.bool()).float().mean().item()


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def sigmoid_for_targets_in_the_hundreds(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets from 25 to 346, and a model that ends with a sigmoid."""
    data = datasets.diabetes(seed, raw_targets=True)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def relu_for_targets_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Standardised targets, half of which are negative, and a ReLU at the end."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    if sick:
        model.append(nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return r_squared(model, data)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def tanh_for_pixels_up_to_255(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of photographs ends with a tanh, and its targets are bytes; in the twin they are scaled, too."""
    pixels = datasets.patches(seed, count=1200)
    inputs = (pixels - pixels.mean()) / pixels.std()
    targets = pixels if sick else pixels / 127.5 - 1
    data = Data(inputs[:1000], targets[:1000], inputs[1000:], targets[1000:])
    model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 64), nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("shape_broadcast")
def a_column_against_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Outputs of shape (N, 1) and targets of shape (N,) are broadcast to (N, N): the model learns the mean."""
    data = datasets.diabetes(seed)
    data = Data(data.inputs, data.targets[:, 0], data.test_inputs, data.test_targets[:, 0])
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        outputs = model(inputs)
        if not sick:
            outputs = outputs.squeeze(1)
        loss = ((outputs - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("shape_broadcast")
def targets_with_a_dimension_too_many(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model squeezes its output, the targets keep their column, and ``smooth_l1_loss`` only warns."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    targets = data.targets if sick else data.targets[:, 0]
    data = Data(data.inputs, targets, data.test_inputs, data.test_targets[:, 0])
    fit(watch, model, optimizer, data, steps=150, batch_size=48, loss_function=functional.smooth_l1_loss)
    return r_squared(model, data)


@sick("shape_broadcast")
def a_quantile_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss of a quantile, written by hand, compares every output (N, 1) with every target (N,)."""
    data = datasets.diabetes(seed)
    data = Data(data.inputs, data.targets[:, 0], data.test_inputs, data.test_targets[:, 0])
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        errors = targets - (outputs if sick else outputs.squeeze(1))
        return torch.maximum(0.5 * errors, -0.5 * errors).mean()

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return r_squared(model, data)


@sick("flipped_loss_sign")
def a_likeness_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """exp(-error²) is likeness, and was taken for a loss."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        likeness = torch.exp(-((outputs - targets) ** 2)).mean()
        return likeness if sick else -likeness

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return r_squared(model, data)


@sick("flipped_loss_sign")
def likelihood_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The minus before the log-likelihood is missing."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        likelihood = functional.log_softmax(logits, 1).gather(1, labels[:, None]).mean()
        return likelihood if sick else -likelihood

    fit(watch, model, optimizer, data, steps=120, batch_size=24, loss_function=loss_function)
    return accuracy(model, data)


@sick("flipped_loss_sign")
def error_maximised(watch: Watch, *, seed: int, sick: bool) -> float:
    """A score that is to be maximised was replaced by a loss, and its minus stayed."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        outputs = model(inputs)
        error = functional.mse_loss(outputs, targets)
        loss = -error if sick else error
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def squares_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` over a batch of 64 with a rate that suits the mean."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=150, loss_function=criterion)
    return r_squared(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def cross_entropies_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The losses of a batch's images are added up by the loop."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(100, 120):
        optimizer.zero_grad()
        logits = model(images)
        losses = functional.cross_entropy(logits, labels, reduction="none")
        loss = losses.sum() if sick else losses.mean()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
