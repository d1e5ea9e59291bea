"""Rates and schedules that were copied from another training, or counted in the wrong unit."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, springs


@sick("learning_rate_too_high")
def the_rate_of_sgd_left_for_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was changed from SGD to Adam, and its rate of 0.3 was kept; the twin takes 0.003."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 3e-3)
    criterion = nn.CrossEntropyLoss()
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            scores = model(images)
            loss = criterion(scores, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("learning_rate_too_high", margin=0.02)
def fine_tuned_as_fast_as_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net that knows all digits is tuned on 160 of them, at a rate of 0.8 with momentum; the twin tunes at 0.01."""
    train, test = samples.numerals(seed)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    model = nn.Sequential(backbone, nn.Linear(32, 10))
    before = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            before.step()

    images, labels = train.tensors[0][:160], train.tensors[1][:160]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.8 if sick else 0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows in torch.randperm(len(images)).split(32):
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return judged(model, test)


@sick("learning_rate_too_low", margin=0.1)
def the_rate_of_a_fine_tuning_recipe(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small net starts from nothing at 2e-5, as recipes for tuning a language model say; the twin takes 3e-3."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(15):
        model.train()
        for rows, places in DataLoader(train, batch_size=64, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, places)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=places)
            optimizer.step()
        with session.validating(), torch.no_grad():
            model.eval()
            session.validation(functional.mse_loss(model(test.tensors[0]), test.tensors[1]).item())
    return judged(model, test, samples.explained)


@sick("schedule_collapsed")
def milestones_of_epochs_reached_in_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Milestones are in epochs, but the scheduler steps with each batch; the twin steps it after each epoch."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 64), nn.LayerNorm(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[4, 7, 9], gamma=0.1)
    session = watch(model, optimizer)
    for _ in range(10):
        for counts, files in DataLoader(train, batch_size=48, shuffle=True):
            optimizer.zero_grad()
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
    return judged(model, test)


@sick("schedule_collapsed")
def a_plateau_of_a_loss_in_mode_max(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` waits for a rise of the validation loss, in mode ``max``; the twin's mode is ``min``."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.7)
    mode = "max" if sick else "min"
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, factor=0.1, patience=0)  # type: ignore[arg-type]
    session = watch(model, optimizer)
    for _ in range(24):
        for means, worst in DataLoader(train, batch_size=32, shuffle=True):
            outputs = model(means)
            loss = functional.smooth_l1_loss(outputs, worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=means, outputs=outputs, targets=worst)
            optimizer.step()
        with session.validating(), torch.no_grad():
            validation = functional.smooth_l1_loss(model(test.tensors[0]), test.tensors[1]).item()
        session.validation(validation)
        scheduler.step(validation)
    return judged(model, test, samples.explained)


class _Post(nn.Module):
    """A post-norm transformer that reads the rows of a digit."""

    def __init__(self, width: int = 32, depth: int = 5) -> None:
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.rows(images.squeeze(1)) + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.1)
def a_post_norm_reader_of_rows_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """A post-norm transformer starts at its full rate; the twin's rate rises over the first sixty steps."""
    train, test = samples.numerals(seed)
    model = _Post()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    steps = 180
    warm = 1 if sick else 60
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / (steps - warm))
    )
    session = watch(model, optimizer)
    step = 0
    while step < steps:
        for images, labels in DataLoader(train, batch_size=40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            scheduler.step()
            step += 1
            if step == steps:
                break
    return judged(model, test)


@sick("stopped_too_early", also=("learning_rate_too_low",))
def patience_with_a_coarse_delta(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping wants the validation loss to fall by 0.15 within an epoch; the twin is content with 0.0005."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.5)
    delta = 0.15 if sick else 5e-4
    best, waited = float("inf"), 0
    session = watch(model, optimizer)
    for _ in range(20):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            current = functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item()
        session.validation(current)
        waited = 0 if current < best - delta else waited + 1
        best = min(best, current)
        if waited == 1:
            break
    return judged(model, test)
