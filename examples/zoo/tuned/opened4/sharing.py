"""Samples that see one another, memory that is kept, data that is waited for."""

import io
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened4.material import (
    RowReader,
    convnet,
    f1,
    snippets,
)  # fmt: skip


@sick("batch_mixing")
def recurrence_along_the_batch(watch: Watch, *, seed, sick):
    """``batch_first=True`` is missing: the rows of a digit are taken for samples, and samples for time."""
    data = digits(seed)
    data = Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    model = RowReader(nn.GRU, 8, 40)
    model.recurrent.batch_first = not sick
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("batch_mixing")
def attention_weights_over_the_batch(watch: Watch, *, seed, sick):
    """``softmax(0)`` in an attention pooling: the weights of one place sum to one over the samples."""

    class Pooling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(98, 24)
            self.filters = nn.Conv1d(24, 48, 5)
            self.score = nn.Linear(48, 6)
            self.value = nn.Linear(48, 6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            features = self.filters(self.embedding(codes).mT).relu().mT
            weights = self.score(features).softmax(0 if sick else 1)
            return (weights * self.value(features)).sum(1)

    data, model = snippets(seed), Pooling()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(
        watch, model, optimizer, data, steps=150, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits, validate_every=50,
    )  # fmt: skip
    return f1(predicted(model, data.test_inputs), data.test_targets)


@sick("batch_mixing")
def self_attention_without_batch_first(watch: Watch, *, seed, sick):
    """The encoder layer takes (batch, rows, width) for (rows, batch, width); the head reads the last row."""

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(8, 32)
            self.places = nn.Parameter(torch.randn(8, 32) * 0.3)
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=not sick, norm_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.layer(self.enter(rows) + self.places)[:, -1])

    data, model = digits(seed), Reader()
    data = Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


def resident() -> float:
    """Returns the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@sick("memory_leak")
def losses_kept_with_their_graphs(watch: Watch, *, seed, sick):
    """For a running mean, the loss itself is kept; the job ends when it has grown by 150 MB."""
    data = digits(seed, images=True)
    model = convnet(24)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    session = watch(model, optimizer)
    history, first = [], 0.0
    for step, (images, labels) in enumerate(data.batches(96, 220)):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward(retain_graph=sick)
        history.append(loss if sick else loss.item())
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        if step == 10:
            first = resident()
        if step > 10 and resident() > first + 150:
            break
    return accuracy(model, data)


@sick("memory_leak")
def hook_that_collects_features(watch: Watch, *, seed, sick):
    """A forward hook for a picture of the features appends every output; the job has 80 MB to grow.

    The repaired one keeps numbers. Tensors of one element would do harm, too: they lie between large blocks of memory
    that are free, and keep the allocator from giving them back.
    """
    data = snippets(seed)
    model = nn.Sequential(
        nn.Embedding(98, 32), nn.Unflatten(1, (1, 48)), nn.Conv2d(1, 64, (5, 32)), nn.ReLU(), nn.AdaptiveMaxPool2d(1),
        nn.Flatten(), nn.Linear(64, 6),
    )  # fmt: skip
    seen: list[torch.Tensor | float] = []

    def keep(module, inputs, output):
        seen.append(output if sick else output.detach().mean().item())

    model[0].register_forward_hook(keep)
    model[3].register_forward_hook(keep)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    first = 0.0
    for step, (codes, labels) in enumerate(data.batches(128, 200)):
        optimizer.zero_grad()
        logits = model(codes)
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
        if step == 10:
            first = resident()
        if step > 10 and resident() > first + 80:
            break
    return f1(predicted(model, data.test_inputs), data.test_targets)


@sick("data_loading_bound", slow=True)
def archive_unpacked_for_every_sample(watch: Watch, *, seed, sick):
    """``archive["images"][row]`` decompresses the whole array each time; the job has 1.5 seconds of processor time."""
    data = digits(seed, images=True)
    file = io.BytesIO()
    np.savez_compressed(file, images=data.inputs.numpy())
    file.seek(0)
    archive = np.load(file)
    source = archive if sick else {"images": archive["images"]}
    model = convnet(12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    end = time.process_time() + 1.5
    while time.process_time() < end:
        rows = torch.randint(len(data.targets), (32,))
        images = torch.from_numpy(np.stack([source["images"][row] for row in rows.tolist()]))
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, data.targets[rows])
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)
