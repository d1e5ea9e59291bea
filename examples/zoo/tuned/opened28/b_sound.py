"""Sound trainings that look odd: pretexts, pairs, teachers, and makers."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened28.b_stock import classes, discs, drawn, moved, overlap


@healthy(at_least=0.85)
def a_slow_copy_tells_of_other_views(watch: Watch, *, seed: int) -> float:
    """BYOL: a net foretells what its slow copy makes of another view; the copy is frozen, and no label is read.

    Quality: classes of the nearest neighbours.
    """
    data = datasets.digits(seed, images=True)
    online = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))
    slow = copy.deepcopy(online).requires_grad_(False)
    foretells = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    model = nn.Sequential(online, foretells)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(200):
        (pictures,) = drawn(64, data.inputs)
        view, other = moved(pictures), moved(pictures)
        found, told = model(view), slow(other)
        loss = (2 - 2 * functional.cosine_similarity(found, told)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=view, outputs=found, targets=told)
        optimizer.step()
        with torch.no_grad():
            for kept, now in zip(slow.parameters(), online.parameters(), strict=True):
                kept.lerp_(now, 0.03)
    known, asked = (functional.normalize(predicted(online, part)) for part in (data.inputs, data.test_inputs))
    return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def smoothed_labels_and_weights_that_follow(watch: Watch, *, seed: int) -> float:
    """Labels are smoothed by 0.2 and batches have 6 rows: the loss stays above 0.8, and an average is judged."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.97))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.2)
    session = watch(model, optimizer)
    for digits, labels in data.batches(6, 400):
        logits = model(digits)
        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=digits, outputs=logits, targets=labels)
        optimizer.step()
        averaged.update_parameters(model)
    return accuracy(averaged, data)


@healthy(at_least=0.85)
def a_pupil_of_a_teacher_and_of_labels(watch: Watch, *, seed: int) -> float:
    """Distillation at a temperature of 4, whose loss ends far above 0, since the teacher is never sure."""
    data = datasets.digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    learns = torch.optim.Adam(teacher.parameters(), lr=4e-3)
    for digits, labels in data.batches(128, 80):
        learns.zero_grad()
        functional.cross_entropy(teacher(digits), labels, label_smoothing=0.1).backward()
        learns.step()
    teacher.eval()
    pupil = nn.Sequential(nn.Linear(64, 20), nn.GELU(), nn.Linear(20, 10))
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=5e-3)
    session = watch(pupil, optimizer)
    for digits, labels in data.batches(64, 250):
        with torch.no_grad():
            told = (teacher(digits) / 4).softmax(1)
        found = pupil(digits)
        loss = 0.5 * functional.cross_entropy(found, labels) + 0.5 * 16 * functional.cross_entropy(found / 4, told)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=digits, outputs=found, targets=labels)
        optimizer.step()
    return accuracy(pupil, data)


@healthy(at_least=0.7)
def masks_by_a_product_and_by_an_entropy(watch: Watch, *, seed: int) -> float:
    """Dice's loss and a binary entropy are added, for rare pixels, in batches of four with group norms."""
    data = discs(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2),
        nn.GroupNorm(3, 12),
        nn.SiLU(),
        nn.Conv2d(12, 12, 5, padding=2),
        nn.GroupNorm(3, 12),
        nn.SiLU(),
        nn.Conv2d(12, 1, 1),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=260)
    session = watch(model, optimizer)
    for pictures, masks in data.batches(4, 260):
        logits = model(pictures)
        chances = logits.sigmoid()
        both = (chances * masks).sum((1, 2, 3))
        dice = 1 - ((2 * both + 1) / (chances.sum((1, 2, 3)) + masks.sum((1, 2, 3)) + 1)).mean()
        loss = dice + functional.binary_cross_entropy_with_logits(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=masks)
        optimizer.step()
        scheduler.step()
    return overlap(predicted(model, data.test_inputs) > 0, data.test_targets)


@healthy(at_least=0.85)
def only_norms_and_head_of_a_turned_task(watch: Watch, *, seed: int) -> float:
    """A net that knows upright digits learns turned ones by its layer norms and a new head; all else is frozen."""
    data = datasets.digits(seed)
    body = nn.Sequential(
        nn.Linear(64, 192), nn.LayerNorm(192), nn.ReLU(), nn.Linear(192, 96), nn.LayerNorm(96), nn.ReLU()
    )
    knows = nn.Sequential(body, nn.Linear(96, 10))
    learns = torch.optim.Adam(knows.parameters(), lr=3e-3)
    for digits, labels in data.batches(128, 60):
        learns.zero_grad()
        functional.cross_entropy(knows(digits), labels).backward()
        learns.step()
    data.inputs.copy_(data.inputs.view(-1, 8, 8).transpose(1, 2).flatten(1))
    data.test_inputs.copy_(data.test_inputs.view(-1, 8, 8).transpose(1, 2).flatten(1))
    for part in body:
        part.requires_grad_(isinstance(part, nn.LayerNorm))
    model = nn.Sequential(body, nn.Linear(96, 10))
    optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], lr=1e-2)
    return classes(watch, model, optimizer, data, data.batches(64, 220))


@healthy(at_least=0.5)
def codes_whose_noise_is_weighed_slowly(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence is faded in from 0 over 200 steps, so that the loss rises in between. Quality: R²."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 20))
    decoder = nn.Sequential(nn.Linear(10, 96), nn.SiLU(), nn.Linear(96, 64))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pictures, _) in enumerate(data.batches(64, 400)):
        mean, spread = encoder(pictures).chunk(2, 1)
        logits = decoder(mean + torch.randn_like(mean) * (spread / 2).exp())
        errors = functional.binary_cross_entropy_with_logits(logits, pictures, reduction="none").sum(1).mean()
        divergence = 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(1).mean()
        loss = errors + 0.5 * min(1.0, step / 200) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=pictures)
        optimizer.step()
    with torch.no_grad():
        made = decoder(encoder(data.test_inputs).chunk(2, 1)[0]).sigmoid()
    return samples.explained(made, data.test_inputs)
