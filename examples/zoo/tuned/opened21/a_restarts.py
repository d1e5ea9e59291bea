"""Sound trainings that look odd: restarts, and pictures of which most is hidden."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy


@healthy(at_least=0.85)
def cosine_with_warm_restarts(watch: Watch, *, seed: int) -> float:
    """The rate falls to nearly zero and jumps back, three times; the loss rises with each jump and falls lower."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=30, T_mult=2)
    loader = DataLoader(train, 42, shuffle=True)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            schedule.step()
        with torch.no_grad(), session.validating():
            outputs = model(test.tensors[0])
        session.validation(functional.cross_entropy(outputs, test.tensors[1]).item())
    return samples.accuracy(outputs, test.tensors[1])


@healthy(at_least=0.3)
def three_of_four_pixels_are_hidden(watch: Watch, *, seed: int) -> float:
    """A masked autoencoder sees a quarter of the pixels, and its loss is of the others alone."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, _ in DataLoader(train, 50, shuffle=True):
            pixels = images.flatten(1)
            seen = (torch.rand_like(pixels) < 0.25).float()
            inputs = torch.cat([pixels * seen, seen], 1)
            outputs = model(inputs)
            loss = ((outputs - pixels).square() * (1 - seen)).sum() / (1 - seen).sum()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=pixels)
            optimizer.step()
    pixels = test.tensors[0].flatten(1)
    seen = (torch.rand_like(pixels) < 0.25).float()
    with torch.no_grad():
        return samples.explained(model(torch.cat([pixels * seen, seen], 1)), pixels)
