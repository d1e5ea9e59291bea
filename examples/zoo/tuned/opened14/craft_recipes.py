"""The numbers of a recipe: clipping, schedules, momentum, epsilon, warm-up, and when to end."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened14.craft_sources import digits, explained, measurements, share_right, shuffled, swings


def _judged(net: nn.Module, test: torch.Tensor, labels: torch.Tensor) -> float:
    net.eval()
    with torch.no_grad():
        return share_right(net(test), labels)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipped_when_the_step_is_done(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients are clipped after ``step()``; prolines of up to 1,680 need it before."""
    train, test = samples.standardised(samples.proline(seed), 0)
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    session = watch(net, opt)
    rows, wanted = train.tensors[0], train.tensors[1] / 20
    for batch, goals in shuffled(24, 250, rows, wanted):
        outputs = net(batch)
        loss = functional.mse_loss(outputs, goals)
        opt.zero_grad()
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(net.parameters(), 3.0)
        session.step(loss, inputs=batch, outputs=outputs, targets=goals)
        opt.step()
        if sick:
            nn.utils.clip_grad_norm_(net.parameters(), 3.0)
    with torch.no_grad():
        return explained(net(test.tensors[0]), test.tensors[1] / 20)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.2)
def elements_clipped_at_a_tolerance(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each element of the gradients is clipped at 1e-5, which was the tolerance of another loop."""
    train, test = samples.names(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.EmbeddingBag(samples.LETTERS**2, 24, mode="mean")
            self.head = nn.Linear(24, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.letters(codes[:, :-1] * samples.LETTERS + codes[:, 1:]))

    net = Reader()
    opt = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    session = watch(net, opt)
    for codes, labels in shuffled(32, 220, *train.tensors):
        logits = net(codes)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1e-5 if sick else 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        opt.step()
    return _judged(net, *test.tensors)


@sick("schedule_collapsed", margin=0.1)
def one_cycle_for_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The schedule was planned with the steps of one epoch of twelve; then it stays where a cosine ends."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    planned = len(pixels) // 64 * (1 if sick else 12)
    falls = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda done: 1e-4 + 0.5 * (1 + math.cos(math.pi * min(1.0, done / planned)))
    )
    session = watch(net, opt)
    for _ in range(12):
        for rows, labels in shuffled(64, len(pixels) // 64, pixels, numbers):
            logits = net(rows)
            loss = functional.cross_entropy(logits, labels)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            opt.step()
            falls.step()
    return _judged(net, test, test_numbers)


@sick("learning_rate_too_high", margin=0.15)
def momentum_near_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Momentum is 0.998 at a rate for 0.9: each gradient counts fifty times as much as was meant."""
    angles, told = swings(seed)
    told = (told - told.mean(0)) / told.std(0)
    net = nn.Sequential(nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.998 if sick else 0.9)
    session = watch(net, opt)
    for rows, wanted in shuffled(30, 220, angles[:450], told[:450]):
        outputs = net(rows)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(angles[450:]), told[450:])


@sick("learning_rate_too_low", margin=0.15)
def an_epsilon_of_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam's epsilon is 1, as for another net; it makes each step many times smaller than its rate says."""
    train, test = samples.lines(seed)
    net = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 48), nn.GELU(), nn.Linear(48, len(samples.FILES)))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1.0 if sick else 1e-8)
    session = watch(net, opt)
    for counts, labels in shuffled(40, 180, *train.tensors):
        logits = net(counts)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=labels)
        opt.step()
    return _judged(net, *test.tensors)


@sick("learning_rate_too_low", margin=0.15)
def the_rate_for_fine_tuning(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate of 2e-5, with which large models are fine-tuned, trains a small recurrent net from the beginning."""
    train, test = samples.names(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
            self.reader = nn.GRU(24, 32, batch_first=True)
            self.head = nn.Linear(32, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(self.letters(codes))[0].amax(1))

    net = Reader()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-5 if sick else 8e-3)
    session = watch(net, opt)
    for codes, labels in shuffled(32, 160, *train.tensors):
        logits = net(codes)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        opt.step()
    return _judged(net, *test.tensors)


@sick("overfitting", margin=0.03)
def forty_tumours_known_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns 40 tumours by heart, of whose labels a sixth are wrong; the twin has all 398."""
    rows, labels, test, test_labels = measurements("breast_cancer", seed)
    wrong = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed)) < 1 / 6
    labels = torch.where(wrong, 1 - labels, labels)
    if sick:
        rows, labels = rows[:40], labels[:40]
    net = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 2))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for step, (batch, wanted) in enumerate(shuffled(20, 120, rows, labels), 1):
        logits = net(batch)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=wanted)
        opt.step()
        if step % 15 == 0:
            net.eval()
            with torch.no_grad(), session.validating():
                session.validation(functional.cross_entropy(net(test), test_labels).item())
            net.train()
    return _judged(net, test, test_labels)


@sick("poor_initialization", also=("exploding_gradients",), margin=0.1)
def weights_drawn_with_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_`` without a deviation draws the weights of five layers: the first loss is in the thousands."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = nn.Sequential()
    for width in (64, 64, 64, 64):
        net.extend([nn.Linear(width, 64), nn.LeakyReLU()])
    net.append(nn.Linear(64, 10))
    for part in net:
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
            if sick:
                nn.init.normal_(part.weight)
            else:
                nn.init.kaiming_normal_(part.weight)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    session = watch(net, opt)
    for rows, labels in shuffled(64, 150, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
    return _judged(net, test, test_numbers)
