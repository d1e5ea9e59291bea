"""Sound trainings of a net that was trained before, or that learns from another one."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy


def _judge(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def thawed_layer_by_layer(watch: Watch, *, seed: int) -> float:
    """A net trained on digits below 6 learns all: first its head alone, then everything at rates by depth."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    known = train.tensors[1] < 6
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(5):
        for images, labels in DataLoader(TensorDataset(*(one[known] for one in train.tensors)), 40, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            before.step()
    model[5] = nn.Linear(64, 10)
    body = [*model[1].parameters(), *model[3].parameters()]
    rates = [(model[1], 3e-4), (model[3], 1e-3), (model[5], 5e-3)]
    optimizer = torch.optim.AdamW([{"params": layer.parameters(), "lr": rate} for layer, rate in rates])
    session = watch(model, optimizer)
    for epoch in range(5):
        for parameter in body:
            parameter.requires_grad_(epoch >= 2)
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _judge(model, test)


@healthy(at_least=0.85)
def low_rank_beside_frozen_gates(watch: Watch, *, seed: int) -> float:
    """A net trained on small digits is frozen but for its norms and two low-rank matrices, the second of them zero."""
    train, test = samples.numerals(seed)
    base = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 10))
    before = torch.optim.Adam(base.parameters(), lr=3e-3)
    small = train.tensors[1] < 5
    for _ in range(4):
        for images, labels in DataLoader(TensorDataset(*(one[small] for one in train.tensors)), 40, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(base(images), labels).backward()
            before.step()
    base.requires_grad_(False)
    base[2].requires_grad_(True)

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = base
            self.a, self.b = nn.Linear(96, 6, bias=False), nn.Linear(6, 10)
            nn.init.zeros_(self.b.weight)
            nn.init.zeros_(self.b.bias)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            hidden = self.base[:4](images)
            return self.base[4](hidden) + self.b(self.a(hidden))

    model = Adapted()
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _judge(model, test)


@healthy(at_least=0.8)
def a_slow_teacher(watch: Watch, *, seed: int) -> float:
    """Mean teacher: few labels, and a moving average of the weights whose outputs are targets without gradients."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    teacher = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    images, labels = train.tensors
    for step in range(200):
        known, other = torch.randint(300, (32,)), torch.randint(len(images), (64,))
        inputs = torch.cat([images[known], images[other]])
        logits = model(inputs + 0.2 * torch.randn(inputs.shape))
        wanted = teacher(images[other]).softmax(1)
        apart = (logits[32:].softmax(1) - wanted).square().sum(1).mean()
        loss = functional.cross_entropy(logits[:32], labels[known]) + min(1.0, step / 100) * apart
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
        for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast.detach(), 0.05)
    return _judge(teacher, test)
