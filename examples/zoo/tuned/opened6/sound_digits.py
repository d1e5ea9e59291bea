"""Sound trainings on digits, whose practice looks like a mistake."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened6.glyph_project import Glyphs, Reader, Trainer, loader, scaled
from examples.zoo.tuned.opened6.likeness import digit_rows


@healthy(at_least=0.8)
def pictures_mixed_in_pairs(watch: Watch, *, seed: int) -> float:
    """Mixup: each input is a mixture of two, and so is its target; the loss cannot come near zero."""
    model = Reader()
    trainer = Trainer(watch, model, torch.optim.AdamW(model.parameters(), lr=4e-3))
    source = np.random.default_rng(seed)
    for _ in range(4):
        for images, labels in loader(seed):
            share = float(source.beta(0.4, 0.4))
            other = torch.randperm(len(images))
            wanted = functional.one_hot(labels, 10).float()
            trainer.batch(share * images + (1 - share) * images[other], share * wanted + (1 - share) * wanted[other])
    return trainer.accuracy(loader(seed, train=False))


@healthy(at_least=0.85)
def rates_that_start_again(watch: Watch, *, seed: int) -> float:
    """Warm restarts: the rate falls to nearly nothing, and jumps up again, three times."""
    model = Reader(norm=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    plan = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 30)
    trainer = Trainer(watch, model, optimizer, after_step=plan.step)
    for _ in range(4):
        trainer.epoch(loader(seed))
        with trainer.session.validating():
            trainer.session.validation(1 - trainer.accuracy(loader(seed, train=False, batch=200)))
    return trainer.accuracy(loader(seed, train=False))


@healthy(at_least=0.85)
def a_body_that_was_trained_before(watch: Watch, *, seed: int) -> float:
    """Transfer: a body learnt to tell even digits from odd ones, is frozen, and gets a head for all ten."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
    parity = nn.Linear(128, 2)
    before = torch.optim.Adam([*body.parameters(), *parity.parameters()], lr=5e-3)
    for _ in range(80):
        picked = torch.randint(len(rows), (64,))
        before.zero_grad()
        functional.cross_entropy(parity(body(rows[picked])), labels[picked] % 2).backward()
        before.step()
    model = nn.Sequential(body.requires_grad_(False), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(120):
        picked = torch.randint(len(rows), (48,))
        scores = model(rows[picked])
        loss = functional.cross_entropy(scores, labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
    with torch.no_grad():
        return float((model(test_rows).argmax(1) == test_labels).float().mean())


@healthy(at_least=0.85)
def from_clear_to_faint(watch: Watch, *, seed: int) -> float:
    """A curriculum: batches are drawn from the darkest third at first, and from all in the end."""
    train, test = Glyphs(seed, train=True), Glyphs(seed, train=False)
    order = train.images.mean((1, 2, 3)).argsort(descending=True)
    images, labels = scaled(train.images)[order], torch.tensor(train.labels)[order]
    model = Reader()
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3))
    for step in range(140):
        known = int(len(order) * min(1.0, 0.33 + step / 120))
        picked = torch.randint(known, (48,))
        trainer.batch(images[picked], labels[picked])
    return trainer.accuracy([(scaled(test.images), torch.tensor(test.labels))])


@healthy(at_least=0.8)
def a_tenth_of_the_labels_wrong(watch: Watch, *, seed: int) -> float:
    """One label in ten is wrong, and a bounded loss takes that in its stride."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    wrong = torch.rand(len(labels)) < 0.1
    labels = torch.where(wrong, torch.randint(10, labels.shape), labels)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(160):
        picked = torch.randint(len(rows), (48,))
        scores = model(rows[picked])
        own = scores.softmax(1).gather(1, labels[picked][:, None])
        loss = ((1 - own.clamp_min(1e-6) ** 0.3) / 0.3).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return float((model(test_rows).argmax(1) == test_labels).float().mean())


@healthy(at_least=0.8)
def sums_of_sets(watch: Watch, *, seed: int) -> float:
    """Sets of digits are added up: a sum over the members of each set, and a regression of their total."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    each = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    model = nn.ModuleDict({"each": each, "all": nn.Linear(8, 1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)

    def total(members: torch.Tensor) -> torch.Tensor:
        return model["all"](model["each"](members).sum(1))[:, 0]

    for _ in range(200):
        picked = torch.randint(len(rows), (32, 3))
        guess, wanted = total(rows[picked]), (labels[picked].sum(1) - 13.5) / 5.0
        loss = functional.mse_loss(guess, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=guess, targets=wanted)
        optimizer.step()
    picked = torch.randint(len(test_rows), (300, 3))
    wanted = (test_labels[picked].sum(1) - 13.5) / 5.0
    with torch.no_grad():
        return 1 - float((total(test_rows[picked]) - wanted).square().mean() / wanted.var())
