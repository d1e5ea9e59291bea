"""Another schedule for a training that worked."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.03)
def a_share_of_the_epochs_is_no_warmup(watch: Watch, *, seed: int, sick: bool) -> float:
    """``int(0.3 * epochs)`` steps of warm-up are 0 for 3 epochs, after a change from steps; the twin counts steps.

    Adam's rate is one that a deep and wide net bears after a warm-up, and not in its first steps.
    """
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for before in (64, *[256] * 5):
        layers += [nn.Linear(before, 256), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    epochs, size = 3, 20
    steps = epochs * -(-len(data.inputs) // size)
    warm = int(0.3 * (epochs if sick else steps))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.006)

    def factor(step: int) -> float:
        return (step + 1) / warm if step < warm else 1 - (step - warm) / (steps - warm + 1)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(size, steps):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)
