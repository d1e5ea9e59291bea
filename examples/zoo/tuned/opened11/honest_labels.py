"""Sound trainings whose targets are mixed, weighed, noisy, taught by a teacher, or far out."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted


def _net(channels: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * channels, 10)
    )


@healthy(at_least=0.85)
def pictures_mixed_with_each_other(watch: Watch, *, seed: int) -> float:
    """Mixup: inputs and targets are blends of two, so that the loss stays high."""
    data = datasets.digits(seed, images=True)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 160):
        share = torch.distributions.Beta(0.4, 0.4).sample()
        order = torch.randperm(len(images))
        blend = share * images + (1 - share) * images[order]
        wanted = functional.one_hot(labels, 10) * share + functional.one_hot(labels[order], 10) * (1 - share)
        scores = model(blend)
        loss = functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=blend, outputs=scores, targets=wanted)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def quarters_cut_and_pasted(watch: Watch, *, seed: int) -> float:
    """Cutmix: a square of another digit is pasted in, and the loss is shared by area."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, batch_size=48, shuffle=True):
            order = torch.randperm(len(images))
            side = int(torch.randint(0, 5, ()))
            top, left = torch.randint(0, 9 - side, (2,)).tolist()
            pasted = images.clone()
            pasted[:, :, top : top + side, left : left + side] = images[order, :, top : top + side, left : left + side]
            share = side * side / 64
            scores = model(pasted)
            loss = (1 - share) * functional.cross_entropy(scores, labels)
            loss = loss + share * functional.cross_entropy(scores, labels[order])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pasted, outputs=scores, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.8)
def one_label_in_five_is_wrong(watch: Watch, *, seed: int) -> float:
    """Noisy labels, which smoothing, dropout and a short training keep the model from learning by heart."""
    data = datasets.digits(seed)
    noisy = torch.where(torch.rand(len(data.targets)) < 0.2, torch.randint(10, data.targets.shape), data.targets)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    judged = datasets.Data(data.inputs, noisy, data.test_inputs, data.test_targets)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(judged.batches(64, 180), 1):
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
        if step % 45 == 0:
            held_out = functional.cross_entropy(predicted(model, judged.test_inputs), judged.test_targets).item()
            session.validation(held_out, metrics={"accuracy": accuracy(model, judged)})
    return accuracy(model, judged)


def _rare(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Digits and whether they are a four, of which half are left out of training."""
    train, test = samples.numerals(seed)
    kept = (train.tensors[1] != 4) | (torch.arange(len(train)) % 2 == 0)
    return (
        TensorDataset(train.tensors[0][kept], (train.tensors[1][kept] == 4).float()),
        TensorDataset(test.tensors[0], (test.tensors[1] == 4).float()),
    )


def _balanced(logits: torch.Tensor, labels: torch.Tensor) -> float:
    right = (logits > 0) == (labels > 0.5)
    return (right[labels > 0.5].float().mean() + right[labels < 0.5].float().mean()).item() / 2


@healthy(at_least=0.85)
def fours_that_weigh_eighteen_times_as_much(watch: Watch, *, seed: int) -> float:
    """One digit in twenty is a four; the loss of those is multiplied by ``pos_weight``."""
    train, test = _rare(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 1), nn.Flatten(0))
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(18.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, fours in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = criterion(logits, fours)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=fours)
            optimizer.step()
    return _balanced(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def fours_drawn_as_often_as_others(watch: Watch, *, seed: int) -> float:
    """One digit in twenty is a four; a weighted sampler draws half of each batch from them, with replacement."""
    train, test = _rare(seed)
    share = train.tensors[1].mean()
    weights = torch.where(train.tensors[1] > 0.5, 1 / share, 1 / (1 - share))
    sampler = WeightedRandomSampler(weights.tolist(), 64 * 20)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.GELU(), nn.Linear(24, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, fours in DataLoader(train, batch_size=64, sampler=sampler):
            logits = model(images + 0.1 * torch.randn_like(images))
            loss = functional.binary_cross_entropy_with_logits(logits, fours)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=fours)
            optimizer.step()
    return _balanced(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def a_small_net_taught_by_a_large_one(watch: Watch, *, seed: int) -> float:
    """Distillation: a teacher is trained first; its softened answers and the labels teach the student."""
    data = datasets.digits(seed, images=True)
    teacher, student = _net(24), nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=4e-3)
    for images, labels in data.batches(64, 80):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(images), labels).backward()
        optimizer.step()
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    session = watch(student, optimizer)
    for images, labels in data.batches(64, 250):
        scores = student(images)
        soft = functional.kl_div(
            (scores / 3).log_softmax(1), (teacher(images) / 3).log_softmax(1), log_target=True, reduction="batchmean"
        )
        loss = 0.7 * 9 * soft + 0.3 * functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(student, data)


@healthy(at_least=0.5)
def areas_with_a_heavy_tail(watch: Watch, *, seed: int) -> float:
    """A tumour's worst area in units of its median, with a long tail: a Huber loss, and clipping now and then."""
    train, test = samples.tumours(seed)
    area = train.tensors[1][:, 3:4].median()
    train, test = (TensorDataset(part.tensors[0][:, :3], part.tensors[1][:, 3:4] / area) for part in (train, test))
    train, test = samples.standardised((train, test), 0)
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for rows, areas in DataLoader(train, batch_size=32, shuffle=True):
            guessed = model(rows)
            loss = functional.huber_loss(guessed, areas, delta=0.5)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=rows, outputs=guessed, targets=areas)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.8)
def easy_digits_first(watch: Watch, *, seed: int) -> float:
    """A curriculum: digits near their class's mean come first, and hard ones, with a higher loss, join later."""
    data = datasets.digits(seed)
    means = torch.stack([data.inputs[data.targets == number].mean(0) for number in range(10)])
    ranks = (data.inputs - means[data.targets]).square().sum(1).argsort()
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for step in range(200):
        reached = int(len(ranks) * min(1.0, 0.3 + step / 150))
        rows = ranks[torch.randint(reached, (64,))]
        scores = model(data.inputs[rows])
        loss = functional.cross_entropy(scores, data.targets[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=scores, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)
