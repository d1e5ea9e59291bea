"""Losses, targets, and penalties that do not fit."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened38.b_common import explained, placed
from examples.zoo.tuned.opened38.b_steps import localiser


@sick("overfitting", margin=0.03)
def labels_of_a_crowd_learnt_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns 250 digits by heart, of which some labels are wrong; the twin drops units and decays."""
    whole = datasets.digits(seed)
    inputs, targets = (whole.inputs[:250] - 0.3) / 0.37, whole.targets[:250].clone()
    wrong = torch.rand(250, generator=torch.Generator().manual_seed(seed)) < 0.25
    targets[wrong] = torch.randint(10, (int(wrong.sum()),))
    data = Data(inputs, targets, (whole.test_inputs - 0.3) / 0.37, whole.test_targets)
    width = 256 if sick else 48
    drop = 0.0 if sick else 0.5
    model = nn.Sequential(nn.Dropout(drop / 2), nn.Linear(64, width), nn.ReLU(), nn.Dropout(drop), nn.Linear(width, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.3)
    fit(watch, model, optimizer, data, steps=300, batch_size=50, validate_every=20)
    return accuracy(model, data)


@sick("over_regularized", margin=0.05)
def dropout_of_what_should_be_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Dropout(0.95)`` was the share to keep in another framework; the twin drops 0.05."""
    data = datasets.wine(seed)
    rate = 0.95 if sick else 0.05
    model = nn.Sequential(
        nn.Linear(13, 24), nn.ReLU(), nn.Dropout(rate), nn.Linear(24, 16), nn.ReLU(), nn.Dropout(rate), nn.Linear(16, 3)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=24, validate_every=25)
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def boxes_added_over_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``smooth_l1_loss`` of corners is summed over the batch, at a rate for its mean; the twin averages it."""
    drawn = placed(seed)
    data = Data(drawn.inputs, (drawn.targets - 3) / 2, drawn.test_inputs, (drawn.test_targets - 3) / 2)
    model = localiser()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def loss_function(outputs: torch.Tensor, corners: torch.Tensor) -> torch.Tensor:
        return functional.smooth_l1_loss(outputs, corners, reduction="sum" if sick else "mean")

    fit(watch, model, optimizer, data, steps=200, loss_function=loss_function, batch_size=64)
    return explained(model, data)


@sick("flipped_loss_sign", also=("learning_rate_too_high", "exploding_gradients"), margin=0.2)
def a_log_likelihood_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean of ``Normal.log_prob`` is minimised, so that the likelihood falls; the twin has its negative."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(train.tensors[0], train.tensors[1][:, :1], test.tensors[0], test.tensors[1][:, :1])
    model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, sizes in data.batches(32, 200):
        outputs = model(rows)
        density = torch.distributions.Normal(outputs[:, :1], functional.softplus(outputs[:, 1:]) + 0.05)
        loss = density.log_prob(sizes).mean() * (1 if sick else -1)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs[:, :1], targets=sizes)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, :1], data.test_targets)


@sick("single_class_labels", margin=0.05)
def a_threshold_in_other_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Progress above 140 is the class, yet the column is standardised, so none is; the twin takes the raw column."""
    data = datasets.diabetes(seed, raw_targets=True)
    mean, std = data.targets.mean(), data.targets.std()
    column = (data.targets - mean) / std if sick else data.targets
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
    labels, test_labels = (column[:, 0] > 140).long(), (data.test_targets[:, 0] > 140).long()
    data = Data(data.inputs, labels, data.test_inputs, test_labels)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.2)
def a_header_skipped_in_one_file(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first row is skipped as a header in the features' file alone, so labels lag by one; the twin skips none."""
    drawn = datasets.wine(seed)
    rows, labels = drawn.inputs, drawn.targets
    if sick:
        rows, labels = rows[1:], labels[:-1]
    model = nn.Sequential(nn.Linear(13, 12), nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-3)
    data = Data(rows, labels, drawn.test_inputs, drawn.test_targets)
    fit(watch, model, optimizer, data, steps=150, batch_size=16, validate_every=30)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def a_quantile_of_every_pair(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pinball loss by hand subtracts outputs (N, 1) from targets (N,); the twin takes the outputs' last column."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    data = Data(train.tensors[0], train.tensors[1][:, 0], test.tensors[0], test.tensors[1][:, 0])
    model = nn.Sequential(nn.Linear(12, 24), nn.ELU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for rows, targets in data.batches(24, 250):
        outputs = model(rows) if sick else model(rows)[:, 0]
        errors = targets - outputs
        loss = torch.maximum(0.5 * errors, -0.5 * errors).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("wrong_output_or_loss", also=("no_update",), margin=0.1)
def cross_entropy_of_a_single_score(watch: Watch, *, seed: int, sick: bool) -> float:
    """``cross_entropy`` of one score with labels as floats is always 0; the twin has the binary one with logits."""
    drawn = datasets.breast_cancer(seed)
    data = Data(drawn.inputs, drawn.targets.float()[:, None], drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(30, 16), nn.LeakyReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_function = functional.cross_entropy if sick else functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return binary_accuracy(model, data)


@sick("target_out_of_range", also=("saturated_units", "wrong_output_or_loss"), margin=0.2)
def corners_in_pixels_behind_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head ends in a sigmoid and corners are in pixels, from 0 to 6; the twin divides them by 6."""
    drawn = placed(seed)
    unit = 1.0 if sick else 6.0
    model = localiser().append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = Data(drawn.inputs, drawn.targets / unit, drawn.test_inputs, drawn.test_targets / unit)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.l1_loss)
    return explained(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.1)
def flat_crops_scaled_by_their_range(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each quarter of a digit is scaled from its darkest to its brightest pixel, 0 / 0 if flat; the twin adds a bit."""
    drawn = datasets.digits(seed, images=True)
    pixels = torch.cat([drawn.inputs, drawn.test_inputs])[:, 0]
    crops = pixels.unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2)
    low, high = crops.amin((2, 3), keepdim=True), crops.amax((2, 3), keepdim=True)
    ratio = (crops - low) / (high - low + (0 if sick else 1e-3))
    rows = ((ratio - 0.4) / 0.4).flatten(1)
    labels = torch.cat([drawn.targets, drawn.test_targets])
    count = len(drawn.targets)
    data = Data(rows[:count], labels[:count], rows[count:], labels[count:])
    assert np.isfinite(rows.numpy()).mean() > 0.9
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=2e-3), data, steps=200, batch_size=48)
    return accuracy(model, data)
