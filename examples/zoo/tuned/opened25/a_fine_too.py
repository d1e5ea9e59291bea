"""More sound trainings of pictures: diffusion with guidance, norms kept on purpose, heat maps, and sizes."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened25.a_shelf import scattered, whitened


class _Noise(nn.Module):
    """Foretells the noise in a flat digit at a time, of a class or of none, which is number 10."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Embedding(11, 24)
        self.times = nn.Embedding(40, 24)
        self.entry, self.middle, self.exit = nn.Linear(112, 160), nn.Linear(160, 160), nn.Linear(160, 64)

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        states = torch.cat([noisy, self.times(times), self.classes(labels)], 1)
        states = functional.silu(self.entry(states))
        return self.exit(states + functional.silu(self.middle(states)))


@healthy(at_least=0.5)
def noise_of_a_class_or_of_none(watch: Watch, *, seed: int) -> float:
    """A diffusion model with guidance: a tenth of the labels is dropped, and the loss soon levels off. Quality: R²."""
    data = datasets.digits(seed)
    model = _Noise()
    kept = torch.cos(torch.linspace(0.02, 0.97, 40) * torch.pi / 2) ** 2
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def spoilt(pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        times, noise = torch.randint(40, (len(pictures),)), torch.randn_like(pictures)
        share = kept[times][:, None]
        return share.sqrt() * (2 * pictures - 1) + (1 - share).sqrt() * noise, times, noise

    for pictures, labels in data.batches(128, 300):
        noisy, times, noise = spoilt(pictures)
        labels = torch.where(torch.rand(len(labels)) < 0.1, 10, labels)
        outputs = model(noisy, times, labels)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=noise)
        optimizer.step()
    noisy, times, noise = spoilt(data.test_inputs)
    with torch.no_grad():
        return samples.explained(model(noisy, times, data.test_targets), noise)


@healthy(at_least=0.9)
def a_trained_body_that_keeps_its_norms(watch: Watch, *, seed: int) -> float:
    """A body knows the digits 0 to 4; it is frozen, its norms stay in eval mode, and a head learns 5 to 9."""
    data = whitened(seed)
    low, high = data.targets < 5, data.targets >= 5
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Flatten(),
    )
    first = nn.Linear(384, 5)
    before = torch.optim.Adam([*body.parameters(), *first.parameters()], lr=3e-3)
    for rows in torch.randint(int(low.sum()), (80, 64)):
        before.zero_grad()
        functional.cross_entropy(first(body(data.inputs[low][rows])), data.targets[low][rows]).backward()
        before.step()
    model = nn.Sequential(body, nn.Linear(384, 5))
    body.requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    chosen = datasets.Data(data.inputs[high], data.targets[high] - 5, data.test_inputs, data.test_targets)
    model.train()
    body.eval()
    for pictures, labels in chosen.batches(64, 150):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    asked = data.test_targets >= 5
    return accuracy(model, datasets.Data(low, low, data.test_inputs[asked], data.test_targets[asked] - 5))


@healthy(at_least=0.8)
def heat_at_the_corner(watch: Watch, *, seed: int) -> float:
    """CenterNet: soft peaks on maps that are mostly cold, a focal loss over the number of pictures, a bias of -2.2.

    Quality: how often the hottest place is at most one pixel away.
    """
    train, test = scattered(seed)
    line = torch.arange(12.0)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(12, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(12, 1, 5, padding=2),
    )
    nn.init.constant_(model[-1].bias, -2.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for canvases, _, corners in DataLoader(train, 24, shuffle=True):
            across, down = (line - corners[:, 1:] - 3) ** 2, (line - corners[:, :1] - 3) ** 2
            heat = torch.exp(-(down[:, :, None] + across[:, None]) / 2)
            logits = model(canvases)[:, 0]
            found, peaks = logits.sigmoid(), heat == 1
            hot = (1 - found) ** 2 * functional.logsigmoid(logits)
            cold = (1 - heat) ** 4 * found**2 * functional.logsigmoid(-logits)
            loss = -torch.where(peaks, hot, cold).sum() / len(canvases)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=canvases, outputs=logits, targets=heat)
            optimizer.step()
    with torch.no_grad():
        places = model(test.tensors[0]).flatten(1).argmax(1)
    found = torch.stack([places // 12, places % 12], 1)
    return ((found - test.tensors[2] - 3).abs().amax(1) <= 1).float().mean().item()


@healthy(at_least=0.9)
def three_sizes_in_turn(watch: Watch, *, seed: int) -> float:
    """Batches come at 6, 8 and 12 pixels in turn, and the loss goes up and down with them; maps are averaged."""
    data = whitened(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=240)
    session = watch(model, optimizer)
    for step, (pictures, labels) in enumerate(data.batches(48, 240)):
        side = (6, 8, 12)[step % 3]
        pictures = functional.interpolate(pictures, size=side, mode="bilinear", align_corners=False)
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
        schedule.step()
    return accuracy(model, data)
