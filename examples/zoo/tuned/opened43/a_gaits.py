"""Rates, schedules, clipping, sums of gradients, and an end that comes too soon."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened43.a_material import (
    LETTERS,
    digit_images,
    file_lines,
    flat_digits,
    lower_halves,
    score,
    spelled,
)


class NameReader(nn.Module):
    """A GRU over the letters of a name, whose last state decides."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, 24, padding_idx=0)
        self.recurrence = nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrence(self.letters(codes))[0].mean(1))


@sick("learning_rate_too_high", margin=0.05)
def gru_of_names_at_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW trains a recurrence with a rate of 0.5; the twin's is 0.005."""
    data = spelled(seed)
    model = NameReader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=48)
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.1)
def adams_rate_handed_to_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port from Adam to SGD keeps the rate of 0.001; the twin's SGD has 0.1 and momentum."""
    data = digit_images(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip
    rate = 1e-3 if sick else 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.0 if sick else 0.8)
    fit(watch, model, optimizer, data, steps=150, batch_size=64, validate_every=30)
    return accuracy(model, data)


class RowTransformer(nn.Module):
    """Eight rows of a digit as tokens, in a stack of layers that normalise after each sum."""

    def __init__(self, depth: int, width: int = 32) -> None:
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.02)
        layers = [nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True) for _ in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.rows(images.squeeze(1)) + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def post_norm_rows_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """A deep post-norm transformer starts at its full rate; the twin warms up to it and decays after it."""
    data = digit_images(seed)
    model = RowTransformer(depth=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2)

    def share(step: int) -> float:
        return min((step + 1) / 50, 1.0) * (1 - step / 120) if not sick else 1 - step / 120

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def factors_that_multiply_each_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiplicativeLR`` is given the formula of ``LambdaLR``, so that powers of 0.98 are multiplied."""
    data = file_lines(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)
    kind = torch.optim.lr_scheduler.MultiplicativeLR if sick else torch.optim.lr_scheduler.LambdaLR
    scheduler = kind(optimizer, lambda step: 0.99**step)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=scheduler, validate_every=25)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.1)
def patience_for_the_wrong_direction(watch: Watch, *, seed: int, sick: bool) -> float:
    """A stopper that waits for less watches an accuracy, and gives up as it grows; the twin's waits for more."""
    data = digit_images(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(192, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    best, waited = (float("inf") if sick else -float("inf")), 0
    for step, (images, labels) in enumerate(data.batches(24, 360), 1):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 12 == 0:
            found = accuracy(model, data)
            session.validation(held_out_loss(model, data), metrics={"accuracy": found})
            better = found < best if sick else found > best
            best, waited = (found, 0) if better else (best, waited + 1)
            if waited == 4:
                break
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.1)
def norm_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD's gradients are clipped to a norm of 0.002, which all of them exceed; the twin clips at 2."""
    data = lower_halves(seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for upper, lower in data.batches(64, 200):
        optimizer.zero_grad()
        outputs = model(upper)
        loss = functional.mse_loss(outputs, lower)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2e-3 if sick else 2.0)
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
    return score(model, data)


class PixelRecurrence(nn.Module):
    """A network of rectified units that reads a digit pixel by pixel; its recurrence starts as the identity."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.cell = nn.RNN(4, width, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(width, 10)
        nn.init.eye_(self.cell.weight_hh_l0)
        nn.init.zeros_(self.cell.bias_hh_l0)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(pixels.view(len(pixels), 16, 4))[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipping_a_generator_that_is_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``parameters()`` is kept, the optimizer consumes it, and clipping finds nothing; the twin asks for it anew."""
    data = flat_digits(seed)
    model = PixelRecurrence()
    parameters = model.parameters()
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 240):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters if sick else model.parameters(), 2.0)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Neighbours(nn.Module):
    """Two layers over a normalised graph of neighbours."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inward, 32), nn.Linear(32, outward)

    def forward(self, rows: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        return graph @ self.second((graph @ self.first(rows)).tanh())


@sick("loss_sum_not_mean", also=("learning_rate_too_high",), margin=0.05)
def all_nodes_of_a_graph_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """The losses of a graph's 500 known nodes are summed at a rate meant for their mean, which the twin takes."""
    drawn, known = flat_digits(seed), 500
    rows = torch.cat([drawn.inputs[:known], drawn.test_inputs[:300]])
    labels = torch.cat([drawn.targets[:known], drawn.test_targets[:300]])
    near = torch.zeros(len(rows), len(rows)).scatter_(1, torch.cdist(rows, rows).topk(6, largest=False).indices, 1.0)
    graph = near / near.sum(1, keepdim=True)
    model = Neighbours(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(120):
        optimizer.zero_grad()
        outputs = model(rows, graph)[:known]
        loss = functional.cross_entropy(outputs, labels[:known], reduction="sum" if sick else "mean")
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels[:known])
        optimizer.step()
    with torch.no_grad():
        return (model(rows, graph)[known:].argmax(1) == labels[known:]).float().mean().item()


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def a_dozen_small_batches_per_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve micro-batches add up their gradients at the rate of one; the twin divides each loss by twelve."""
    data = digit_images(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(192, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for index, (images, labels) in enumerate(data.batches(8, 12 * 60), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 12).backward()
        if index % 12 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("over_regularized", margin=0.05)
def a_share_to_keep_that_is_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``keep_prob=0.85`` of an old TensorFlow script becomes ``Dropout(0.85)``; the twin drops the rest, 0.15."""
    data = file_lines(seed)
    keep = 0.85
    share = keep if sick else 1 - keep
    model = nn.Sequential(
        nn.Linear(96, 64), nn.ReLU(), nn.Dropout(share), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(share),
        nn.Linear(32, 6),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=40)
    return accuracy(model, data)
