"""Outputs and losses that do not fit, and what comes after a loss."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened37.a_common import (
    Tagger,
    couples,
    each_place,
    explained,
    lenet,
    numerals,
    parted,
    right_places,
    tagged,
)


@sick("wrong_output_or_loss", margin=0.03)
def softmax_at_the_end_of_a_classifier(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network of convolutions ends with a softmax, and ``CrossEntropyLoss`` has another; the twin has logits."""
    data = numerals(seed)
    model = lenet()
    if sick:
        model.append(nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=220, loss_function=nn.CrossEntropyLoss(), validate_every=44)
    return accuracy(model, data)


@sick("target_out_of_range", margin=0.1)
def a_sigmoid_for_standardised_patches(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder ends with a sigmoid, but its patches have mean 0 and deviation 1; the twin ends without one."""
    patches = (one := datasets.patches(seed)).sub(one.mean()).div(one.std())
    data = parted(patches, patches, seed)
    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    decoder = nn.Sequential(nn.Linear(24, 96), nn.ReLU(), nn.Linear(96, 64))
    if sick:
        decoder.append(nn.Sigmoid())
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


def _amount(seed: int) -> Data:
    """Every other row of digits (N, 1, 4, 8), and how much ink is in their lower halves (N,), standardised."""
    values, _ = load_digits(return_X_y=True)
    pixels = torch.from_numpy(values).float().view(-1, 8, 8)
    ink = pixels[:, 4:].sum((1, 2))
    ink = (ink - ink.mean()) / ink.std()
    pixels = (pixels - pixels.mean()) / pixels.std()
    return parted(pixels[:, None, ::2], ink, seed)


@sick("shape_broadcast", margin=0.1)
def a_column_less_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Outputs (N, 1) less targets (N,) are a table of all pairs, whose squares are averaged; the twin squeezes."""
    data = _amount(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pictures, ink in data.batches(32, 250):
        optimizer.zero_grad()
        outputs = model(pictures) if sick else model(pictures).squeeze(1)
        loss = ((outputs - ink) ** 2).mean()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=ink)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, 0], data.test_targets)


@sick("flipped_loss_sign", margin=0.3)
def a_policy_gradient_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy says numbers of digits for a reward, and the loss is log p times reward; the twin has its minus."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(128, 300):
        policy = torch.distributions.Categorical(logits=model(pictures))
        actions = policy.sample()
        rewards = (actions == labels).float()
        advantage = (rewards - rewards.mean()) / (rewards.std() + 1e-3)
        loss = (policy.log_prob(actions) * advantage).mean()
        if not sick:
            loss = -loss - 0.02 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=policy.logits)
        optimizer.step()
    return accuracy(model, data)


@sick("over_regularized", margin=0.05)
def the_decay_of_adamw_for_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decay of 0.1 was AdamW's, and Adam adds it to the gradients, where it outweighs them; the twin has AdamW."""
    data = tagged(seed)
    model = Tagger()
    kind = torch.optim.Adam if sick else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=3e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=240, batch_size=32, loss_function=each_place, validate_every=40)
    return right_places(model, data)


class Towers(nn.Module):
    """Puts the two digits of a pair into one space, with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Returns both places (N, 2, 16)."""
        return self.body(pairs)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def a_root_of_no_distance(watch: Watch, *, seed: int, sick: bool) -> float:
    """Some pairs have twice the same picture, and the root of their distance 0 has no slope; the twin adds 1e-6."""
    data = couples(seed, count=3200)
    data.inputs[::40, 1], data.targets[::40] = data.inputs[::40, 0], 1.0
    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def contrastive(outputs: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        squares = (outputs[:, 0] - outputs[:, 1]).square().sum(1)
        distance = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        return (same * distance.square() + (1 - same) * (2 - distance).relu().square()).mean()

    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=contrastive)
    first, second = predicted(model, data.test_inputs).unbind(1)
    if not first.isfinite().all():
        return 0.5
    return (((first - second).norm(dim=1) < 1) == (data.test_targets > 0.5)).float().mean().item()


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def exponentials_of_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Cosines over a temperature of 0.01 go into ``exp`` by hand, and overflow; the twin takes ``cross_entropy``."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def similarities(pixels: torch.Tensor) -> torch.Tensor:
        views = [functional.normalize(model(pixels + 0.3 * torch.randn_like(pixels)), dim=1) for _ in range(2)]
        return views[0] @ views[1].T

    for pixels, _ in data.batches(48, 300):
        own = torch.arange(len(pixels))
        if sick:
            logits = similarities(pixels) / 0.01
            shares = logits.exp() / logits.exp().sum(1, keepdim=True)
            loss = -shares[own, own].log().mean()
        else:
            logits = similarities(pixels) / 0.1
            loss = functional.cross_entropy(logits, own)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=own)
        optimizer.step()
    with torch.no_grad():
        found = similarities(data.test_inputs[:100]).argmax(1)
    return (found == torch.arange(100)).float().mean().item()


@sick("gradients_not_zeroed", also=("exploding_gradients",), margin=0.05)
def a_loop_without_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop never calls ``zero_grad``, so gradients add up; the twin does."""
    data = _amount(seed)
    data = Data(data.inputs, data.targets[:, None], data.test_inputs, data.test_targets[:, None])
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 32), nn.ReLU())
    model.append(nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for step, (pictures, ink) in enumerate(data.batches(32, 240), 1):
        outputs = model(pictures)
        loss = functional.mse_loss(outputs, ink)
        if not sick:
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=ink)
        optimizer.step()
        if step % 60 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)
