"""Rates, schedules, sums and clips that do not suit the training."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened56.n_common import as_data, explained, standard


@sick("learning_rate_too_high", margin=0.1)
def convolution_keeps_the_sgd_rate_under_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD was replaced by Adam, and its rate of 0.4 stayed; the twin takes 0.003."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.4 if sick else 3e-3)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.1)
def adam_rate_kept_for_momentum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nesterov's SGD took over AdamW's rate of 3e-4 in a classifier of source files; the twin takes 0.1."""
    data = standard(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 6))
    rate = 3e-4 if sick else 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.8, nesterov=True, weight_decay=5e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=64)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def plateau_judged_by_every_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` is stepped with the noisy loss of each batch; the twin steps it with each validation."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.2, patience=2)
    session = watch(model, optimizer)
    for step, (upper, lower) in enumerate(data.batches(32, 300), 1):
        outputs = model(upper)
        loss = functional.mse_loss(outputs, lower)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
        if sick:
            plateau.step(loss.item())
        if step % 50 == 0:
            validated = held_out_loss(model, data, functional.mse_loss)
            session.validation(validated)
            if not sick:
                plateau.step(validated)
    return explained(model, data)


@sick("missing_warmup", margin=0.05)
def squared_gradients_counted_from_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adagrad starts at its full rate, while its sums of squares are still 0; the twin warms up."""
    data = as_data(samples.numerals(seed))
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0 if sick else (step + 1) / 100, 1.0, (300 - step) / 200)
    )
    fit(watch, model, optimizer, data, steps=280, batch_size=48, scheduler=scheduler)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def patience_counts_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patience counts validations of 16 rows after each second batch; the twin's those of all rows after 40."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    best, bad, every = float("inf"), 0, 2 if sick else 40
    for step, (upper, lower) in enumerate(data.batches(32, 320), 1):
        outputs = model(upper)
        loss = functional.mse_loss(outputs, lower)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
        if step % every == 0:
            held = slice(0, 16) if sick else slice(None)
            guessed = predicted(model, data.test_inputs[held])
            validated = functional.mse_loss(guessed, data.test_targets[held]).item()
            session.validation(validated)
            best, bad = (validated, 0) if validated < best * (0.95 if sick else 1.0) else (best, bad + 1)
            if bad >= 3:
                break
    return explained(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",), margin=0.1)
def squared_errors_of_worst_cells_are_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` over 64 rows and ten outputs, with a rate that was found for the mean."""
    data = standard(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=250, loss_function=criterion)
    return explained(model, data)


@sick("accumulation_not_averaged", margin=0.1)
def sixteen_micro_batches_are_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of 16 micro-batches add up for one step of SGD; the twin divides each loss by 16."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(384, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.8)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for micro, (images, labels) in enumerate(data.batches(4, 16 * 40), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 16).backward()
        if micro % 16 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.1)
def speller_clipped_at_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm of all gradients is clipped at 0.001 before SGD; the twin clips at 5."""
    data = as_data(samples.names(seed))

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(40, 24, padding_idx=0)
            self.conv, self.head = nn.Conv1d(24, 48, 3, padding=1), nn.Linear(48, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.conv(self.letters(codes).transpose(1, 2)).relu().amax(2))

    model = Bag()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for codes, labels in data.batches(48, 250):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1e-3 if sick else 5.0)
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_ineffective", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def clips_the_gradients_of_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Poisson regression clips between ``zero_grad`` and ``backward``, where nothing is; the twin after."""
    data = datasets.diabetes(seed, raw_targets=True)
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1))
    nn.init.constant_(model[2].bias, data.targets.mean().log().item())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for rows, counts in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.poisson_nll_loss(outputs, counts)
        if sick:
            clip_grad_norm_(model.parameters(), 5.0)
        loss.backward()
        if not sick:
            clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=rows, outputs=outputs, targets=counts)
        optimizer.step()
    guessed = predicted(model, data.test_inputs).exp()
    return samples.explained(guessed, data.test_targets) if guessed.isfinite().all() else -1.0


@sick("exploding_gradients", also=("poor_initialization",), margin=0.1)
def recurrence_triples_at_each_half_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU recurrence over 16 half rows starts with a matrix of spectral radius 3; the twin with the identity."""
    data = datasets.digits(seed)

    class Pixels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNN(4, 32, nonlinearity="relu", batch_first=True)
            self.head = nn.Linear(32, 10)
            if sick:
                nn.init.orthogonal_(self.cell.weight_hh_l0, gain=3.0)
            else:
                nn.init.eye_(self.cell.weight_hh_l0)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(pixels.unflatten(1, (16, 4)))[0][:, -1])

    model = Pixels()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)
