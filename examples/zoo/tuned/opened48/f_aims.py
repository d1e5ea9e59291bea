"""Losses and heads, penalties, and what a batch may do to its samples."""

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened48.f_kit import centred, data_of, mlp


@sick("wrong_output_or_loss", margin=0.2)
def cross_entropy_of_a_single_logit(watch: Watch, *, seed: int, sick: bool) -> float:
    """A head with one logit gets a cross-entropy over its one class, which is always 0; the twin's is binary."""
    drawn = datasets.breast_cancer(seed)
    data = Data(drawn.inputs, drawn.targets.float()[:, None], drawn.test_inputs, drawn.test_targets.float()[:, None])
    model = mlp(30, 24, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_function = functional.cross_entropy if sick else functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=loss_function)
    right = (predicted(model, data.test_inputs) > 0) == (data.test_targets > 0.5)
    positive = data.test_targets > 0.5
    return ((right[positive].float().mean() + right[~positive].float().mean()) / 2).item()


@sick("wrong_output_or_loss", margin=0.1)
def softmax_layer_left_at_the_end(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port from Keras kept the softmax layer in front of ``CrossEntropyLoss``; the twin ends in logits."""
    data = data_of(samples.numerals(seed))
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 32), nn.ReLU())
    model.append(nn.Linear(32, 10))
    if sick:
        model.append(nn.Softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=nn.CrossEntropyLoss())
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def median_from_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A median regression subtracts outputs (N, 1) from targets (N,), which gives (N, N); the twin squeezes them."""
    drawn = datasets.diabetes(seed)
    data = Data(drawn.inputs, drawn.targets[:, 0], drawn.test_inputs, drawn.test_targets[:, 0])
    model = mlp(10, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 120):
        optimizer.zero_grad()
        outputs = model(inputs)
        if not sick:
            outputs = outputs.squeeze(1)
        errors = targets - outputs
        loss = torch.maximum(0.5 * errors, -0.5 * errors).mean()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def bandit_that_descends_its_reward(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy's surrogate, advantage times log-probability, is minimised as it stands; the twin negates it."""
    data = centred(datasets.digits(seed))
    policy = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(policy.parameters(), lr=4e-3)
    session = watch(policy, optimizer)
    for states, numbers in data.batches(128, 350):
        optimizer.zero_grad()
        logits = policy(states)
        drawn = Categorical(logits=logits)
        actions = drawn.sample()
        rewards = (actions == numbers).float()
        surrogate = ((rewards - rewards.mean()) * drawn.log_prob(actions)).mean()
        loss = surrogate if sick else -surrogate
        loss.backward()
        session.step(loss, inputs=states, outputs=logits)
        optimizer.step()
    return accuracy(policy, data)


@sick("over_regularized", margin=0.05)
def share_to_keep_taken_for_the_share_to_drop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``keep_prob=0.9`` was ported from TensorFlow 1 as ``Dropout(0.9)``; the twin drops a tenth."""
    data = centred(datasets.digits(seed))
    share = 0.9 if sick else 0.1
    model = nn.Sequential(
        nn.Linear(64, 48), nn.ReLU(), nn.Dropout(share), nn.Linear(48, 48), nn.ReLU(), nn.Dropout(share),
        nn.Linear(48, 32), nn.ReLU(), nn.Dropout(share), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, validate_every=50)
    return accuracy(model, data)


@sick("overfitting", margin=0.15)
def hundreds_of_units_for_a_small_cohort(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two wide layers learn a cohort of 150 patients by heart; the twin is narrow, with weight decay and dropout."""
    drawn = datasets.diabetes(seed)
    data = Data(drawn.inputs[:150], drawn.targets[:150], drawn.test_inputs, drawn.test_targets)
    if sick:
        model = mlp(10, 256, 256, 1)
    else:
        model = nn.Sequential(nn.Linear(10, 12), nn.Tanh(), nn.Dropout(0.3), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.3)
    fit(watch, model, optimizer, data, steps=300, batch_size=50, loss_function=functional.mse_loss, validate_every=15)
    return r_squared(model, data)


class Pooled(nn.Module):
    """Weighs the letters of a name by scores that are normalised along a dimension, or where torch takes it."""

    def __init__(self, dimension: int | None) -> None:
        super().__init__()
        self.dimension = dimension
        self.embed, self.mix = nn.Embedding(samples.LETTERS, 32), nn.Conv1d(32, 48, 3, padding=1)
        self.score, self.head = nn.Linear(48, 1), nn.Linear(48, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        letters = self.mix(self.embed(codes).transpose(1, 2)).relu().transpose(1, 2)
        return self.head((functional.softmax(self.score(letters), self.dimension) * letters).sum(1))


@sick("batch_mixing", margin=0.03)
def softmax_without_a_dimension(watch: Watch, *, seed: int, sick: bool) -> float:
    """``softmax`` of three dimensions takes the batch's if none is named; the twin names that of the letters."""
    data = data_of(samples.names(seed))
    model = Pooled(None if sick else 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    asked = zip(data.test_inputs, data.test_targets, strict=True)
    right = [predicted(model, codes[None])[0].argmax() == label for codes, label in asked]
    return torch.stack(right).float().mean().item()
