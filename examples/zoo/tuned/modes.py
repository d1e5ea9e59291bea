"""Loops whose models are in training mode, or in eval mode, where they should not be."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit


def _normalised() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(256, 10),
    )  # fmt: skip


@sick("wrong_mode")
def never_back_to_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model was put into eval mode to look at its first outputs, and trains in it: batch norms do not normalise."""
    data = datasets.digits(seed, images=True)
    model = _normalised()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.train(not sick)
    fit(watch, model, optimizer, data, steps=120, validate_every=40)
    return accuracy(model, data)


@sick("wrong_mode")
def validated_in_training_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validation with dropout: what it reports, and what decides about the model, is worse than the model."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.6), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.6), nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session, reported = watch(model, optimizer), 0.0
    for step, (inputs, labels) in enumerate(data.batches(64, 200), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            if not sick:
                model.eval()
            with torch.no_grad(), session.validating():
                logits = model(data.test_inputs)
            reported = (logits.argmax(1) == data.test_targets).float().mean().item()
            session.validation(functional.cross_entropy(logits, data.test_targets), metrics={"accuracy": reported})
            model.train()
    return reported
