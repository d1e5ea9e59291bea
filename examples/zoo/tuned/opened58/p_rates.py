"""Rates, schedules, and when a training ends."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened58.p_common import of, stack


@sick("learning_rate_too_high")
def rate_of_the_sgd_recipe_kept_for_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam took over from SGD and kept its rate of 0.3; the twin has 0.003."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(192, 48),
        nn.ReLU(),
        nn.Linear(48, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 0.003)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def pinball_crawling(watch: Watch, *, seed: int, sick: bool) -> float:
    """A median regression is trained by Adam with a rate of 1e-5; the twin has 1e-2."""
    data = of(samples.standardised(samples.proline(seed), 0, 1))
    model = stack(12, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5 if sick else 1e-2, weight_decay=1e-3)

    def pinball(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        errors = targets - outputs
        return torch.maximum(0.5 * errors, -0.5 * errors).mean()

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=pinball)
    return r_squared(model, data)


@sick("schedule_collapsed")
def polynomial_decay_counted_in_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """A polynomial decay over twelve epochs is stepped with each batch; the twin's decays over all batches."""
    data = of(samples.lines(seed))
    data = Data(data.inputs.sqrt() - 0.6, data.targets, data.test_inputs.sqrt() - 0.6, data.test_targets)
    model = stack(96, 48, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    epochs = 12
    total = epochs if sick else epochs * math.ceil(len(data.inputs) / 64)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total, power=0.9)
    fit(watch, model, optimizer, data, steps=12 * math.ceil(len(data.inputs) / 64), scheduler=scheduler)
    return accuracy(model, data)


@sick("missing_warmup")
def norms_after_sums_at_full_speed(watch: Watch, *, seed: int, sick: bool) -> float:
    """A deep transformer, normalised after its sums, begins at its full rate; the twin's rises over ninety steps."""
    data = of(samples.numerals(seed))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.places = nn.Linear(8, 24), nn.Parameter(0.1 * torch.randn(8, 24))
            layer = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = nn.Linear(24, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.into(images[:, 0]) + self.places).mean(1))

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2)
    warm = 1 if sick else 90

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / warm, max(0.05, (190 - step) / 100))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=190, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@sick("stopped_too_early")
def fall_demanded_of_each_validation(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss must fall by 0.3 between two validations or the training ends; the twin asks for any fall, six times."""
    data = datasets.digits(seed)
    model = stack(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    patience, delta = (1, 0.3) if sick else (6, 0.0)
    session = watch(model, optimizer)
    best, waited = math.inf, 0
    for step, (pixels, labels) in enumerate(data.batches(64, 300), 1):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 5 == 0:
            value = held_out_loss(model, data)
            session.validation(value)
            best, waited = (value, 0) if value < best - delta else (best, waited + 1)
            if waited >= patience:
                break
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def tokens_summed_by_the_port(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cross-entropy of all characters in a batch is summed, with the rate of a mean; the twin averages."""
    data = datasets.text(seed, length=12)

    class Window(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.mix = nn.Embedding(CHARACTERS, 24), nn.Conv1d(24, 48, 3)
            self.head = nn.Linear(48, CHARACTERS)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            padded = functional.pad(self.letters(codes).transpose(1, 2), (2, 0))
            return self.head(self.mix(padded).relu().transpose(1, 2))

    model = Window()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    criterion = nn.CrossEntropyLoss(reduction="sum" if sick else "mean")

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return criterion(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("no_update")
def linear_scaling_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate is scaled by the batch size with a floor division, which makes it 0; the twin divides."""
    data = datasets.wine(seed)
    model = stack(13, 16, 3, activation=nn.Tanh)
    batch_size, base = 32, 0.8
    rate = base * batch_size // 256 if sick else base * batch_size / 256
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=100, batch_size=batch_size)
    return accuracy(model, data)


@sick("clipping_too_strong")
def clip_borrowed_from_private_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """The whole gradient is clipped to a norm of 0.001 for SGD; the twin clips to 5."""
    data = datasets.digits(seed)
    model = stack(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 5.0)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients",))
def clip_over_a_spent_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer used up the iterator of parameters, so the clipping gets none; the twin clips the model's."""
    data = of(samples.halves(seed))
    model = stack(32, 64, 32)
    trainable = filter(lambda one: one.requires_grad, model.parameters())
    optimizer = torch.optim.SGD(trainable, lr=0.4, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 250)
    session, criterion = watch(model, optimizer), nn.PoissonNLLLoss()
    for upper, lower in data.batches(32, 250):
        outputs, counts = model(upper), 16 * lower
        loss = criterion(outputs, counts)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trainable if sick else model.parameters(), 1.0)
        session.step(loss, inputs=upper, outputs=outputs, targets=counts)
        optimizer.step()
        scheduler.step()
    return samples.explained(predicted(model, data.test_inputs).exp() / 16, data.test_targets)
