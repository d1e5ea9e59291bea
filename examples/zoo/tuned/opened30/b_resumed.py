"""Training goes on from a checkpoint, after it worked."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened30.b_stock import hums, labelled


def _deep() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before in (1, *[10] * 6):
        layers += [nn.Conv1d(before, 10, 5, padding=2, bias=False), nn.BatchNorm1d(10), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(10, 4))


@sick("wrong_mode", margin=0.05)
def resumed_after_a_check_of_the_checkpoint(watch: Watch, *, seed: int, sick: bool) -> float:
    """An early checkpoint is loaded, put to eval and judged, and trained on like this; the twin calls ``train``."""
    data = hums(seed)
    first = _deep()
    learns = torch.optim.SGD(first.parameters(), lr=0.05, momentum=0.9)
    for windows, pitches in data.batches(32, 3):
        learns.zero_grad()
        functional.cross_entropy(first(windows), pitches).backward()
        learns.step()
    model = _deep()
    model.load_state_dict(first.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer.load_state_dict(learns.state_dict())
    model.eval()
    samples.accuracy(predicted(model, data.test_inputs), data.test_targets)
    model.train(not sick)
    return labelled(watch, model, optimizer, data, data.batches(32, 150))


@sick("schedule_collapsed", also=("learning_rate_too_low", "no_update"), margin=0.05)
def new_data_at_the_end_of_an_old_cosine(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training goes on with turned digits and the old optimizer's state, whose rate has decayed to almost nothing.

    A new cosine starts from there; the twin sets the rate of each group to its first value.
    """
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    learns = torch.optim.AdamW(model.parameters(), lr=4e-3)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(learns, 80, eta_min=1e-8)
    for pictures, labels in data.batches(64, 80):
        learns.zero_grad()
        functional.cross_entropy(model(pictures), labels).backward()
        learns.step()
        falls.step()
    data.inputs.copy_(data.inputs.view(-1, 8, 8).transpose(1, 2).flatten(1))
    data.test_inputs.copy_(data.test_inputs.view(-1, 8, 8).transpose(1, 2).flatten(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    optimizer.load_state_dict(learns.state_dict())
    if not sick:
        for group in optimizer.param_groups:
            group["lr"] = 4e-3
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 220)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 220):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def resumed_behind_the_epoch_that_thaws(watch: Watch, *, seed: int, sick: bool) -> float:
    """``if epoch == 2`` thaws the encoder, and a resumed run begins at epoch 3; the twin's condition is ``>=``."""
    train, (names, scripts) = (part.tensors for part in samples.names(seed))
    letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
    reader = nn.GRU(24, 32, batch_first=True)
    head = nn.Linear(32, len(samples.SCRIPTS))
    model = nn.ModuleDict({"letters": letters, "reader": reader, "head": head})
    encoder = [*letters.parameters(), *reader.parameters()]

    def read(batch: torch.Tensor) -> torch.Tensor:
        return head(reader(letters(batch))[0].amax(1))

    for weight in encoder:
        weight.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for epoch in range(3, 13):
        if epoch == 2 if sick else epoch >= 2:
            for weight in encoder:
                weight.requires_grad_(True)
        for rows in torch.randperm(len(train[0])).split(32):
            logits = read(train[0][rows])
            loss = functional.cross_entropy(logits, train[1][rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[0][rows], outputs=logits, targets=train[1][rows])
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(read(names), scripts)
