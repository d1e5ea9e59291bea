"""Trainings that waste memory or time; the quality is what they leave of it."""

import time

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick


@sick("memory_leak", margin=0.5)
def activations_kept_for_later(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden activations are collected for a look at them, with their graphs; 1 if the collection holds no tensor."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(768, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session, kept = watch(model, optimizer), []
    for inputs, labels in data.batches(192, 120):
        optimizer.zero_grad()
        hidden = model[0](inputs)
        outputs = model[1](hidden)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        kept.append((hidden, inputs.repeat(1, 8)) if sick else hidden.mean().item())
    return sum(isinstance(one, float) for one in kept) / len(kept)


@sick("memory_leak", margin=0.5)
def a_smoothed_loss_with_its_graphs(watch: Watch, *, seed: int, sick: bool) -> float:
    """The moving average of the loss holds the graph of every step; quality: 1 if it is a number."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session, smooth = watch(model, optimizer), 0.0
    for inputs, targets in data.batches(32, 100):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        smooth = 0.98 * smooth + 0.02 * (loss if sick else loss.item())
    return float(isinstance(smooth, float))


class _SlowDigits(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Digits that are decoded one by one, as files would be."""

    def __init__(self, data: datasets.Data, delay_s: float) -> None:
        self.data, self.delay_s = data, delay_s

    def __len__(self) -> int:
        return len(self.data.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(self.delay_s)
        return self.data.inputs[index], self.data.targets[index]


@sick("data_loading_bound", margin=0.2)
def samples_read_one_by_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each sample takes half a millisecond to read, in the training's process; quality is the model's share of time."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader: object = torch.utils.data.DataLoader(_SlowDigits(data, 5e-4), batch_size=32, shuffle=True)
    if not sick:
        loader = list(data.batches(32, 60))
    session, begun, trained = watch(model, optimizer), time.perf_counter(), 0.0
    for _, (inputs, labels) in zip(range(60), loader, strict=False):
        ready = time.perf_counter()
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        trained += time.perf_counter() - ready
    return trained / (time.perf_counter() - begun)
