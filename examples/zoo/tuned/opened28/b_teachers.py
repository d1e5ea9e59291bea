"""Small nets after larger ones: distillation, linear probes, similarities, adapters, and rates."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened28.b_stock import classes, drawn


def _taught(data: Data, *, steps: int = 90) -> nn.Sequential:
    teacher = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=4e-3)
    for digits, labels in data.batches(128, steps):
        loss = functional.cross_entropy(teacher(digits), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return teacher.eval().requires_grad_(False)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_sum_of_divergences_from_the_teacher(watch: Watch, *, seed: int, sick: bool) -> float:
    """``KLDivLoss(reduction="sum")`` times T squared adds up a batch of 128; the twin has ``batchmean``."""
    data = datasets.digits(seed)
    teacher = _taught(data)
    pupil = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.SGD(pupil.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.KLDivLoss(reduction="sum" if sick else "batchmean")
    session = watch(pupil, optimizer)
    for digits, _ in data.batches(128, 250):
        told, found = teacher(digits), pupil(digits)
        loss = 4 * criterion((found / 2).log_softmax(1), (told / 2).softmax(1))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=digits, outputs=found, targets=told)
        optimizer.step()
    return accuracy(pupil, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def a_probe_of_unit_vectors(watch: Watch, *, seed: int, sick: bool) -> float:
    """A linear probe reads vectors of length 1 at a rate of 1e-3, where papers have 30; the twin's is 2."""
    data = datasets.digits(seed)
    body = _taught(data)[:-1]
    train, test = (functional.normalize(body(rows)) for rows in (data.inputs, data.test_inputs))
    vectors = Data(train, data.targets, test, data.test_targets)
    probe = nn.Linear(48, 10)
    probe.weight.data.normal_(std=0.01)
    probe.bias.data.zero_()
    optimizer = torch.optim.SGD(probe.parameters(), lr=1e-3 if sick else 2.0, momentum=0.9)
    return classes(watch, probe, optimizer, vectors, vectors.batches(64, 200))


@sick("shape_broadcast", margin=0.1)
def similarities_with_one_more_dimension(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two digits' distance as numbers is learnt; outputs (N, 1) meet scores (N,); the twin squeezes outputs."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24), nn.ReLU())
    head = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    model = nn.ModuleDict({"net": net, "head": head})

    def score(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        one, other = net(left), net(right)
        found = head(torch.cat([(one - other).abs(), one * other], 1))
        return found if sick else found.squeeze(1)

    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(350):
        (left, first), (right, second) = (drawn(64, data.inputs, data.targets) for _ in range(2))
        scores = ((first - second).abs().float() - 3.3) / 2.3
        found = score(left, right)
        loss = ((found - scores) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=left, outputs=found, targets=scores)
        optimizer.step()
    turned = torch.arange(len(data.test_targets)).roll(7)
    scores = ((data.test_targets - data.test_targets[turned]).abs().float() - 3.3) / 2.3
    with torch.no_grad():
        return samples.explained(score(data.test_inputs, data.test_inputs[turned]).view(-1), scores)


class _Views(Dataset):
    """Digits and their labels, or the first digit for all labels."""

    def __init__(self, data: Data, *, forgets: bool) -> None:
        self.data, self.forgets = data, forgets

    def __len__(self) -> int:
        return len(self.data.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        picture = self.data.inputs[0 if self.forgets else index]
        return picture, self.data.targets[index]


@sick("inputs_constant", also=("labels_unrelated",), margin=0.3)
def an_item_that_forgets_its_index(watch: Watch, *, seed: int, sick: bool) -> float:
    """``__getitem__`` returns picture 0, left from a trial, with the label of the index; the twin's picture is its."""
    data = datasets.digits(seed, images=True)
    loader = DataLoader(_Views(data, forgets=sick), batch_size=64, shuffle=True, drop_last=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 48), nn.ReLU()
    ).append(nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    return classes(watch, model, optimizer, data, (batch for _ in range(9) for batch in loader))


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"), margin=0.3)
def a_warmup_divided_to_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """``min(1, step // 500)`` is 0 for the first 500 steps of 200; the twin warms up by ``(step + 1) / 20``."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    factor = (lambda step: min(1, step // 500)) if sick else (lambda step: min(1.0, (step + 1) / 20))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    return classes(watch, model, optimizer, data, data.batches(64, 200), scheduler=scheduler)


@sick("unbroken_symmetry", also=("no_update", "poor_initialization"), margin=0.03)
def both_halves_of_an_adapter_at_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """LoRA's A and B both begin at 0, and neither has a gradient; the twin draws A. The pictures are turned."""
    data = datasets.digits(seed)
    body = _taught(data)
    turned = Data(
        data.inputs.view(-1, 8, 8).rot90(1, (1, 2)).flatten(1),
        data.targets,
        data.test_inputs.view(-1, 8, 8).rot90(1, (1, 2)).flatten(1),
        data.test_targets,
    )

    class Adapted(nn.Module):
        def __init__(self, base: nn.Linear, rank: int) -> None:
            super().__init__()
            self.base = base
            self.lora_a = nn.Parameter(torch.zeros(rank, base.in_features))
            self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
            if not sick:
                nn.init.kaiming_uniform_(self.lora_a, a=5**0.5)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.base(rows) + 2 * rows @ self.lora_a.T @ self.lora_b.T

    model = nn.Sequential(*(Adapted(layer, 8) if isinstance(layer, nn.Linear) else layer for layer in body))
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=5e-3)
    return classes(watch, model, optimizer, turned, turned.batches(64, 250))
