"""Gradients at a wrong scale: sums where means are expected, and clipping that takes nearly all."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened29.a_stock import advance, drawn, judged


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "saturated_units"), margin=0.05)
def a_sum_over_all_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` adds up 640 characters, at a rate for a mean; the twin has the mean."""
    data = datasets.text(seed, length=20)
    letters, reader = nn.Embedding(datasets.CHARACTERS, 32), nn.RNN(32, 96, batch_first=True)
    head = nn.Linear(96, datasets.CHARACTERS)
    model = nn.ModuleList([letters, reader, head])
    criterion = nn.CrossEntropyLoss(reduction="sum" if sick else "mean")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    for texts, following in data.batches(32, 250):
        logits = head(reader(letters(texts))[0])
        loss = criterion(logits.flatten(0, 1), following.flatten())
        advance(session, optimizer, loss, texts, logits, following)
    with torch.no_grad():
        found = head(reader(letters(data.test_inputs))[0]).argmax(-1)
    return (found == data.test_targets).float().mean().item()


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"), margin=0.1)
def a_norm_of_a_private_recipe(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` got 0.001 from another project, and SGD creeps; the twin's 1.0 takes little."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.Hardswish(), nn.Flatten(), nn.Linear(432, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(48, 200):
        optimizer.zero_grad()
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.001 if sick else 1.0)
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def micro_batches_for_a_small_gpu(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve micro-batches of four are added up for a small GPU, at the rate of one batch; the twin divides by 12."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.12, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(120):
        optimizer.zero_grad()
        for _ in range(12):
            pictures, labels = drawn(4, *train.tensors)
            logits = model(pictures)
            loss = functional.cross_entropy(logits, labels)
            (loss if sick else loss / 12).backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])
