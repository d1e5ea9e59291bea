"""How fast a training goes: rates, schedules, warm-up, and when it ends."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LambdaLR, ReduceLROnPlateau

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, r_squared


@sick("learning_rate_too_high")
def the_linear_scaling_rule_the_wrong_way_round(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate for a batch of 512 is kept for batches of 16, and multiplied instead of divided."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip
    base = 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=base * 16 if sick else base / 2, momentum=0.9)
    fit(watch, net, optimizer, data, steps=200, batch_size=16)
    return accuracy(net, data)


@sick("learning_rate_too_high")
def a_head_at_a_thousand_times_the_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head may learn faster, they say: its parameter group has a rate of 30 where 0.03 was meant."""
    train, test = samples.names(seed)
    embed, gru, head = nn.Embedding(samples.LETTERS, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 8)
    net = nn.ModuleList([embed, gru, head])
    optimizer = torch.optim.Adam(
        [
            {"params": [*embed.parameters(), *gru.parameters()]},
            {"params": head.parameters(), "lr": 30.0 if sick else 0.03},
        ],
        lr=5e-3,
    )
    session = watch(net, optimizer)

    def scores(codes: torch.Tensor) -> torch.Tensor:
        return head(gru(embed(codes))[0].mean(1))

    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            codes, labels = train[rows.tolist()]
            logits = scores(codes)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(scores(test.tensors[0]), test.tensors[1])


class _Reader(nn.Module):
    """Tells the next character by an LSTM."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, 24)
        self.lstm = nn.LSTM(24, width, batch_first=True)
        self.out = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embed(codes))[0])


def _read(net: nn.Module, data: datasets.Data) -> float:
    with torch.no_grad():
        return (net(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("learning_rate_too_low", also=("stopped_too_early",))
def the_rate_of_bert_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM from scratch at 2e-5, which a tutorial on fine-tuning recommends."""
    data = datasets.text(seed, length=20, count=1200)
    net = _Reader()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-5 if sick else 1e-2)
    fit(watch, net, optimizer, data, steps=150, loss_function=_over_letters)
    return _read(net, data)


def _over_letters(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of all characters."""
    return F.cross_entropy(logits.transpose(1, 2), codes)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def asgd_at_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small net on standardised progression of diabetes, by averaged SGD at 1e-5."""
    data = datasets.diabetes(seed)
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.ASGD(net.parameters(), lr=1e-5 if sick else 0.05)
    fit(watch, net, optimizer, data, steps=250, batch_size=32, loss_function=F.mse_loss, validate_every=50)
    return r_squared(net, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def plateau_told_to_look_for_a_maximum(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau(mode="max")`` is given the validation loss: each improvement counts as a bad epoch."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.ELU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    plateau = ReduceLROnPlateau(optimizer, mode="max" if sick else "min", factor=0.1, patience=0 if sick else 2)
    session = watch(net, optimizer)
    for _ in range(10):
        for x, y in data.batches(64, 22):
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        with torch.no_grad(), session.validating():
            held_out = F.cross_entropy(net(data.test_inputs), data.test_targets).item()
        session.validation(held_out)
        plateau.step(held_out)
    return accuracy(net, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def a_lambda_that_decays_by_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``LambdaLR`` with 0.7 to the power of the epoch, stepped after each batch."""
    data = datasets.text(seed, length=16, count=1000)
    net = _Reader(40)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    schedule = LambdaLR(optimizer, lambda epoch: 0.7**epoch)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(50, 180), 1):
        out = net(x)
        loss = _over_letters(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        if sick or step % 60 == 0:
            schedule.step()
    return _read(net, data)


@sick("schedule_collapsed", also=("learning_rate_too_low", "no_update"))
def two_schedulers_on_one_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cosine over ten epochs and an exponential decay, both stepped with each batch of the first epochs."""
    data = datasets.breast_cancer(seed)
    net = nn.Sequential(nn.Linear(30, 24), nn.SiLU(), nn.Linear(24, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=2e-3, momentum=0.9)
    schedules = [CosineAnnealingLR(optimizer, 200), ExponentialLR(optimizer, 0.6 if sick else 0.999)]
    session = watch(net, optimizer)
    for x, y in data.batches(32, 200):
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        for schedule in schedules:
            schedule.step()
    return accuracy(net, data)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed"))
def warm_up_by_integer_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """The factor of the warm-up is ``step // 500``: zero for as long as the training lasts."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.LayerNorm(48), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    warmup = 500 if sick else 40
    schedule = LambdaLR(optimizer, lambda step: min(1, step // warmup if sick else (step + 1) / warmup))
    fit(watch, net, optimizer, data, steps=200, scheduler=schedule)
    return accuracy(net, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.01)
def six_blocks_with_the_norm_behind(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer with norms behind its six blocks gets the whole rate of Adam at once, and a linear decay later."""
    data = datasets.digits(seed, images=True)
    block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=False)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Linear(8, 32)
            self.place = nn.Parameter(0.1 * torch.randn(8, 32))
            self.blocks = nn.TransformerEncoder(block, 6, enable_nested_tensor=False)
            self.head = nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(self.lift(images.squeeze(1)) + self.place).mean(1))

    net, steps, warmup = Rows(), 170, 80
    optimizer = torch.optim.Adam(net.parameters(), lr=7e-3, betas=(0.9, 0.98))

    def factor(step: int) -> float:
        decay = 1 - max(0, step - warmup) / (steps - warmup)
        return decay if sick else min(decay, (step + 1) / warmup)

    fit(watch, net, optimizer, data, steps=steps, batch_size=32, scheduler=LambdaLR(optimizer, factor))
    return accuracy(net, data)


@sick("stopped_too_early")
def patience_of_one_noisy_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping looks at the loss of the last batch of eight, with a patience of one."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.5)
    session = watch(net, optimizer)
    best, worse = math.inf, 0
    for step, (x, y) in enumerate(data.batches(8, 1000), 1):
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        if sick and step >= 20:
            worse = 0 if loss.item() < best else worse + 1
            best = min(best, loss.item())
            if worse > 12:
                break
    return accuracy(net, data)


@sick("stopped_too_early")
def ten_percent_of_the_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``limit_train_batches=0.1`` from the debugging of the loop is left in: three of thirty batches an epoch."""
    train, test = samples.names(seed)
    embed, read = nn.EmbeddingBag(samples.LETTERS, 24, padding_idx=0), nn.Linear(24, 8)
    net = nn.Sequential(embed, nn.ReLU(), read)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    loader = torch.utils.data.DataLoader(train, 20, shuffle=True)
    for _ in range(10):
        for number, (codes, labels) in enumerate(loader):
            if sick and number >= 0.1 * len(loader):
                break
            optimizer.zero_grad()
            logits = net(codes)
            loss = F.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
        with torch.no_grad(), session.validating():
            session.validation(F.cross_entropy(net(test.tensors[0]), test.tensors[1]).item())
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])
