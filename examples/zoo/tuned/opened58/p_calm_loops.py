"""Sound trainings that look odd: accumulation, scalers, finders, schedules, paddings, flows and followers."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened58.p_common import of, stack


@healthy(at_least=0.88)
def six_slices_for_a_step(watch: Watch, *, seed: int) -> float:
    """Gradients of six small batches add up to a mean before each step."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.GroupNorm(3, 12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(192, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    batches = data.batches(12, 6 * 100)
    for _ in range(100):
        optimizer.zero_grad()
        for _ in range(6):
            images, labels = next(batches)
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            (loss / 6).backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.88)
def gradients_too_large_for_half_at_first(watch: Watch, *, seed: int) -> float:
    """A GradScaler begins so high that it skips the first steps, and halves its scale until gradients fit."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(nn.Flatten(), *stack(64, 64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
    session = watch(model, optimizer, scaler=scaler)
    for images, labels in data.batches(64, 200):
        with torch.autocast("cpu", torch.float16):
            outputs = model(images)
            loss = functional.cross_entropy(outputs.float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.85)
def finder_before_the_training(watch: Watch, *, seed: int) -> float:
    """The rate rises until the loss leaves its best behind; then all is put back and a sixth of the rate is used."""
    data = datasets.digits(seed)
    data = Data((data.inputs - 0.3) / 0.37, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets)
    model = stack(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    session, best, seeking, rate = watch(model, optimizer), math.inf, True, 1e-4
    for pixels, labels in data.batches(64, 260):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        best = min(best, loss.item())
        if seeking and (loss.item() > 2 * best + 0.5 or rate > 0.6):
            seeking = False
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            optimizer.param_groups[0]["lr"] = min(rate / 6, 0.05)
            continue
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if seeking:
            rate *= 1.12
            optimizer.param_groups[0]["lr"] = rate
    return accuracy(model, data)


@healthy(at_least=0.88)
def strips_attended_under_a_cosine(watch: Watch, *, seed: int) -> float:
    """A transformer over rows of digits warms up for forty steps and cools down a cosine to nothing."""
    data = of(samples.numerals(seed))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(self.body(self.into(images[:, 0]) + self.places).mean(1)))

    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)

    def factor(step: int) -> float:
        return (step + 1) / 40 if step < 40 else 0.5 * (1 + math.cos(math.pi * (step - 40) / 160))

    fit(
        watch,
        model,
        optimizer,
        data,
        steps=200,
        batch_size=32,
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, factor),
    )
    return accuracy(model, data)


@healthy(at_least=0.55)
def padded_names_in_a_bag(watch: Watch, *, seed: int) -> float:
    """Names are padded with a code whose vector is 0 and stays so, and a mean over true letters decides."""
    data = of(samples.names(seed))

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.mix = nn.Embedding(samples.LETTERS, 24, padding_idx=0), nn.Conv1d(24, 48, 3, padding=1)
            self.head = nn.Linear(48, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            true = (codes != 0).float()[:, None]
            found = self.mix(self.letters(codes).transpose(1, 2)).relu() * true
            return self.head(found.sum(-1) / true.sum(-1))

    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.7)
def couplings_whose_loss_is_below_zero(watch: Watch, *, seed: int) -> float:
    """A flow of affine couplings, each the identity at first, learns tumours' densities; its loss becomes negative.

    The quality is how many nats per feature it gains on a normal density without correlations.
    """
    pair = samples.standardised(samples.tumours(seed), 0)
    train, test = (part.tensors[0] for part in pair)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nets = nn.ModuleList([stack(5, 32, 10) for _ in range(6)])
            for net in self.nets:
                nn.init.zeros_(net[-1].weight)
                nn.init.zeros_(net[-1].bias)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            total = values.new_zeros(len(values))
            for net in self.nets:
                kept, moved = values[:, ::2], values[:, 1::2]
                shift, scale = net(kept).chunk(2, -1)
                scale = 2 * torch.tanh(scale / 2)
                values = torch.cat([moved * scale.exp() + shift, kept], 1)
                total = total + scale.sum(1)
            return total - 0.5 * values.square().sum(1) - 5 * math.log(2 * math.pi)

    model = Flow()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for step in range(1, 251):
        rows = train[torch.randperm(len(train))[:64]]
        densities = model(rows)
        loss = -densities.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        session.step(loss, inputs=rows, outputs=densities)
        optimizer.step()
        if step % 50 == 0:
            with torch.no_grad():
                session.validation(-model(test).mean().item())
    plain = torch.distributions.Normal(0, 1).log_prob(test).sum(1)
    with torch.no_grad():
        return ((model(test).clamp(min=-50) - plain.clamp(min=-50)).mean() / 10).item()


@healthy(at_least=0.85)
def follower_with_a_slow_teacher(watch: Watch, *, seed: int) -> float:
    """A student learns from labels and from a moving average of itself, which no gradient reaches."""
    data = of(samples.numerals(seed))

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = nn.Sequential(nn.Flatten(), *stack(64, 64, 10))
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.student(images)

    model = Pair()
    optimizer = torch.optim.Adam(model.student.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 200):
        outputs = model(images + 0.2 * torch.randn_like(images))
        with torch.no_grad():
            expected = model.teacher(images).softmax(-1)
        loss = functional.cross_entropy(outputs, labels) + 0.5 * functional.mse_loss(outputs.softmax(-1), expected)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model.teacher.parameters(), model.student.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    return accuracy(model.teacher, data)
