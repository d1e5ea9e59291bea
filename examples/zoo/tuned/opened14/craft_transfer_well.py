"""Sound trainings of adapters, pupils, experts and several tasks, with parts that are frozen or rest on purpose."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened14.craft_sources import digits, explained, measurements, share_right, shuffled, swings


class _Beside(nn.Module):
    """A frozen layer, and a thin path beside it that puts out zero at first."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + 2 * self.up(self.down(rows))


@healthy(at_least=0.85)
def turned_digits_through_adapters(watch: Watch, *, seed: int) -> float:
    """A net that knows upright digits learns turned ones: its weights are frozen, thin paths beside them are not."""
    pixels, numbers, test, test_numbers = digits(seed)
    base = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    first = torch.optim.Adam(base.parameters(), lr=3e-3)
    for rows, wanted in shuffled(64, 120, pixels, numbers):
        first.zero_grad()
        functional.cross_entropy(base(rows), wanted).backward()
        first.step()
    net = nn.Sequential(*(_Beside(part, 6) if isinstance(part, nn.Linear) else part for part in base))
    turned, test_turned = (one.view(-1, 8, 8).transpose(1, 2).flip(2).flatten(1) for one in (pixels, test))
    opt = torch.optim.AdamW([one for one in net.parameters() if one.requires_grad], lr=5e-3, weight_decay=0.0)
    session = watch(net, opt)
    for rows, wanted in shuffled(40, 250, turned, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(test_turned), test_numbers)


@healthy(at_least=0.85)
def a_pupil_between_teacher_and_truth(watch: Watch, *, seed: int) -> float:
    """Distillation at temperature 4, whose divergence counts sixteen times, beside the labels' cross entropy."""
    pixels, numbers, test, test_numbers = digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 160), nn.ReLU(), nn.Dropout(0.2), nn.Linear(160, 10))
    first = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for rows, wanted in shuffled(64, 200, pixels, numbers):
        first.zero_grad()
        functional.cross_entropy(teacher(rows), wanted).backward()
        first.step()
    teacher.eval()
    pupil = nn.Sequential(nn.Linear(64, 16), nn.Hardswish(), nn.Linear(16, 10))
    opt = torch.optim.Adam(pupil.parameters(), lr=5e-3)
    session = watch(pupil, opt)
    for rows, wanted in shuffled(64, 260, pixels, numbers):
        with torch.no_grad():
            told = (teacher(rows) / 4).softmax(1)
        logits = pupil(rows)
        loss = 16 * functional.kl_div((logits / 4).log_softmax(1), told, reduction="batchmean")
        loss = 0.7 * loss + 0.3 * functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(pupil(test), test_numbers)


class _Experts(nn.Module):
    """A router sends each row to one of four experts, and asks that all have work."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in "abcd")

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = self.router(rows).softmax(1)
        best, chosen = shares.max(1)
        outputs = torch.zeros(len(rows), 10)
        for number, expert in enumerate(self.experts):
            mine = (chosen == number).nonzero()[:, 0]
            if len(mine):
                outputs = outputs.index_add(0, mine, expert(rows[mine]) * best[mine, None])
        work = functional.one_hot(chosen, 4).float().mean(0)
        return outputs, 4 * (work * shares.mean(0)).sum()


@healthy(at_least=0.8)
def one_expert_for_each_digit(watch: Watch, *, seed: int) -> float:
    """Hard routing to experts, some of which get no row in a batch of sixteen, with a term that shares out the work."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _Experts(64)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(16, 350, pixels, numbers):
        logits, work = net(rows)
        loss = functional.cross_entropy(logits, wanted) + 0.05 * work
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(test)[0], test_numbers)


@healthy(at_least=0.6)
def tasks_that_weigh_themselves(watch: Watch, *, seed: int) -> float:
    """Rate and damping of pendulums, each with a weight that is learnt; the loss goes below zero."""
    angles, told = swings(seed)
    told = (told - told.mean(0)) / told.std(0)

    class Weighed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(40, 64), nn.SiLU(), nn.Linear(64, 2))
            self.doubts = nn.Parameter(torch.zeros(2))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.net(rows)

    model = Weighed()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, opt)
    for rows, wanted in shuffled(45, 300, angles[:450], told[:450]):
        outputs = model(rows)
        errors = (outputs - wanted).square().mean(0)
        loss = (errors * (-model.doubts).exp() + model.doubts).sum()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(model(angles[450:]), told[450:])


@healthy(at_least=0.8)
def a_start_from_which_all_is_near(watch: Watch, *, seed: int) -> float:
    """Reptile: copies learn to tell three digits in five steps each, and the start moves towards them.

    Quality: the accuracy on others of those digits after five steps from the start.
    """
    pixels, numbers, test, test_numbers = digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    session = watch(net, opt)

    def task(rows: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        three = torch.randperm(10)[:3]
        some = torch.cat([(labels == one).nonzero()[:, 0][torch.randperm(30)[:24]] for one in three])
        return rows[some], torch.arange(3).repeat_interleave(24)

    def adapted(rows: torch.Tensor, labels: torch.Tensor) -> tuple[nn.Module, torch.Tensor]:
        copied = copy.deepcopy(net)
        for _ in range(5):
            loss = functional.cross_entropy(copied(rows), labels)
            slopes = torch.autograd.grad(loss, list(copied.parameters()))
            with torch.no_grad():
                for parameter, slope in zip(copied.parameters(), slopes, strict=True):
                    parameter -= 0.3 * slope
        return copied, loss.detach()

    for _ in range(150):
        copied, loss = adapted(*task(pixels, numbers))
        for parameter, other in zip(net.parameters(), copied.parameters(), strict=True):
            parameter.grad = parameter.detach() - other.detach()
        session.step(loss)
        opt.step()
    right = 0.0
    for _ in range(20):
        rows, labels = task(test, test_numbers)
        learner = torch.arange(72) % 24 < 12
        with torch.no_grad():
            logits = torch.zeros(36, 3)
        logits = adapted(rows[learner], labels[learner])[0](rows[~learner]).detach()
        right += share_right(logits, labels[~learner]) / 20
    return right


@healthy(at_least=0.9)
def head_first_then_all(watch: Watch, *, seed: int) -> float:
    """Fine-tuning as usual: the head alone for forty steps, then all layers, the lower ones at a tenth of the rate."""
    rows, labels, test, test_labels = measurements("breast_cancer", seed)
    coder = nn.Sequential(nn.Linear(30, 24), nn.ELU(), nn.Linear(24, 30))
    first = torch.optim.Adam(coder.parameters(), lr=5e-3)
    for (batch,) in shuffled(40, 150, rows):
        first.zero_grad()
        functional.mse_loss(coder(functional.dropout(batch, 0.2)), batch).backward()
        first.step()
    net = nn.Sequential(coder[0], coder[1], nn.Linear(24, 2))
    net[0].requires_grad_(False)
    groups = [{"params": net[0].parameters(), "lr": 4e-4}, {"params": net[2].parameters(), "lr": 4e-3}]
    opt = torch.optim.AdamW(groups, weight_decay=0.05)
    session = watch(net, opt)
    for step, (batch, wanted) in enumerate(shuffled(40, 180, rows, labels)):
        if step == 40:
            net[0].requires_grad_(True)
        logits = net(batch)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(test), test_labels)
