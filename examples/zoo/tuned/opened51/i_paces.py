"""Rates, schedules, sums and clipping."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened51.i_bench import Reader, brightness, code_lines, explained, mlp, scripts


@sick("learning_rate_too_high", also=("dead_units",), margin=0.05)
def sgd_rate_kept_for_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """After a change from SGD to Adam the rate of 0.2 has stayed; the twin takes 2e-3."""
    data = code_lines(seed)
    model = mlp(96, 64, 64, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def linear_scaling_rule_with_eight_samples(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate is 0.1 * batch / 4096, a rule of large clusters, for batches of 8; the twin takes 0.1."""
    data = datasets.digits(seed, images=True)
    batch = 8
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.GELU(), nn.Conv2d(12, 24, 3, padding=1), nn.GELU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * batch / 4096 if sick else 0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=350, batch_size=batch)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.05)
def decay_of_epochs_on_every_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decay of 0.8 that was meant for epochs is stepped with each batch; the twin steps it once an epoch."""
    data = scripts(seed)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    session = watch(model, optimizer)
    per_epoch = -(-len(data.inputs) // 32)
    for step, (codes, labels) in enumerate(data.batches(32, 10 * per_epoch), 1):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        if sick or step % per_epoch == 0:
            scheduler.step()
    return accuracy(model, data)


class PostNorm(nn.Module):
    """A transformer whose norms come after its sums."""

    def __init__(self, depth: int, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, width)
        self.places = nn.Parameter(0.1 * torch.randn(24, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.letters(codes) + self.places).mean(1))


class Residual(nn.Module):
    """Twelve residual blocks without norms."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(12)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = self.first(images.flatten(1))
        for block in self.blocks:
            found = found + block(found)
        return self.head(found)


@sick("missing_warmup", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def residual_blocks_without_norms_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve residual blocks without norms begin at the full rate; the twin warms up before the same decay."""
    train, test = samples.numerals(seed)
    data = Data(*train.tensors, *test.tensors)
    model = Residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = 200

    def factor(step: int) -> float:
        decay = min(1.0, 2 * (steps - step) / steps)
        return decay if sick else decay * min(1.0, (step + 1) / 100)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=steps, scheduler=scheduler)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def patience_of_one_validation_of_twenty_lines(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training ends once the loss of 20 samples has not improved; the twin validates on 120 with patience."""
    data = scripts(seed)
    model = Reader(width=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    session = watch(model, optimizer)
    count, patience = (20, 1) if sick else (120, 8)
    codes, labels = data.inputs[-count:], data.targets[-count:]
    seen = Data(data.inputs[:-count], data.targets[:-count], data.test_inputs, data.test_targets)
    best, waited = float("inf"), 0
    for step, (inputs, targets) in enumerate(seen.batches(16, 400), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 10 == 0 and step >= 60:
            found = functional.cross_entropy(predicted(model, codes), labels).item()
            session.validation(found)
            best, waited = (found, 0) if found < best else (best, waited + 1)
            if waited >= patience:
                break
    return accuracy(model, data)


class Writer(nn.Module):
    """A recurrent model of characters."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(CHARACTERS, width)
        self.cell = nn.RNN(width, width, batch_first=True)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.letters(codes))[0])


@sick("clipping_ineffective", also=("learning_rate_too_high", "exploding_gradients", "saturated_units"), margin=0.03)
def generator_of_parameters_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer has used up the generator of parameters that is clipped, so nothing is; the twin has a list."""
    data = datasets.text(seed, length=24)
    model = Writer()
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=12.0)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 160):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.25)
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def clipped_by_value_as_if_by_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each gradient is clipped to ±1e-4 before SGD, far below what it is; the twin clips the norm to 1."""
    data = brightness(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for series, following in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(series)
        loss = functional.mse_loss(outputs, following)
        loss.backward()
        if sick:
            nn.utils.clip_grad_value_(model.parameters(), 1e-4)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=series, outputs=outputs, targets=following)
        optimizer.step()
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients", "dead_units"), margin=0.05)
def twelve_micro_batches_of_images_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients of 12 micro-batches add up at a rate for their mean; the twin divides each loss by 12."""
    train, test = samples.numerals(seed)
    data = Data(*train.tensors, *test.tensors)
    micro = 12
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for index, (images, labels) in enumerate(data.batches(8, micro * 60), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / micro).backward()
        if index % micro == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "dead_units", "non_finite_forward"),
      margin=0.1)  # fmt: skip
def errors_of_all_pixels_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network that completes digits adds the errors of 64 * 32 pixels at a rate for their mean; the twin averages."""
    train, test = samples.halves(seed)
    data = Data(*train.tensors, *test.tensors)
    model = mlp(32, 64, 64, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    error = nn.MSELoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=200, loss_function=error)
    return explained(model, data)


@sick("fp16_underflow", margin=0.1)
def small_auxiliary_loss_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss in small units has gradients below what float16 can hold; the twin scales it with a GradScaler."""
    data = brightness(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-14)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**23, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for series, following in data.batches(64, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(series)
            loss = 1e-7 * functional.mse_loss(outputs.float(), following)
        scaler.scale(loss).backward()
        session.step(loss, inputs=series, outputs=outputs, targets=following)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)
