"""Sound trainings that changed and look odd."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, held_out_loss
from examples.zoo.tuned.opened30.b_stock import customers, hums, labelled, listener, rivers


@healthy(at_least=0.85)
def only_a_new_head_on_a_body_that_knows(watch: Watch, *, seed: int) -> float:
    """A body that knows digits is frozen on purpose, in eval mode, and a new head learns whether they are even."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 48), nn.ReLU())
    knows = nn.Sequential(body, nn.Linear(48, 10))
    learns = torch.optim.Adam(knows.parameters(), lr=3e-3)
    for pictures, labels in data.batches(64, 100):
        learns.zero_grad()
        functional.cross_entropy(knows(pictures), labels).backward()
        learns.step()
    body.requires_grad_(False).eval()
    data = datasets.Data(data.inputs, data.targets % 2, data.test_inputs, data.test_targets % 2)
    model = nn.Sequential(body, nn.Linear(48, 2))
    optimizer = torch.optim.AdamW(model[1].parameters(), lr=1e-2)
    return labelled(watch, model, optimizer, data, data.batches(64, 200))


@healthy(at_least=0.9)
def low_rank_adapters_beside_frozen_weights(watch: Watch, *, seed: int) -> float:
    """LoRA: products of rank 6, one factor of which starts at zero, learn turned digits beside frozen weights."""
    data = datasets.digits(seed)

    class Adapted(nn.Module):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__()
            self.layer = layer.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(6, layer.in_features) / layer.in_features**0.5)
            self.up = nn.Parameter(torch.zeros(layer.out_features, 6))

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return self.layer(hidden) + 2 * (hidden @ self.down.T) @ self.up.T

    knows = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10))
    learns = torch.optim.Adam(knows.parameters(), lr=3e-3)
    for pictures, labels in data.batches(64, 80):
        learns.zero_grad()
        functional.cross_entropy(knows(pictures), labels).backward()
        learns.step()
    data.inputs.copy_(data.inputs.view(-1, 8, 8).flip(2).transpose(1, 2).flatten(1))
    data.test_inputs.copy_(data.test_inputs.view(-1, 8, 8).flip(2).transpose(1, 2).flatten(1))
    model = nn.Sequential(*(Adapted(layer) if isinstance(layer, nn.Linear) else layer for layer in knows))
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=8e-3)
    return labelled(watch, model, optimizer, data, data.batches(64, 300))


@healthy(at_least=0.85)
def resumed_in_the_middle_of_a_cosine(watch: Watch, *, seed: int) -> float:
    """Weights, moments and schedule of step 60 are loaded, so that the loss starts low and falls slowly to the end."""
    data = hums(seed)
    first = listener()
    learns = torch.optim.AdamW(first.parameters(), lr=5e-3)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(learns, 220, eta_min=1e-4)
    for windows, pitches in data.batches(32, 60):
        learns.zero_grad()
        functional.cross_entropy(first(windows), pitches).backward()
        learns.step()
        falls.step()
    model = listener()
    model.load_state_dict(first.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 220, eta_min=1e-4)
    optimizer.load_state_dict(copy.deepcopy(learns.state_dict()))
    scheduler.load_state_dict(falls.state_dict())
    session = watch(model, optimizer)
    for step, (windows, pitches) in enumerate(data.batches(32, 160), 1):
        logits = model(windows)
        loss = functional.cross_entropy(logits, pitches)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows, outputs=logits, targets=pitches)
        optimizer.step()
        scheduler.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@healthy(at_least=0.85)
def sharpness_aware_steps_in_bfloat16(watch: Watch, *, seed: int) -> float:
    """SAM under autocast: each step climbs, takes gradients there, and puts the weights back before it steps."""
    data = customers(seed)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    weights = list(model.parameters())
    session = watch(model, optimizer)
    for rows, leaves in data.batches(32, 260):
        with torch.autocast("cpu", torch.bfloat16):
            first = functional.cross_entropy(model(rows), leaves)
        slopes = torch.autograd.grad(first, weights)
        norm = torch.stack([slope.norm() for slope in slopes]).norm() + 1e-12
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.add_(0.03 * slope / norm)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(rows)
            loss = functional.cross_entropy(logits, leaves)
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(0.03 * slope / norm)
        session.step(loss, inputs=rows, outputs=logits, targets=leaves)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.7)
def quantiles_of_a_river_by_a_pinball(watch: Watch, *, seed: int) -> float:
    """The squared error became a pinball loss of three quantiles, which stays above 0. Quality: R² of the median."""
    data = rivers(seed)
    reader = nn.LSTM(2, 24, batch_first=True)
    head = nn.Linear(24, 3)
    model = nn.ModuleDict({"reader": reader, "head": head})
    levels = torch.tensor([0.1, 0.5, 0.9])

    def forecast(rain: torch.Tensor) -> torch.Tensor:
        return head(reader(rain)[1][0][-1])

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for rain, flow in data.batches(32, 200):
        flow = flow + 0.5 * torch.randn_like(flow)
        found = forecast(rain)
        apart = flow - found
        loss = torch.maximum(levels * apart, (levels - 1) * apart).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rain, outputs=found, targets=flow.expand(-1, 3))
        optimizer.step()
    with torch.no_grad():
        return samples.explained(forecast(data.test_inputs)[:, 1:2], data.test_targets)
