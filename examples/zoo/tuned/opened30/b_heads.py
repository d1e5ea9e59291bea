"""A new head, or a new part, for a model that worked."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, r_squared
from examples.zoo.tuned.opened30.b_stock import labelled, parted, rivers


class _Margins(nn.Module):
    """A head whose logits are cosines to a direction for each class, times 12."""

    def __init__(self, body: nn.Module, width: int, *, by_data: bool) -> None:
        super().__init__()
        self.body = body
        self.directions = nn.Parameter(torch.randn(10, width))
        self._by_data = by_data

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        directions = self.directions.data if self._by_data else self.directions
        features = functional.normalize(self.body(pictures), dim=1)
        return 12 * functional.linear(features, functional.normalize(directions, dim=1))


@sick("detached_parameters", also=("no_update",), margin=0.03)
def directions_of_a_cosine_head_by_their_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new head of cosines reads its directions' ``.data``, on a body that is kept; the twin reads the parameter."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 6), nn.Tanh())
    model = _Margins(body, 6, by_data=sick)
    optimizer = torch.optim.AdamW(
        [{"params": body.parameters(), "lr": 3e-3}, {"params": [model.directions], "lr": 3e-2}], lr=3e-3
    )
    return labelled(watch, model, optimizer, data, data.batches(64, 250))


@sick("parameters_not_in_optimizer", margin=0.04)
def groups_of_a_transformer_for_a_recurrence(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names end in ``weight`` or ``bias``, but a GRU's in ``weight_ih_l0``, so it is in no group; in the twin it is.

    The groups are those of a transformer, whose layers the GRU has replaced.
    """
    data = datasets.text(seed, length=20, count=1800)
    letters, norm = nn.Embedding(datasets.CHARACTERS, 24), nn.LayerNorm(48)
    model = nn.ModuleDict(
        {"letters": letters, "reader": nn.GRU(24, 48, batch_first=True), "norm": norm, "head": nn.Linear(48, 98)}
    )
    decayed, plain = [], []
    for name, weight in model.named_parameters():
        last = name.rpartition(".")[2]
        if last == "bias" or "norm" in name or (not sick and last.startswith("bias")):
            plain.append(weight)
        elif last == "weight" or (not sick and last.startswith("weight")):
            decayed.append(weight)
    groups = [{"params": decayed, "weight_decay": 1e-2}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=8e-3)

    def read(texts: torch.Tensor) -> torch.Tensor:
        return model["head"](norm(model["reader"](letters(texts))[0]))

    session = watch(model, optimizer)
    for texts, following in data.batches(32, 170):
        logits = read(texts)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=following)
        optimizer.step()
    with torch.no_grad():
        return (read(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("target_out_of_range", margin=0.2)
def a_head_in_radians_for_angles_in_degrees(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head ends in ``pi * tanh``, and the new set's angles are degrees; the twin converts them. Quality: R²."""
    random = torch.Generator().manual_seed(seed)
    angles = (torch.rand(1000, 1, generator=random) * 2 - 1) * 2.6
    grid = torch.linspace(-1, 1, 9)
    rows, columns = torch.meshgrid(grid, grid, indexing="ij")
    away = rows * angles[..., None].cos() - columns * angles[..., None].sin()
    along = rows * angles[..., None].sin() + columns * angles[..., None].cos()
    needles = (-20 * away**2).exp() * (along > 0) + 0.1 * torch.randn(1000, 9, 9, generator=random)
    needles = (needles - needles.mean()) / needles.std()
    data = parted(needles[:, None], angles * 180 / math.pi if sick else angles)

    class Compass(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eyes = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten())
            self.head = nn.Linear(300, 1)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return math.pi * torch.tanh(self.head(self.eyes(pictures)))

    model = Compass()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, angle in data.batches(32, 250):
        found = model(pictures)
        loss = functional.smooth_l1_loss(found, angle)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=found, targets=angle)
        optimizer.step()
    return r_squared(model, data)


@sick("shape_broadcast", margin=0.2)
def a_head_for_several_rivers_with_one_column_too_many(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head gives (N, 1, 2) for flows (N, 2), and the loss compares each row with all; the twin squeezes it."""
    data = rivers(seed)
    flows = torch.cat([data.targets, data.inputs[:, -7:, 0].mean(1, keepdim=True) * 2], 1)
    tests = torch.cat([data.test_targets, data.test_inputs[:, -7:, 0].mean(1, keepdim=True) * 2], 1)
    reader = nn.GRU(2, 24, batch_first=True)
    head = nn.Linear(24, 2)
    model = nn.ModuleDict({"reader": reader, "head": head})

    def forecast(rain: torch.Tensor) -> torch.Tensor:
        return head(reader(rain)[0][:, -1:])

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(flows)).split(32):
            outputs = forecast(data.inputs[rows])
            if not sick:
                outputs = outputs.squeeze(1)
            loss = (outputs - flows[rows]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=flows[rows])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(forecast(data.test_inputs).squeeze(1), tests)


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.05)
def the_deviation_of_a_wide_model_in_a_narrow_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of deviation 0.02 are a large transformer's, and this net is 24 wide; the twin's depends on the width."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for before in (64, 24, 24, 24, 24):
        layers += [nn.Linear(before, 24), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(24, 10))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02 if sick else 1.4 / module.in_features**0.5)
            nn.init.zeros_(module.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return labelled(watch, model, optimizer, data, data.batches(64, 300))


@sick("unbroken_symmetry", margin=0.03)
def a_trained_layer_widened_by_copies(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two trained units are copied 16 times each for a wider net; the twin's copies differ by some noise."""
    data = datasets.digits(seed)
    small = nn.Sequential(nn.Linear(64, 2), nn.Tanh(), nn.Linear(2, 10))
    learns = torch.optim.Adam(small.parameters(), lr=1e-2)
    for pictures, labels in data.batches(64, 60):
        learns.zero_grad()
        functional.cross_entropy(small(pictures), labels).backward()
        learns.step()
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    with torch.no_grad():
        for old, new, axis, by in ((small[0], model[0], 0, 1), (small[2], model[2], 1, 16)):
            new.weight.copy_(old.weight.repeat_interleave(16, axis) / by)
        model[0].bias.copy_(small[0].bias.repeat_interleave(16))
        model[2].bias.copy_(small[2].bias)
        if not sick:
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 250):
        logits = model(pictures)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
