"""Sound trainings with loops that look odd."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened33.a_parts import Speller, centred, forever, of_characters, right


@healthy(at_least=0.9)
def a_small_student_of_a_large_teacher(watch: Watch, *, seed: int) -> float:
    """A student takes a teacher's soft answers at temperature 4, and a little of the labels."""
    data = centred(datasets.digits(seed))
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    first = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for images, labels in forever(data, 64, 120):
        first.zero_grad()
        functional.cross_entropy(teacher(images), labels).backward()
        first.step()
    teacher.eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    session = watch(student, optimizer)
    for images, labels in forever(data, 64, 200):
        logits = student(images)
        soft = (teacher(images) / 4).softmax(1)
        distance = functional.kl_div((logits / 4).log_softmax(1), soft, reduction="batchmean")
        loss = 0.9 * 16 * distance + 0.1 * functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(student, data)


@healthy(at_least=0.9)
def restarted_along_cosines(watch: Watch, *, seed: int) -> float:
    """The rate falls along a cosine and begins anew, three times, each time for longer."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=30, T_mult=2, eta_min=3e-4)
    fit(watch, model, optimizer, data, steps=210, batch_size=64, scheduler=schedule, validate_every=42)
    return accuracy(model, data)


@healthy(at_least=0.8)
def four_flowers_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of four rows under a small rate: the loss jumps from step to step and falls all the same."""
    data = datasets.iris(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8)
    fit(watch, model, optimizer, data, steps=350, batch_size=4)
    return accuracy(model, data)


@healthy(at_least=0.85)
def values_of_the_kinds_that_were_named(watch: Watch, *, seed: int) -> float:
    """A bandit sees the reward of the wine that it names alone, by chance now and then, and learns its value."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (rows, kinds) in enumerate(forever(data, 32, 300)):
        values = model(rows)
        explores = torch.rand(len(rows)) < max(0.1, 1 - step / 150)
        named = torch.where(explores, torch.randint(3, (len(rows),)), values.argmax(1))
        rewards = (named == kinds).float()
        loss = functional.mse_loss(values.gather(1, named[:, None]).squeeze(1), rewards)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def noise_that_grows(watch: Watch, *, seed: int) -> float:
    """A curriculum adds more noise to the pictures as it goes, so that the loss rises again."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(forever(data, 64, 240)):
        noisy = images + 1.5 * min(1.0, step / 180) * torch.randn_like(images)
        logits = model(noisy)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def an_average_of_weights_is_judged(watch: Watch, *, seed: int) -> float:
    """A copy follows the weights slowly, gets no gradient, and is what is validated and kept."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(forever(data, 48, 200), 1):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for kept, weight in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(weight, 0.05)
        if step % 50 == 0:
            session.validation(held_out_loss(average, data))
    return accuracy(average, data)


@healthy(at_least=0.85)
def images_against_their_gradient(watch: Watch, *, seed: int) -> float:
    """Each step trains on images that were moved against the model, so that the loss stays higher than usual."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for images, labels in forever(data, 64, 200):
        asked = images.clone().requires_grad_()
        (slope,) = torch.autograd.grad(functional.cross_entropy(model(asked), labels), asked)
        moved = images + 0.15 * slope.sign()
        optimizer.zero_grad()
        logits = model(moved)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=moved, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.48)
def clipped_as_recurrent_nets_are(watch: Watch, *, seed: int) -> float:
    """A plain recurrent writer under SGD, whose gradients are clipped to 1 as is usual."""
    data = datasets.text(seed, length=16)
    model = Speller(64, nn.RNN)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for codes, following in forever(data, 32, 280):
        logits = model(codes)
        loss = of_characters(logits, following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return right(model, data)
