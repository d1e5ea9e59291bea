"""Sound trainings that look odd from outside."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted


def _classifier(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


@healthy(at_least=0.75)
def one_flower_at_a_time(watch: Watch, *, seed: int) -> float:
    """Plain SGD takes one flower a step, so that losses jump from 0 to large ones."""
    data = datasets.iris(seed)
    model = _classifier(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=340)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(1, 340):
        optimizer.zero_grad()
        logits = model(inputs)
        loss = functional.cross_entropy(logits, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=targets)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def cosine_that_restarts_three_times(watch: Watch, *, seed: int) -> float:
    """The rate falls to nearly 0 and comes back three times."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].flatten(1), train.tensors[1]
    model = _classifier(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=40)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0].flatten(1)), test.tensors[1])


@healthy(at_least=0.85)
def a_student_of_soft_targets(watch: Watch, *, seed: int) -> float:
    """A small network learns a teacher's probabilities at a temperature of 3; the teacher is not watched."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].flatten(1), train.tensors[1]
    teacher, student = _classifier(64, 96, 10), _classifier(64, 16, 10)
    teaching = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(6):
        for rows in torch.randperm(len(images)).split(64):
            teaching.zero_grad()
            functional.cross_entropy(teacher(images[rows]), labels[rows]).backward()
            teaching.step()
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    session = watch(student, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(images)).split(64):
            with torch.no_grad():
                soft = functional.softmax(teacher(images[rows]) / 3, 1)
            logits = student(images[rows])
            loss = 9 * functional.kl_div(functional.log_softmax(logits / 3, 1), soft, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=soft)
            optimizer.step()
    return samples.accuracy(predicted(student, test.tensors[0].flatten(1)), test.tensors[1])


@healthy(at_least=0.85)
def a_frozen_backbone_and_a_new_head(watch: Watch, *, seed: int) -> float:
    """A network that told even from odd is frozen on purpose, and a head for ten digits is trained upon it."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    backbone = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    old = nn.Linear(384, 2)
    pretraining = torch.optim.Adam([*backbone.parameters(), *old.parameters()], lr=3e-3)
    for _ in range(3):
        for rows in torch.randperm(len(images)).split(64):
            pretraining.zero_grad()
            functional.cross_entropy(old(backbone(images[rows])), labels[rows] % 2).backward()
            pretraining.step()
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    model = nn.Sequential(backbone, nn.Linear(384, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.8)
def a_fifth_of_the_labels_is_wrong(watch: Watch, *, seed: int) -> float:
    """A fifth of the labels is drawn at random, and the loss is smoothed and cannot fall far."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].flatten(1), train.tensors[1]
    labels = torch.where(torch.rand(len(labels)) < 0.2, torch.randint(10, labels.shape), labels)
    model = _classifier(64, 24, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(images)).split(64):
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0].flatten(1)), test.tensors[1])


@healthy(at_least=0.6)
def a_bandit_learns_by_rewards(watch: Watch, *, seed: int) -> float:
    """REINFORCE with a baseline: a digit is the context, and its number is the arm that pays; the loss says little."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].flatten(1), train.tensors[1]
    model = _classifier(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    baseline = 0.1
    for _ in range(300):
        rows = torch.randint(len(images), (128,))
        logits = model(images[rows])
        policy = torch.distributions.Categorical(logits=logits)
        actions = policy.sample()
        rewards = (actions == labels[rows]).float()
        loss = -(policy.log_prob(actions) * (rewards - baseline)).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[rows], outputs=logits)
        optimizer.step()
        baseline += 0.05 * (rewards.mean().item() - baseline)
    return samples.accuracy(predicted(model, test.tensors[0].flatten(1)), test.tensors[1])
