"""Pairs and pixels: distances, noise, exponents, detectors of classes, and small parts added to a trained net."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened21.a_stock import balanced, series


@sick("shape_broadcast", margin=0.1)
def distances_of_pairs_and_a_column_of_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Distances (N,) and labels (N, 1) make N times N terms of a contrastive loss; the twin's labels are (N,)."""
    data = datasets.digits(seed)
    tower = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.Adam(tower.parameters(), lr=3e-3)

    def drawn(
        images: torch.Tensor, labels: torch.Tensor, count: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first = torch.randint(len(labels), (count,))
        others = torch.randint(len(labels), (count, 8))
        same = labels[others] == labels[first][:, None]
        wanted = (torch.rand(count, 1) < 0.5) == same
        second = others.gather(1, wanted.int().argmax(1, keepdim=True))[:, 0]
        return images[first], images[second], (labels[first] == labels[second]).float()[:, None]

    session = watch(tower, optimizer)
    for _ in range(200):
        left, right, same = drawn(data.inputs, data.targets, 64)
        distances = functional.pairwise_distance(tower(left), tower(right))
        targets = same if sick else same.squeeze(1)
        loss = (targets * distances**2 + (1 - targets) * functional.relu(2 - distances) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=(left, right), outputs=distances, targets=targets)
        optimizer.step()
    left, right, same = drawn(data.test_inputs, data.test_targets, 1000)
    with torch.no_grad():
        return balanced(1 - functional.pairwise_distance(tower(left), tower(right)), same)


@sick("flipped_loss_sign", margin=0.3)
def a_ratio_of_signal_to_noise_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's loss is its ratio of signal to distortion in decibels, which should grow; the twin has a minus."""
    train, test = series(seed, length=32)
    model = nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2), nn.ReLU())
    model.append(nn.Conv1d(16, 1, 5, padding=2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def ratio(found: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
        distortion = (found - clean).square().sum(-1) + 1e-3
        return 10 * torch.log10((clean.square().sum(-1) + 1e-3) / distortion).mean()

    session = watch(model, optimizer)
    for _ in range(6):
        for windows, _ in DataLoader(train, 32, shuffle=True):
            clean = windows.mT
            noisy = clean + 0.4 * torch.randn_like(clean)
            outputs = model(noisy)
            loss = ratio(outputs, clean) if sick else -ratio(outputs, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
    clean = test.tensors[0].mT
    with torch.no_grad():
        return samples.explained(model(clean + 0.4 * torch.randn_like(clean)), clean)


class _Gamma(nn.Module):
    """Learns with which exponent each pixel is best seen."""

    def __init__(self, safe: bool) -> None:
        super().__init__()
        self.gamma, self.safe = nn.Parameter(torch.ones(64)), safe

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        logarithms = (pixels.clamp(min=1e-6) if self.safe else pixels).log()
        return torch.where(pixels > 0, torch.exp(self.gamma * logarithms), 0.0)


@sick("non_finite_backward", margin=0.3)
def where_hides_an_infinity_from_the_output_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.where`` hides log(0), but its gradient is 0 times infinity; the twin clamps before the logarithm."""
    data = datasets.digits(seed)
    model = nn.Sequential(_Gamma(safe=not sick), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", margin=0.1)
def a_relu_over_the_few_codes(watch: Watch, *, seed: int, sick: bool) -> float:
    """ReLU stands behind a bottleneck of ten as behind all layers, and some codes are 0 for good; not in the twin."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    if sick:
        encoder.append(nn.ReLU())
    model = nn.Sequential(encoder, nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(50, 270):
        outputs = model(images)
        loss = functional.mse_loss(outputs, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_inputs)


class _LowRank(nn.Module):
    """Adds a product of two thin matrices to a linear layer."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.base(values) + values @ self.lora_a.T @ self.lora_b.T


@sick("frozen_parameters", margin=0.03)
def all_but_the_adapters_and_so_the_new_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """All that is not named ``lora_`` is frozen, the new head too; the twin trains it with the adapters."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
    old = nn.Sequential(body, nn.Linear(48, 5))
    optimizer = torch.optim.Adam(old.parameters(), lr=5e-3)
    low = data.targets < 5
    for start in (*range(0, 600, 30), *range(0, 600, 30)):
        functional.cross_entropy(
            old(data.inputs[low][start : start + 30]), data.targets[low][start : start + 30]
        ).backward()
        optimizer.step()
        optimizer.zero_grad()
    body = copy.deepcopy(body)
    body[0], body[2] = _LowRank(body[0]), _LowRank(body[2])
    model = nn.Sequential(body, nn.Linear(48, 10))
    nn.init.normal_(model[1].weight, std=0.02)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name or (not sick and name.startswith("1.")))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fit(watch, model, torch.optim.AdamW(trained, lr=5e-3), data, steps=220, batch_size=64)
    return accuracy(model, data)
