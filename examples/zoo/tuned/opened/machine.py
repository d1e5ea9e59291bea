"""Memory, time and narrow numbers: what the machine has to bear."""

import json
import time
import zlib
from typing import Any

import torch
from torch import nn
from torch.nn import functional as tnf
from torch.utils.data import DataLoader, Dataset, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


def _net(features: int = 64, classes: int = 10, hidden: int = 40) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@sick("memory_leak", margin=0.5)
def a_hook_that_keeps_every_output(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hook for a plot of activations appends each output, with its graph, to a list that nothing empties."""
    train, _ = samples.scenes(seed, count=3000)
    net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 8, 3), nn.Flatten(), nn.Linear(288, 2))
    seen: list[torch.Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        seen.append(output if sick else output.detach().mean())

    net[0].register_forward_hook(keep)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(4):
        for images, labels in DataLoader(train, 100, shuffle=True):
            logits = net(images)
            loss = tnf.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return 1.0 - sum(one.requires_grad for one in seen) / len(seen)


class _Packed(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Digits as compressed JSON, unpacked whenever one is asked for."""

    def __init__(self, rows: TensorDataset) -> None:
        self.packed = [
            (zlib.compress(json.dumps(image.repeat(1, 5, 5).tolist()).encode()), label)
            for image, label in zip(*rows.tensors, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        packed, label = self.packed[index]
        return torch.tensor(json.loads(zlib.decompress(packed)))[:, :8, :8], label


@sick("data_loading_bound", margin=0.2)
def json_unpacked_for_each_sample(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each sample is unpacked and parsed in the training's process; quality is the model's share of time."""
    train, _ = samples.numerals(seed)
    train = TensorDataset(*(column[:300] for column in train.tensors))
    packed = _Packed(train)
    rows: Dataset[tuple[torch.Tensor, ...]] = (
        packed if sick else TensorDataset(*(torch.stack(c) for c in zip(*packed, strict=True)))
    )
    net = _net(hidden=256)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    session, trained, begun = watch(net, optimizer), 0.0, time.perf_counter()
    for _ in range(3):
        for images, labels in DataLoader(rows, 10, shuffle=True):
            ready = time.perf_counter()
            logits = net(images)
            loss = tnf.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            trained += time.perf_counter() - ready
    return trained / (time.perf_counter() - begun)


@sick("fp16_underflow")
def a_weight_of_a_millionth_in_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss has a weight of 1e-6 under autocast to float16; the twin scales it by hand before ``backward``."""
    train, test = samples.halves(seed)
    net = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-16)
    scale = 1.0 if sick else 2.0**16
    session = watch(net, optimizer)
    for _ in range(8):
        for upper, lower in DataLoader(train, 64, shuffle=True):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                painted = net(upper)
            loss = 1e-6 * tnf.mse_loss(painted.float(), lower)
            (loss * scale).backward()
            for parameter in net.parameters():
                if parameter.grad is not None:
                    parameter.grad /= scale
            session.step(loss, inputs=upper, outputs=painted, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(net(test.tensors[0]), test.tensors[1])
