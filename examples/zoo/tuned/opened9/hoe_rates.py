"""Rates that are wrong by what came before: resumed schedules, and layers far below."""

import torch.nn.functional as F  # noqa: N812
from torch import nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import cooked, flat_numerals, glances, ladled, layers, right


@sick("schedule_collapsed", also=("learning_rate_too_low", "no_update"))
def resumed_with_a_schedule_that_is_over(watch: Watch, *, seed: int, sick: bool) -> float:
    """New digits are learnt from a checkpoint, whose schedule is loaded as well: it has ended, at zero."""
    train, test = samples.numerals(seed)
    model = glances()
    known = train.tensors[1] < 4
    few = TensorDataset(*(column[known] for column in train.tensors))
    before = optim.AdamW(model.parameters(), lr=5e-3)
    ended = optim.lr_scheduler.LinearLR(before, 1.0, 0.0, total_iters=60)
    for x, y in ladled(few, 32, 60):
        before.zero_grad()
        F.cross_entropy(model(x), y).backward()
        before.step()
        ended.step()
    checkpoint = {"optimizer": before.state_dict(), "schedule": ended.state_dict()}
    optimizer = optim.AdamW(model.parameters(), lr=5e-3)
    schedule = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=200)
    if sick:
        optimizer.load_state_dict(checkpoint["optimizer"])
        schedule.load_state_dict(checkpoint["schedule"])
    session = watch(model, optimizer)
    for x, y in ladled(train, 32, 200):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return right(model, test)


@sick("learning_rate_too_low")
def a_tenth_for_each_layer_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """Layer-wise decay from a paper on fine-tuning, with 0.1 for its 0.95, on a net that nobody has trained."""
    train, test = flat_numerals(seed)
    model = layers(64, 40, 40, 40, 40, 10, between=nn.Tanh)
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    decay = 0.1 if sick else 0.95
    groups = [{"params": layer.parameters(), "lr": 2e-3 * decay**depth} for depth, layer in enumerate(reversed(linear))]
    optimizer = optim.AdamW(groups, weight_decay=0.05)
    cooked(watch, model, optimizer, ladled(train, 32, 220), steps=220)
    return right(model, test)
