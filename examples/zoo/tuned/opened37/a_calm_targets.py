"""Sound trainings that look odd because of what they are told to learn."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened37.a_common import lenet, numerals


@healthy(at_least=0.85)
def a_pupil_of_warm_answers(watch: Watch, *, seed: int) -> float:
    """A small network learns from a teacher's softened answers at a temperature of 4; its loss ends far above 0."""
    data = numerals(seed)
    teacher = lenet()
    optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for pictures, labels in data.batches(64, 150):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(pictures), labels).backward()
        optimizer.step()
    teacher.eval().requires_grad_(False)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 250):
        outputs = model(pictures)
        shares = (teacher(pictures) / 4).softmax(1)
        loss = functional.cross_entropy(outputs / 4, shares) * 16
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=shares)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def smoothed_labels_and_dropped_maps(watch: Watch, *, seed: int) -> float:
    """Labels are smoothed by 0.2 and maps are dropped, so the loss stays high in training and below it in tests."""
    data = numerals(seed)
    model = lenet()
    model.insert(3, nn.Dropout2d(0.2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.2)
    fit(watch, model, optimizer, data, steps=250, loss_function=loss_function, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.3)
def patients_who_are_hard_to_foretell(watch: Watch, *, seed: int) -> float:
    """A disease's progress is half noise, so the loss falls early and then stays at half of the variance."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=nn.SmoothL1Loss(), validate_every=25)
    return r_squared(model, data)
