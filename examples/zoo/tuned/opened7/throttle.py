"""Learning rates that are too high or too low, and warm-ups that are missing."""

import itertools

import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_wine
from torch import nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import Attentive, Forecaster, Listener, Reader, convnet, explained, mlp, right
from examples.zoo.tuned.opened7.drills import Trainer, drill, falling
from examples.zoo.tuned.opened7.supplies import (
    Rows,
    anew,
    dialects,
    fresh,
    friedman,
    images,
    pixels,
    settling,
    table,
    tones,
)


@sick("learning_rate_too_high")
def scaled_for_a_batch_of_4096(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate of a published recipe, whose batch is a hundred times as large."""
    rows = images(seed)
    model = convnet()[:1].append(nn.ReLU()).extend(convnet()[3:])  # the recipe's net without its normalisation
    optimizer = optim.SGD(model.parameters(), lr=3.2 if sick else 0.04, momentum=0.9)
    Trainer(model, optimizer).fit(watch, rows, epochs=5)
    return right(model, rows)


@sick("learning_rate_too_high")
def adam_with_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """``lr=0.5`` stayed in the command line when the optimizer was changed."""
    rows = dialects(seed)
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=0.5 if sick else 1e-2)
    drill(watch, model, optimizer, rows.draws(32, 200), after=falling(optimizer, 200))
    return right(model, rows)


@sick("learning_rate_too_high")
def rmsprop_at_three_tenths(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each step of RMSprop moves every weight by the rate, whatever the gradient is."""
    rows = friedman(seed)
    model = nn.Sequential(mlp(10, 48, 48, 1), nn.Flatten(0))
    optimizer = optim.RMSprop(model.parameters(), lr=0.3 if sick else 2e-3)
    drill(watch, model, optimizer, rows.epochs(32, 300), F.mse_loss)
    return explained(model, rows)


def _pretrained(rows: Rows) -> nn.Sequential:
    """Returns a network that knows the digits below five."""
    model = convnet()
    known = rows.y < 5
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    for x, y in Rows(rows.x[known], rows.y[known], rows.x_test, rows.y_test).draws(48, 80):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


@sick("learning_rate_too_high")
def fine_tuning_that_forgets(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pretrained network meets the other digits with a rate that undoes what it knows."""
    rows = images(seed)
    model = _pretrained(rows)
    model[-1] = nn.Linear(model[-1].in_features, 10)
    optimizer = optim.SGD(model.parameters(), lr=4.0 if sick else 0.05, momentum=0.8)
    drill(watch, model, optimizer, rows.draws(48, 160))
    return right(model, rows)


@sick("learning_rate_too_high")
def nesterov_on_a_recurrent_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rate of 2 with a momentum of 0.95 is one of 40."""
    model = Listener(nn.GRU(1, 20, batch_first=True), 3)
    optimizer = optim.SGD(model.parameters(), lr=2.0 if sick else 0.06, momentum=0.95, nesterov=True)
    drill(watch, model, optimizer, fresh(tones, 32, 300))
    return right(model, anew(tones, 500, seed))


@sick("learning_rate_too_low", also=("stopped_too_early",))
def the_rate_for_a_language_model(watch: Watch, *, seed: int, sick: bool) -> float:
    """2e-6, as one fine-tunes large models, for a small net from scratch."""
    rows = dialects(seed)
    model = Attentive()
    optimizer = optim.AdamW(model.parameters(), lr=2e-6 if sick else 4e-3, weight_decay=0.01)
    drill(watch, model, optimizer, rows.epochs(32, 180))
    return right(model, rows)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def plain_sgd_at_a_ten_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate of somebody's Adam, for SGD without momentum."""
    rows = friedman(seed)
    model = nn.Sequential(mlp(10, 40, 1, act=nn.Tanh), nn.Flatten(0))
    optimizer = optim.SGD(model.parameters(), lr=1e-4) if sick else optim.SGD(model.parameters(), lr=0.12, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(50, 320), F.mse_loss)
    return explained(model, rows)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def adagrad_that_brakes_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adagrad's steps shrink by themselves, and they began at 1e-4."""
    rows = images(seed)
    model = nn.Sequential(nn.Flatten(), mlp(64, 64, 10))
    optimizer = optim.Adagrad(model.parameters(), lr=1e-4 if sick else 0.03)
    Trainer(model, optimizer).fit(watch, rows, epochs=8)
    return right(model, rows)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def a_slow_group_for_everything(watch: Watch, *, seed: int, sick: bool) -> float:
    """The tenth of the rate for pretrained layers was multiplied in once too often, and fell to all groups."""
    rows = table(load_wine, seed)
    model = mlp(13, 24, 24, 3)
    rate = 4e-3 * (1e-2**2 if sick else 1.0)
    groups = [{"params": model[:2].parameters(), "lr": 0.5 * rate}, {"params": model[2:].parameters(), "lr": rate}]
    drill(watch, model, optim.AdamW(groups, weight_decay=0.02), rows.epochs(24, 150))
    return right(model, rows)


@sick("missing_warmup", also=("learning_rate_too_high",))
def post_norm_at_full_speed(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer with its norms behind the residuals starts with the full rate."""
    rows = dialects(seed)
    model = Attentive(layers=4, pre=False)
    optimizer = optim.Adam(model.parameters(), lr=1.2e-2, betas=(0.9, 0.98))

    def pace(step: int) -> float:
        return (1.0 if sick else min(1.0, (step + 1) / 60)) * min(1.0, (161 - step) / 90)

    ramp = optim.lr_scheduler.LambdaLR(optimizer, pace)
    drill(watch, model, optimizer, rows.draws(24, 160), after=ramp.step)
    return right(model, rows)


@sick("stopped_too_early")
def max_steps_for_max_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixty were meant to be epochs."""
    rows = pixels(seed)
    model = mlp(64, 48, 48, 10, act=nn.Tanh)
    optimizer = optim.SGD(model.parameters(), lr=0.015, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 60 if sick else 400))
    return right(model, rows)


@sick("stopped_too_early")
def patience_of_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first validation that is not better ends the training, while the batches still differ a lot."""
    rows = friedman(seed)
    model = nn.Sequential(mlp(10, 64, 64, 1), nn.Flatten(0))
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    best, patience, waited = float("inf"), 1 if sick else 60, 0
    session = watch(model, optimizer)
    for step, (x, y) in enumerate(rows.draws(32, 360), 1):
        out = model(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        if step < 62:
            continue
        best, waited = (loss.item(), 0) if loss.item() < best else (best, waited + 1)
        if waited > patience:
            break
    return explained(model, rows)


@sick("stopped_too_early", margin=0.02)
def a_break_left_from_debugging(watch: Watch, *, seed: int, sick: bool) -> float:
    """``if step == 70: break`` was for a trial of the loop, and it has stayed."""
    model = Forecaster(nn.LSTM)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    batches = itertools.islice(fresh(settling, 24, 350), 71 if sick else None)
    drill(watch, model, optimizer, batches, F.l1_loss, after=falling(optimizer, 350))
    return explained(model, anew(settling, 300, seed))
