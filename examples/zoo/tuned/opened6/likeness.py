"""Embeddings of halves and copies of digits, and experts that share them."""

import copy

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick


def digit_rows(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns flat digits of mean 0 and deviation 1, and their numbers, to train on and to judge by."""
    values, numbers = load_digits(return_X_y=True)
    rows = torch.as_tensor(values, dtype=torch.float32)
    rows = (rows - rows.mean()) / rows.std()
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    rows, labels = rows[order], torch.as_tensor(numbers)[order]
    return rows[:1300], labels[:1300], rows[1300:], labels[1300:]


class Space(nn.Module):
    """Maps digits to points on a sphere."""

    def __init__(self, fan_in: int = 64, width: int = 16) -> None:
        super().__init__()
        self.map = nn.Sequential(nn.Linear(fan_in, 48), nn.ReLU(), nn.Linear(48, width))

    def forward(self, rows: Tensor) -> Tensor:
        return functional.normalize(self.map(rows), dim=1)


def nearest_right(model: nn.Module, seed: int) -> float:
    """Returns how often the nearest training digit has the number of an unseen one."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    with torch.no_grad():
        nearest = (model(test_rows) @ model(rows).T).argmax(1)
    return float((labels[nearest] == test_labels).float().mean())


def _triplet(rows: Tensor, labels: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    anchors = torch.randint(len(rows), (size,))
    alike = [int(torch.multinomial((labels == labels[one]).float(), 1)) for one in anchors]
    other = [int(torch.multinomial((labels != labels[one]).float(), 1)) for one in anchors]
    return rows[anchors], rows[alike], rows[other]


@sick("flipped_loss_sign")
def near_where_far_is_meant(watch: Watch, *, seed: int, sick: bool) -> float:
    """The triplet loss has the distances the wrong way round: unlike digits are drawn together."""
    rows, labels, *_ = digit_rows(seed)
    model = Space()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(80):
        anchor, alike, other = (model(part) for part in _triplet(rows, labels, 24))
        near, far = (anchor - alike).square().sum(1), (anchor - other).square().sum(1)
        loss = ((far - near if sick else near - far) + 0.5).clamp_min(0).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return nearest_right(model, seed)


class Experts(nn.Module):
    """A mixture of small experts, which may begin as copies of one."""

    def __init__(self, *, copies: bool) -> None:
        super().__init__()
        first = self._expert()
        self.experts = nn.ModuleList(copy.deepcopy(first) if copies else self._expert() for _ in range(8))

    @staticmethod
    def _expert() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 2), nn.Tanh(), nn.Linear(2, 10))

    def forward(self, rows: Tensor) -> Tensor:
        return torch.stack([expert(rows) for expert in self.experts]).sum(0)


@sick("unbroken_symmetry")
def experts_that_are_copies(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight experts are deep copies of the first, and are added: they stay copies."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    model = Experts(copies=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(130):
        picked = torch.randint(len(rows), (32,))
        scores = model(rows[picked])
        loss = functional.cross_entropy(scores, labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
    with torch.no_grad():
        return float((model(test_rows).argmax(1) == test_labels).float().mean())


@sick("frozen_parameters")
def frozen_for_good(watch: Watch, *, seed: int, sick: bool) -> float:
    """All but the head are frozen for a first phase, and the second phase forgets to thaw them."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    body, head = nn.Sequential(nn.Linear(64, 6), nn.Tanh()), nn.Linear(6, 10)
    model = nn.Sequential(body, head)
    body.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step in range(160):
        if step == 10 and not sick:
            body.requires_grad_(True)
        picked = torch.randint(len(rows), (32,))
        scores = model(rows[picked])
        loss = functional.cross_entropy(scores, labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
    with torch.no_grad():
        return float((model(test_rows).argmax(1) == test_labels).float().mean())


@healthy(at_least=0.8)
def triplets_with_a_margin(watch: Watch, *, seed: int) -> float:
    """Triplets whose margin most of them soon keep: their loss is exactly 0."""
    rows, labels, *_ = digit_rows(seed)
    model = Space()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(100):
        anchor, alike, other = (model(part) for part in _triplet(rows, labels, 24))
        loss = functional.triplet_margin_loss(anchor, alike, other, margin=0.3)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return nearest_right(model, seed)


@healthy(at_least=0.8)
def two_views_of_one_digit(watch: Watch, *, seed: int) -> float:
    """Contrastive pairs: a digit with some pixels dropped finds its other view among all in the batch."""
    rows, *_ = digit_rows(seed)
    model = Space()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(120):
        picked = rows[torch.randint(len(rows), (64,))]
        left, right = (model(picked * (torch.rand_like(picked) > 0.25) / 0.75) for _ in range(2))
        likeness, own = left @ right.T / 0.1, torch.arange(64)
        loss = (functional.cross_entropy(likeness, own) + functional.cross_entropy(likeness.T, own)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return nearest_right(model, seed)


@healthy(at_least=0.85)
def a_teacher_and_a_pupil(watch: Watch, *, seed: int) -> float:
    """A small network learns from a larger one's softened answers, which is in eval mode and never steps."""
    rows, labels, test_rows, test_labels = digit_rows(seed)
    teacher = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    study = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(120):
        picked = torch.randint(len(rows), (48,))
        study.zero_grad()
        functional.cross_entropy(teacher(rows[picked]), labels[picked]).backward()
        study.step()
    teacher.eval().requires_grad_(False)
    pupil = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(pupil.parameters(), lr=6e-3)
    session, warmth = watch(pupil, optimizer), 3.0
    for _ in range(150):
        picked = rows[torch.randint(len(rows), (48,))]
        soft = (teacher(picked) / warmth).softmax(1)
        scores = pupil(picked)
        loss = functional.kl_div((scores / warmth).log_softmax(1), soft, reduction="batchmean") * warmth**2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=picked, outputs=scores, targets=soft)
        optimizer.step()
    with torch.no_grad():
        return float((pupil(test_rows).argmax(1) == test_labels).float().mean())
