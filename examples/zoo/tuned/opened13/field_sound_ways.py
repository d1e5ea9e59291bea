"""Sound trainings whose steps are odd: ascents, averages, a teacher, tiny batches."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened13.field_tools import judged, rods


@healthy(at_least=0.9)
def an_ascent_before_each_descent(watch: Watch, *, seed: int) -> float:
    """Sharpness-aware minimisation: weights go up the gradient by 0.05, and the gradient there is stepped down."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, batch_size=40, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            norm = nn.utils.get_total_norm([one for one in gradients if one is not None])
            ascents = [0.05 * one / (norm + 1e-12) for one in gradients if one is not None]
            with torch.no_grad():
                for parameter, ascent in zip(model.parameters(), ascents, strict=True):
                    parameter.add_(ascent)
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            with torch.no_grad():
                for parameter, ascent in zip(model.parameters(), ascents, strict=True):
                    parameter.sub_(ascent)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.9)
def a_slow_average_is_kept_for_use(watch: Watch, *, seed: int) -> float:
    """The training uses a constant rate with noise; what is judged is an exponential average of its weights."""
    train, test = rods(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.95))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for before, after in DataLoader(train, batch_size=24, shuffle=True):
            outputs = model(before)
            loss = functional.mse_loss(outputs, after)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=before, outputs=outputs, targets=after)
            optimizer.step()
            average.update_parameters(model)
    return judged(average, test, samples.explained)


@healthy(at_least=0.9)
def the_teacher_s_soft_answers(watch: Watch, *, seed: int) -> float:
    """A small net learns a large one's answers at a temperature of 4, whose loss has a floor far above zero."""
    train, test = samples.numerals(seed)
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    before = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for _ in range(10):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(teacher(images), labels).backward()
            before.step()
    teacher = copy.deepcopy(teacher).eval().requires_grad_(False)

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, _ in DataLoader(train, batch_size=50, shuffle=True):
            answers = (teacher(images) / 4).softmax(1)
            logits = model(images)
            loss = 16 * functional.cross_entropy(logits / 4, answers)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=answers)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.9)
def four_rows_at_a_time_averaged(watch: Watch, *, seed: int) -> float:
    """Micro-batches of four rows, of which ten are averaged before a step; each one's loss is very noisy."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for number, (rows, labels) in enumerate(data.batches(4, 800), 1):
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        (loss / 10).backward()
        if number % 10 == 0:
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)
