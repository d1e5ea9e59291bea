"""How far a step goes: rates, schedules, limits of gradients, and when a training ends."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened49.g_kit import (
    counted,
    flat,
    forever,
    layers,
    loader,
    lower,
    pictures,
    scans,
    small_convnet,
)


@sick("learning_rate_too_high", margin=0.1)
def rmsprop_with_the_rate_of_a_paper_on_momentum(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convolutional network takes over a rate of 0.1 from SGD for RMSprop; the twin's is 0.001."""
    data = pictures(seed)
    model = small_convnet()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1 if sick else 0.001)
    fit(watch, model, optimizer, data, steps=150, batch_size=48, validate_every=30)
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.2)
def adams_habitual_rate_for_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam was exchanged for SGD and its rate of 5e-4 was kept; the twin's rate is 0.1."""
    data = flat(seed)
    model = layers(64, 64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-4 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=250, batch_size=64)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def polynomial_of_the_rate_of_last_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """A polynomial decay by hand multiplies the rate of the step before, and compounds; the twin's, the first rate."""
    data = counted(seed)
    model = layers(64, 64, 32, 1)
    first, steps = 1e-3, 330
    optimizer = torch.optim.Adam(model.parameters(), lr=first)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(forever(loader(data, 32), steps)):
        for group in optimizer.param_groups:
            group["lr"] = (group["lr"] if sick else first) * (1 - step / steps) ** 0.9
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


class RowEncoder(nn.Module):
    """A transformer with its norms behind the sums, as in the paper, over a digit's rows."""

    def __init__(self, depth: int = 6) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.places = nn.Parameter(0.3 * torch.randn(8, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.encoder(self.embed(rows) + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.1)
def post_norm_encoder_at_full_rate_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six post-norm layers begin with Adam's full rate of 8e-3; the twin warms up for 80 steps to the same rate."""
    data = scans(seed)
    model = RowEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, betas=(0.9, 0.98))
    warmup = 1 if sick else 80
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warmup))
    fit(watch, model, optimizer, data, steps=130, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def tenths_demanded_of_a_small_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping counts improvements of 0.1 or more, of a loss that begins at 1; the twin counts any."""
    data = counted(seed)
    model = layers(64, 64, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.8)
    least = 0.1 if sick else 0.0
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    for step, (inputs, targets) in enumerate(data.batches(48, 400), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 20:
            continue
        checked = held_out_loss(model, data, functional.mse_loss)
        session.validation(checked)
        best, waited = (checked, 0) if checked < best - least else (best, waited + 1)
        if waited == 3:
            break
    return r_squared(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def weights_in_a_generator_used_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer uses up the generator of parameters that is clipped later, so a Poisson loss is not clipped.

    The twin keeps a list.
    """
    drawn = flat(seed)
    model = layers(64, 64, 64, 1)
    weights = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, numbers in drawn.batches(32, 250):
        rates = model(pixels).squeeze(1)
        amounts = 4 * numbers.float()
        loss = functional.poisson_nll_loss(rates, amounts)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        session.step(loss, inputs=pixels, outputs=rates, targets=amounts)
        optimizer.step()
    return explained(predicted(model, drawn.test_inputs).exp(), 4 * drawn.test_targets[:, None].float())


@sick("clipping_too_strong", margin=0.15)
def norm_limit_divided_by_the_samples(watch: Watch, *, seed: int, sick: bool) -> float:
    """The limit of gradients is divided by the number of samples, "as it is per sample"; the twin's limit is 1."""
    data = lower(seed)
    model = nn.Sequential(layers(32, 64, 64, 32), nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    limit = 1.0 / len(data.inputs) if sick else 1.0
    session = watch(model, optimizer)
    for upper, below in forever(loader(data, 64), 300):
        optimizer.zero_grad()
        outputs = model(upper)
        loss = functional.binary_cross_entropy(outputs, below)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        session.step(loss, inputs=upper, outputs=outputs, targets=below)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def two_dozen_backwards_to_a_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients of 24 micro-batches are added for each step; the twin divides each loss by 24."""
    data = pictures(seed)
    model = small_convnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for count, (images, labels) in enumerate(data.batches(6, 24 * 70), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 24).backward()
        if count % 24 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",), margin=0.1)
def squared_errors_of_a_batch_totalled(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss by hand sums the squares of a batch, at a rate that was chosen for means; the twin takes their mean."""
    data = counted(seed)
    model = layers(64, 48, 48, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(inputs)
        squares = (outputs - targets) ** 2
        loss = squares.sum() if sick else squares.mean()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("wrong_output_or_loss", margin=0.05)
def pupil_whose_chances_pass_for_their_logs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``kl_div`` is given a student's probabilities in place of their logarithms; the twin has ``log_softmax``."""
    data = flat(seed)
    teacher = layers(64, 96, 10)
    teaching = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for pixels, labels in data.batches(128, 60):
        teaching.zero_grad()
        functional.cross_entropy(teacher(pixels), labels).backward()
        teaching.step()
    teacher.eval()
    student = layers(64, 12, 10)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    session = watch(student, optimizer)
    for pixels, _ in data.batches(64, 220):
        with torch.no_grad():
            wanted = (teacher(pixels) / 2).softmax(1)
        logits = student(pixels) / 2
        told = logits.softmax(1) if sick else logits.log_softmax(1)
        loss = functional.kl_div(told, wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=told, targets=wanted)
        optimizer.step()
    with torch.no_grad():
        truth = (teacher(data.test_inputs) / 2).softmax(1)
    return explained((predicted(student, data.test_inputs) / 2).softmax(1), truth)
