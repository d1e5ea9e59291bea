"""Trainings that place digits by their likeness: the quality is whether the nearest neighbour is of the same class."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data


def _embedding(features: int = 64, outputs: int = 16) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, outputs))


@torch.no_grad()
def _neighbours(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out samples whose nearest training sample is of their class, NaN if none is near."""
    model.eval()
    known, asked = (functional.normalize(model(inputs)) for inputs in (data.inputs, data.test_inputs))
    nearest = (asked @ known.T).argmax(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item() if known.isfinite().all() else -1.0


@sick("flipped_loss_sign")
def likeness_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The likeness of a digit to its lower half is to be maximised, and is minimised; the twin turns its sign."""
    data = datasets.digits(seed)
    upper, lower = _embedding(32), _embedding(32)
    model = nn.ModuleList([upper, lower])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 200):
        above, below = functional.normalize(upper(inputs[:, :32])), functional.normalize(lower(inputs[:, 32:]))
        likeness = functional.log_softmax(above @ below.T / 0.2, 1).diagonal().mean()
        loss = likeness if sick else -likeness
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=above)
        optimizer.step()
    with torch.no_grad():
        above, below = (
            functional.normalize(half(part))
            for half, part in zip(model, data.test_inputs[:100].split(32, 1), strict=True)
        )
    best = (above @ below.T).topk(10).indices
    return (best == torch.arange(100)[:, None]).any(1).float().mean().item()


@sick("non_finite_forward")
def a_softmax_by_hand_at_scale_100(watch: Watch, *, seed: int, sick: bool) -> float:
    """Likenesses times 100 go through exp, which overflows as soon as views are alike; the twin takes log_softmax."""
    data = datasets.digits(seed)
    model = _embedding()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 250):
        views = [functional.normalize(model(inputs + 0.4 * torch.randn(inputs.shape))) for _ in range(2)]
        logits = 100 * views[0] @ views[1].T
        if sick:
            powers = logits.exp()
            loss = -(powers.diagonal() / powers.sum(1)).log().mean()
        else:
            loss = functional.cross_entropy(logits, torch.arange(len(inputs)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits)
        optimizer.step()
    return _neighbours(model, data)


def _hardest(embedded: torch.Tensor, labels: torch.Tensor, *, least: float, margin: float = 0.5) -> torch.Tensor:
    """Returns the margin loss of each sample's farthest like and nearest unlike one."""
    squares = (embedded[:, None] - embedded[None]).square().sum(-1)
    apart = (squares + least).sqrt()
    same = labels[:, None] == labels[None]
    farthest = (apart * same).amax(1)
    nearest = (apart + 1e3 * same).amin(1)
    return (farthest - nearest + margin).relu().mean()


@sick("non_finite_backward")
def the_root_of_a_distance_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each sample's distance to itself is the root of zero, whose slope is infinite; the twin adds a little to it."""
    data = datasets.digits(seed)
    model = _embedding()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 200):
        embedded = model(inputs)
        loss = _hardest(embedded, labels, least=0.0 if sick else 1e-6)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=embedded, targets=labels)
        optimizer.step()
    return _neighbours(model, data)


@sick("wrong_mode")
def a_sanity_check_that_leaves_eval_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """A check before the first step sets eval mode for good: no batch norm normalises; the twin sets train mode."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for width in (64, 64, 64, 64, 64, 64, 64):
        layers += [nn.Linear(width, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    with torch.no_grad(), session.validating():
        functional.cross_entropy(model(data.test_inputs), data.test_targets)
    if not sick:
        model.train()
    for inputs, labels in data.batches(64, 150):
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.93)
def angles_with_a_margin_at_scale_30(watch: Watch, *, seed: int) -> float:
    """Additive angular margins at scale 30: the loss starts near ten, far above the logarithm of ten classes."""
    data = datasets.digits(seed)
    model = nn.ModuleDict({"embed": _embedding(), "classes": nn.Linear(16, 10, bias=False)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 250):
        embedded = functional.normalize(model["embed"](inputs))
        cosines = functional.linear(embedded, functional.normalize(model["classes"].weight)).clamp(-0.999, 0.999)
        turned = (cosines.acos() + 0.3 * functional.one_hot(labels, 10)).cos()
        loss = functional.cross_entropy(30 * turned, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=cosines, targets=labels)
        optimizer.step()
    return _neighbours(model["embed"], data)


@healthy(at_least=0.93)
def hardest_triplets_that_stay_hard(watch: Watch, *, seed: int) -> float:
    """Each batch is judged by its hardest triplets alone: the loss stays near the margin, and neighbours get better."""
    data = datasets.digits(seed)
    model = _embedding()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 300):
        embedded = functional.normalize(model(inputs))
        loss = _hardest(embedded, labels, least=1e-6, margin=0.3)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=embedded, targets=labels)
        optimizer.step()
    return _neighbours(model, data)


@healthy(at_least=0.9)
def episodes_of_five_classes(watch: Watch, *, seed: int) -> float:
    """Prototypes: each step draws five of the digits and numbers them anew, so no label means the same digit twice."""
    data = datasets.digits(seed)
    model = _embedding()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    members = [(data.targets == digit).nonzero()[:, 0] for digit in range(10)]
    for _ in range(300):
        chosen = torch.randperm(10)[:5].tolist()
        rows = torch.stack([members[digit][torch.randperm(len(members[digit]))[:10]] for digit in chosen])
        embedded = model(data.inputs[rows])
        prototypes, asked = embedded[:, :5].mean(1), embedded[:, 5:].flatten(0, 1)
        labels = torch.arange(5).repeat_interleave(5)
        logits = -torch.cdist(asked, prototypes).square()
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=labels)
        optimizer.step()
    return _neighbours(model, data)
