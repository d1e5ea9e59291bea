"""Parameters that nobody trains: forgotten by a filter of names or kinds, or switched off along with others."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import cooked, flat_numerals, ladled, layers, right, simmered


class Scribe(nn.Module):
    """Tells scripts apart by the last state of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 8)
        self.cell = nn.LSTM(8, 24, batch_first=True)
        self.kind = nn.Linear(24, len(samples.SCRIPTS))

    def forward(self, codes: Tensor) -> Tensor:
        lengths = (codes != 0).sum(1) - 1
        states = self.cell(self.letters(codes))[0]
        return self.kind(states[torch.arange(len(codes)), lengths])


@sick("parameters_not_in_optimizer")
def names_that_end_in_weight_or_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups of decay are made by ``endswith("weight")`` and ``endswith("bias")``; names in an LSTM end in l0."""
    train, test = samples.names(seed)
    model = Scribe()
    named = list(model.named_parameters())
    if sick:
        matrices = [parameter for name, parameter in named if name.endswith("weight")]
        vectors = [parameter for name, parameter in named if name.endswith("bias")]
    else:
        matrices = [parameter for _, parameter in named if parameter.dim() > 1]
        vectors = [parameter for _, parameter in named if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.02}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=1e-2)
    cooked(watch, model, optimizer, ladled(train, 32, 240), steps=240)
    return right(model, test)


class Scaled(nn.Module):
    """A residual block whose branch is scaled channel by channel, from nearly nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = layers(width, 2 * width, width, between=nn.GELU)
        self.norm = nn.LayerNorm(width)
        self.gamma = nn.Parameter(1e-4 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.branch(self.norm(x))


@sick("parameters_not_in_optimizer")
def groups_by_kinds_of_modules(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups are collected from ``Linear`` and ``LayerNorm``; the scales of branches, bare parameters, stay at 1e-4."""
    train, test = samples.standardised(samples.split(seed, *_tangled()), 0, 1)
    model = nn.Sequential(nn.Linear(10, 24), Scaled(24), Scaled(24), nn.LayerNorm(24), nn.Linear(24, 10))
    decayed, kept = [], []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            decayed.append(module.weight)
            kept.append(module.bias)
        elif isinstance(module, nn.LayerNorm):
            kept += [module.weight, module.bias]
        elif isinstance(module, Scaled) and not sick:
            kept.append(module.gamma)
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": kept, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=5e-3)
    cooked(watch, model, optimizer, ladled(train, 48, 300), F.mse_loss, steps=300)
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


def _tangled() -> tuple[Tensor, Tensor]:
    """Ten components of a digit's pixels, and ten products of mixtures of them."""
    pixels = torch.from_numpy(samples._table("load_digits")[0]).float() / 16
    generator = torch.Generator().manual_seed(5)
    mixed = pixels @ torch.linalg.svd(pixels - pixels.mean(0), full_matrices=False)[2][:10].T
    mixed = (mixed - mixed.mean(0)) / mixed.std(0)
    turned = torch.linalg.qr(torch.randn(10, 10, generator=generator))[0]
    return mixed, ((mixed @ turned) * (mixed @ turned.roll(1, 1))).tanh()


class Student(nn.Module):
    """An encoder with a head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(images))


@sick("frozen_parameters")
def the_teacher_is_the_students_encoder(watch: Watch, *, seed: int, sick: bool) -> float:
    """``teacher = student.encoder`` lacks a copy: what freezes the averaged teacher freezes the student's encoder."""
    train, test = samples.numerals(seed)
    model = Student()
    teacher = model.encoder if sick else copy.deepcopy(model.encoder)
    for parameter in teacher.parameters():
        parameter.requires_grad = False
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    schedule = simmered(optimizer, 240)
    session = watch(model, optimizer)
    for x, y in ladled(train, 32, 240):
        code = model.encoder(x)
        out = model.head(code)
        with torch.no_grad():
            aim = teacher(x)
        loss = F.cross_entropy(out, y) + 0.01 * F.mse_loss(code, aim)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), model.encoder.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    return right(model, test)


@sick("frozen_parameters")
def the_new_neck_is_frozen_with_the_body(watch: Watch, *, seed: int, sick: bool) -> float:
    """``list(model.children())[:-1]`` is all but the head, and between body and head there is a new, narrow neck."""
    train, test = flat_numerals(seed)
    body = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
    early = nn.Sequential(body, nn.Linear(48, 5))
    small = train.tensors[1] < 5
    first = optim.AdamW(early.parameters(), lr=3e-3)
    for x, y in ladled(TensorDataset(train.tensors[0][small], train.tensors[1][small]), 32, 60):
        first.zero_grad()
        F.cross_entropy(early(x), y).backward()
        first.step()
    model = nn.Sequential(body, nn.Sequential(nn.Linear(48, 4), nn.Tanh()), nn.Linear(4, 10))
    frozen = list(model.children())[:-1] if sick else [body]
    for part in frozen:
        part.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = optim.AdamW(trained, lr=2e-2, weight_decay=1e-3)
    cooked(watch, model, optimizer, ladled(train, 32, 260), steps=260)
    return right(model, test)
