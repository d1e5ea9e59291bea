"""What is passed on: pupils of teachers, adapters, several tasks at once, experts, and fine-tuning."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened14.craft_sources import digits, share_right, shuffled


def _fit(net: nn.Module, steps: int, rows: torch.Tensor, wanted: torch.Tensor) -> None:
    """Trains what others start from; nobody watches it."""
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for batch, labels in shuffled(64, steps, rows, wanted):
        loss = functional.cross_entropy(net(batch), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.requires_grad_(False)


def _backbone(seed: int, *, classes: int = 5) -> nn.Sequential:
    """Returns a net that tells the digits 0 to 4 from each other."""
    pixels, numbers, _, _ = digits(seed)
    low = numbers < classes
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, classes))
    _fit(net, 100, pixels[low], numbers[low])
    return net


@sick("frozen_parameters", margin=0.15)
def frozen_after_the_new_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new head is put in, then all weights are frozen but biases, so the head's are too; the twin thaws the head."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _backbone(seed)
    net[-1] = nn.Linear(32, 10)
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name.endswith("bias"))
    if not sick:
        net[-1].requires_grad_(True)
    opt = torch.optim.Adam([one for one in net.parameters() if one.requires_grad], lr=5e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(64, 160, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(test), test_numbers)


class _LowRank(nn.Module):
    """A frozen layer, and beside it the product of two thin matrices."""

    def __init__(self, layer: nn.Linear, rank: int, *, constant: bool = False) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        if constant:
            nn.init.constant_(self.down, 1 / layer.in_features)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + rows @ self.down.T @ self.up.T


def _adapted(net: nn.Sequential, rank: int, *, constant: bool = False) -> nn.Sequential:
    return nn.Sequential(
        *(_LowRank(part, rank, constant=constant) if isinstance(part, nn.Linear) else part for part in net)
    )


@sick("unbroken_symmetry", margin=0.05)
def adapters_of_a_single_rank(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first matrix of each adapter starts at a constant: its eight rows stay equal, and the rank is one."""
    pixels, numbers, test, test_numbers = digits(seed)
    whole = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    _fit(whole, 100, pixels.flip(1), numbers)
    net = _adapted(whole, 8, constant=sick)
    opt = torch.optim.AdamW([one for one in net.parameters() if one.requires_grad], lr=5e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(50, 200, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(test), test_numbers)


@sick("wrong_output_or_loss", margin=0.1)
def divergence_of_two_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``kl_div`` takes the pupil's logarithms, but is given its probabilities; the teacher tells all that is learnt."""
    pixels, numbers, test, test_numbers = digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    _fit(teacher, 150, pixels, numbers)
    pupil = nn.Sequential(nn.Linear(64, 24), nn.GELU(), nn.Linear(24, 10))
    opt = torch.optim.SGD(pupil.parameters(), lr=0.05, momentum=0.9)
    session = watch(pupil, opt)
    for (rows,) in shuffled(64, 120, pixels):
        wanted = (teacher(rows) / 2).softmax(1)
        logits = pupil(rows)
        guess = (logits / 2).softmax(1) if sick else (logits / 2).log_softmax(1)
        loss = 4 * functional.kl_div(guess, wanted, reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(pupil(test), test_numbers)


class _ManyTasks(nn.Module):
    """A trunk with a head for each of three questions about a digit: its number, whether it is odd, and its ink."""

    def __init__(self, *, listed: bool) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 16), nn.ReLU())
        heads = [nn.Linear(16, 10), nn.Linear(16, 1), nn.Linear(16, 1)]
        self.heads = heads if listed else nn.ModuleList(heads)

    def forward(self, rows: torch.Tensor) -> list[torch.Tensor]:
        states = self.trunk(rows)
        return [head(states) for head in self.heads]


def _questions(rows: torch.Tensor, numbers: torch.Tensor, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    ink = 10 * (rows.mean(1, keepdim=True) - 0.3)
    return [
        functional.cross_entropy(outputs[0], numbers),
        functional.binary_cross_entropy_with_logits(outputs[1], numbers[:, None].float() % 2),
        functional.mse_loss(outputs[2], ink),
    ]


@sick("parameters_not_in_optimizer", margin=0.1)
def heads_in_a_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three heads are in a list of Python: the optimizer gets the trunk alone."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _ManyTasks(listed=sick)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, opt)
    for rows, wanted in shuffled(64, 200, pixels, numbers):
        outputs = net(rows)
        loss = torch.stack(_questions(rows, wanted, outputs)).sum()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        opt.step()
    with torch.no_grad():
        return share_right(net(test)[0], test_numbers)


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"), margin=0.2)
def warm_up_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up of a fine-tuning divides without a remainder: its factor is 0 for 400 steps."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _backbone(seed).requires_grad_(True)
    net[-1] = nn.Linear(32, 10)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    rises = torch.optim.lr_scheduler.LambdaLR(opt, lambda done: min(1, done // 400 if sick else done / 40))
    session = watch(net, opt)
    for rows, wanted in shuffled(64, 250, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
        rises.step()
    with torch.no_grad():
        return share_right(net(test), test_numbers)


@sick("gradients_not_zeroed", also=("learning_rate_too_high",), margin=0.08)
def one_of_two_optimizers_cleared_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Trunk and head have an optimizer each; a copied line clears the head's twice, and the trunk's never."""
    rows, labels, test, test_labels = digits(seed)
    trunk, head = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU()), nn.Linear(24, 10)
    net = nn.Sequential(trunk, head)
    of_trunk = torch.optim.SGD(trunk.parameters(), lr=0.05, momentum=0.9)
    of_head = torch.optim.SGD(head.parameters(), lr=0.1)
    of_both = watch(trunk, of_trunk), watch(head, of_head)
    for batch, wanted in shuffled(40, 240, rows, labels):
        logits = net(batch)
        loss = functional.cross_entropy(logits, wanted)
        (of_head if sick else of_trunk).zero_grad()
        of_head.zero_grad()
        loss.backward()
        for session in of_both:
            session.step(loss)
        of_trunk.step()
        of_head.step()
    with torch.no_grad():
        return share_right(net(test), test_labels)
