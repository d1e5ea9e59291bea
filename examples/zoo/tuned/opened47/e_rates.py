"""How far the steps go: rates, schedules, warm-up, clipping, accumulation and when to stop."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened47.e_kit import letters, numerals, paired, themselves


@sick("learning_rate_too_high", margin=0.1)
def multiplier_of_the_head_taken_as_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head's group should get ten times the base rate and gets ``lr=10``; the twin multiplies."""
    data = numerals(seed, 1, 8, 8)
    body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    head = nn.Sequential(nn.Linear(256, 48), nn.ReLU(), nn.Linear(48, 10))
    model = nn.Sequential(body, head)
    base = 5e-3
    groups = [{"params": body.parameters()}, {"params": head.parameters(), "lr": 10.0 if sick else 10 * base}]
    fit(watch, model, torch.optim.SGD(groups, lr=base, momentum=0.9), data, steps=150)
    return accuracy(model, data)


class RowReader(nn.Module):
    """An encoder that reads the rows of a digit as tokens."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(0.1 * torch.randn(8, width))
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.encoder(self.embed(rows) + self.position).mean(1))


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.2)
def fine_tuning_rate_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """An encoder from scratch is trained at 2e-5, the rate of a tutorial on fine-tuning; the twin takes 2e-3."""
    data = numerals(seed, 8, 8)
    model = RowReader(32, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 2e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=50)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def polynomial_decay_over_epochs_stepped_by_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``PolynomialLR`` gets the number of epochs and takes a step with each batch; the twin gets the batches."""
    data = letters(seed)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 24), nn.Flatten(), nn.Linear(24 * 24, 64), nn.Tanh(),
                          nn.Linear(64, 8))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = -(-len(data.inputs) // 32)
    epochs = 14
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, epochs if sick else epochs * batches, power=1.0)
    fit(watch, model, optimizer, data, steps=epochs * batches, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def inverse_root_without_its_rise(watch: Watch, *, seed: int, sick: bool) -> float:
    """A post-norm encoder's inverse-root schedule lost its warm-up in a port; the twin warms up in 40 steps."""
    data = numerals(seed, 8, 8)
    model = RowReader(32, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.98))
    warm = 40

    def rate(step: int) -> float:
        decay = min(1.0, (warm / (step + 1)) ** 0.5)
        return decay if sick else min(decay, (step + 1) / warm)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    fit(watch, model, optimizer, data, steps=110, batch_size=16, scheduler=scheduler)
    return accuracy(model, data)


class Elman(nn.Module):
    """A ReLU recurrence, which answers from its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 24)
        self.recurrence = nn.RNN(24, 64, batch_first=True, nonlinearity="relu")
        nn.init.eye_(self.recurrence.weight_hh_l0)
        self.answer = nn.Linear(64, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.answer(self.recurrence(self.embed(codes))[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def used_up_generator_is_clipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """The generator of the parameters is used up by the optimizer, so nothing is clipped; the twin keeps a list."""
    data = letters(seed)
    model = Elman()
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.3, momentum=0.5)
    session = watch(model, optimizer)
    for codes, labels in data.batches(32, 300):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.25)
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def scaled_gradients_clipped_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to 1 while the scaler's factor is still in them; the twin unscales them before."""
    data = themselves(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        scaler.scale(loss).backward()
        if not sick:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def sixteen_windows_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen small batches of text are added to one update, whose rate was meant for their mean; the twin divides."""
    data = datasets.text(seed, length=12)
    model = nn.Sequential(nn.Embedding(datasets.CHARACTERS, 32), nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96),
                          nn.ReLU(), nn.Linear(96, datasets.CHARACTERS))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    every = 16
    session = watch(model, optimizer)
    for count, (codes, following) in enumerate(data.batches(4, every * 80), 1):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
        (loss if sick else loss / every).backward()
        if count % every == 0:
            session.step(loss, inputs=codes, outputs=outputs, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def denoiser_with_summed_errors(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's squared errors are summed, at a rate for their mean; the twin takes the mean."""
    digits = numerals(seed, 64)
    keep = torch.linspace(0.95, 0.2, 10)
    model = nn.Sequential(nn.Linear(65, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))

    def noisy(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        time, noise = torch.randint(10, (len(images), 1)), torch.randn_like(images)
        mixed = keep[time].sqrt() * images + (1 - keep[time]).sqrt() * noise
        return torch.cat([mixed, time / 10], 1), noise

    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for images, _ in digits.batches(64, 300):
        inputs, noise = noisy(images)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, noise, reduction="sum" if sick else "mean")
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=noise)
        optimizer.step()
    inputs, noise = noisy(digits.test_inputs)
    return explained(predicted(model, inputs), noise)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.05)
def gain_demanded_in_percent(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping's ``min_delta`` is read as a share but taken as a difference of losses; the twin's is 0.001."""
    data = letters(seed)
    model = Elman()
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4)
    min_delta, patience = 0.5 if sick else 0.001, 3
    best, waited = float("inf"), 0
    session = watch(model, optimizer)
    for step, (codes, labels) in enumerate(data.batches(32, 360), 1):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 15 == 0:
            validated = held_out_loss(model, data)
            session.validation(validated)
            improved = validated < best - min_delta
            best, waited = (validated, 0) if improved else (best, waited + 1)
            if waited == patience:
                break
    return accuracy(model, data)


class Additive(nn.Module):
    """A network with an own small one for each feature, whose answers are added."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.inner = nn.Conv1d(features, 16 * features, 1, groups=features)
        self.outer = nn.Conv1d(16 * features, features, 1, groups=features)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns (N, 1)."""
        return self.outer(self.inner(inputs[..., None]).tanh()).sum(1)


@sick("no_update", margin=0.1)
def only_the_scheduler_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """``scheduler.step()`` replaced ``optimizer.step()`` in a refactoring, so nothing moves; the twin calls both."""
    data = paired(samples.standardised(samples.proline(seed), 0, 1))
    model = Additive(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200, eta_min=1e-4)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.smooth_l1_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        if not sick:
            optimizer.step()
        scheduler.step()
    return r_squared(model, data)
