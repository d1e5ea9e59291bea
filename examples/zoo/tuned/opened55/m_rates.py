"""Rates, schedules, clipping and the number of steps."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened55.m_common import (
    counted_lines,
    explained,
    flat_numerals,
    half_digits,
    mlp,
    row_numerals,
    worst,
)


class RowAttention(nn.Module):
    """Attention over the rows of a digit, and a layer on their mean."""

    def __init__(self, depth: int, width: int = 32, *, norm_first: bool = True) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.1)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        hidden = self.embed(rows) + self.places
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden.mean(1))


@sick("learning_rate_too_high")
def sgd_rate_kept_after_moving_to_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate 0.1 was left from SGD when attention over rows moved to Adam; the twin takes 0.002."""
    data = row_numerals(seed)
    model = RowAttention(2, norm_first=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def fine_tuning_rate_for_a_fresh_network(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW has the 2e-5 of a fine-tuning recipe, but nothing was pretrained; the twin takes 2e-3."""
    data = counted_lines(seed)
    model = mlp(96, 64, 32, 6, activation=nn.GELU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 2e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=240, batch_size=32, validate_every=40)
    return accuracy(model, data)


class Block(nn.Module):
    """Two layers, whose outcome is added to the input and then normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the normalised sum."""
        return self.norm(hidden + self.layers(hidden))


@sick("missing_warmup", also=("learning_rate_too_high",))
def norms_after_sums_met_by_the_whole_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight blocks with the norm after the sum begin at Adam's full rate; the twin's rate rises for 100 steps first."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 48), *(Block(48) for _ in range(8)), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, betas=(0.9, 0.98))
    steps, warm = 250, 1 if sick else 100
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm) * max(0.02, 1 - step / steps)
    )
    fit(watch, model, optimizer, data, steps=steps, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@sick("schedule_collapsed")
def plateau_asked_after_every_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """ReduceLROnPlateau sees each batch's noisy loss rather than the validation's, so the rate soon is nothing."""
    data = half_digits(seed)
    model = mlp(32, 96, 96, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.2, patience=2)
    session = watch(model, optimizer)
    for step, (upper, lower) in enumerate(data.batches(32, 300), 1):
        optimizer.zero_grad()
        outputs = model(upper)
        loss = functional.mse_loss(outputs, lower)
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
        if sick:
            scheduler.step(loss.item())
        if step % 30 == 0:
            value = held_out_loss(model, data, functional.mse_loss)
            session.validation(value)
            if not sick:
                scheduler.step(value)
    return explained(model, data)


@sick("stopped_too_early")
def patience_with_a_large_delta(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping wants 0.05 less of a loss that falls by less in each check; the twin wants any improvement."""
    data = worst(seed)
    model = mlp(10, 48, 48, 10, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
    session = watch(model, optimizer)
    best, waited, delta, patience = float("inf"), 0, 0.05 if sick else 0.0, 3
    for step, (means, worsts) in enumerate(data.batches(32, 400), 1):
        optimizer.zero_grad()
        outputs = model(means)
        loss = functional.mse_loss(outputs, worsts)
        loss.backward()
        session.step(loss, inputs=means, outputs=outputs, targets=worsts)
        optimizer.step()
        if step % 10 == 0:
            value = held_out_loss(model, data, functional.mse_loss)
            session.validation(value)
            if value < best - delta:
                best, waited = value, 0
            else:
                waited += 1
            if waited >= patience:
                break
    return explained(model, data)


class Recurrence(nn.Module):
    """A ReLU recurrence that is written by hand, over the 64 pixels in groups of four."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(4, 40), nn.Linear(40, 10)
        self.again = nn.Parameter(torch.empty(40, 40))
        nn.init.orthogonal_(self.again, gain=scale)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        state = pixels.new_zeros(len(pixels), 40)
        for group in pixels.view(len(pixels), -1, 4).unbind(1):
            state = torch.relu(self.enter(group) + state @ self.again.T)
        return self.head(state)


@sick("exploding_gradients", also=("poor_initialization",))
def recurrence_that_grows_over_the_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The matrix between the states is orthogonal times 2, so that 16 steps blow all up; the twin's gain is 1."""
    data = flat_numerals(seed)
    model = Recurrence(2.0 if sick else 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fit(watch, model, optimizer, data, steps=300, batch_size=32)
    return accuracy(model, data)


class LogLink(nn.Module):
    """Gives values above 0: the exponential of a network."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the expected values."""
        return self.body(rows).exp()


@sick("clipping_ineffective", also=("exploding_gradients",))
def parameters_used_up_before_clipping(watch: Watch, *, seed: int, sick: bool) -> float:
    """One iterator goes to the optimizer and to the clipping, which finds it empty; the twin has a list."""
    train, test = samples.standardised(samples.proline(seed), 0)
    data = Data(train.tensors[0], train.tensors[1] / 100, test.tensors[0], test.tensors[1] / 100)
    model = LogLink(mlp(12, 48, 1))
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(16, 200):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return explained(model, data)


@sick("clipping_too_strong")
def clip_limit_copied_from_another_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD's gradients are clipped to a norm of 0.001, a thousandth of what they are; the twin clips at 5."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 5.0)
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged")
def sixteen_backwards_and_no_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of sixteen small batches are added, and no loss is divided by sixteen as the twin's are."""
    data = flat_numerals(seed)
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    session = watch(model, optimizer)
    for index, (pixels, labels) in enumerate(data.batches(8, 320 * 4), 1):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 16).backward()
        if index % 16 == 0:
            session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("vanishing_gradients")
def ten_logistic_layers_that_compress(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder has ten layers of sigmoids, through which no gradient comes; the twin has ELUs."""
    data = flat_numerals(seed)
    data = type(data)(data.inputs, data.inputs, data.test_inputs, data.test_inputs)
    sizes = (64, 48, 48, 40, 32, 24, 32, 40, 48, 48, 64)
    model = mlp(*sizes, activation=nn.Sigmoid if sick else nn.ELU)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(model, data)
