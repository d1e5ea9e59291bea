"""Sound trainings with a likelihood, restarts, or two pictures in a batch; and features in a wrong mode or range."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened23.a_pretext import body, centred
from examples.zoo.tuned.opened23.a_stock import grey, overlap, placed


class _Flow(nn.Module):
    """Four couplings, each of which scales and moves one half of a row by what the other half says."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(size // 2, 48), nn.ReLU(), nn.Linear(48, size)) for _ in range(4)
        )
        for part in self.parts:
            nn.init.zeros_(part[-1].weight)
            nn.init.zeros_(part[-1].bias)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        volume = rows.new_zeros(len(rows))
        for part in self.parts:
            kept, changed = rows.chunk(2, 1)
            scale, shift = part(kept).chunk(2, 1)
            scale = torch.tanh(scale)
            rows = torch.cat([changed * scale.exp() + shift, kept], 1)
            volume = volume + scale.sum(1)
        return rows, volume


@healthy(at_least=1.2)
def a_likelihood_of_whole_patches(watch: Watch, *, seed: int) -> float:
    """A normalising flow of 4x4 pixels, whose loss falls below 0. Quality: nats a pixel above a normal's."""
    train, test = (part.tensors[0].flatten(1) for part in grey(seed, size=4))
    model = _Flow(16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(16):
        for (rows,) in DataLoader(TensorDataset(train), 64, shuffle=True):
            codes, volume = model(rows + 0.05 * torch.randn_like(rows))
            loss = (0.5 * codes.square().sum(1) - volume).mean() / 16
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            session.step(loss, inputs=rows, outputs=codes)
            optimizer.step()
    with torch.no_grad():
        codes, volume = model(test + 0.05 * torch.randn_like(test))
        return 0.5 - ((0.5 * codes.square().sum(1) - volume).mean() / 16).item()


@healthy(at_least=0.93)
def three_warm_restarts(watch: Watch, *, seed: int) -> float:
    """The rate falls along a cosine and starts again twice; at each restart the loss rises for a while."""
    data = centred(seed)
    model = nn.Sequential(body(32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=40, T_mult=2, eta_min=1e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 280):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
        schedule.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def two_canvases_in_a_batch(watch: Watch, *, seed: int) -> float:
    """Memory has room for two canvases, norms are of groups of channels, and the loss jumps from batch to batch."""
    train, test = placed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.GroupNorm(3, 12),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.GroupNorm(3, 12),
        nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(1):
        for pictures, masks, _ in DataLoader(train, 2, shuffle=True):
            outputs = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(outputs, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@sick("wrong_mode", margin=0.03)
def evaluated_at_once_and_never_set_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """Before the first step the net is judged in ``eval()``, and it stays there, norms and all; the twin goes back."""
    train, test = placed(seed)
    layers: list[nn.Module] = []
    for incoming in (1, *[12] * 7):
        layers += [nn.Conv2d(incoming, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv2d(12, 1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    with session.validating(), torch.no_grad():
        before = functional.binary_cross_entropy_with_logits(model(test.tensors[0])[:, 0], test.tensors[1])
    session.validation(before.item())
    if not sick:
        model.train()
    for _ in range(3):
        for pictures, masks, _ in DataLoader(train, 24, shuffle=True):
            outputs = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(outputs, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@sick("saturated_units", margin=0.05)
def bits_that_are_hard_from_the_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """Deep hashing: ``tanh(beta * x)`` becomes a sign as beta grows from 1 to 4; here it is 60 from the first step."""
    data = centred(seed)
    trunk, norm, head = body(16), nn.LayerNorm(16), nn.Linear(16, 10)
    model = nn.Sequential(trunk, norm, nn.Tanh(), head)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (pictures, labels) in enumerate(data.batches(64, 200)):
        with torch.no_grad():
            norm.weight.fill_(60.0 if sick else 1 + 3 * step / 200)
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def depth_where_no_light_came_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """Depth is 1 / disparity, and a few pixels of a stereo camera have none: infinity; the twin sets them to 0."""
    data = datasets.digits(seed, images=True)
    random = torch.Generator().manual_seed(seed)

    def depth(pictures: torch.Tensor) -> torch.Tensor:
        disparity = (1 + pictures) * (torch.rand(pictures.shape, generator=random) > 0.001)
        found = 1 / disparity
        return found if sick else torch.where(found.isfinite(), (found - 0.8) / 0.2, 0.0)

    model = nn.Sequential(body(), nn.ReLU(), nn.Linear(64, 10))
    data = datasets.Data(depth(data.inputs), data.targets, depth(data.test_inputs), data.test_targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 200):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    finite = all(value.isfinite().all() for value in model.parameters())
    return accuracy(model, data) if finite else float("nan")
