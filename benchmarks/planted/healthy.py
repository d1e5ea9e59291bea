"""Forty-two trainings that hold NaN or infinities in every step, and are healthy: nothing of it reaches a gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from planted.architectures import Batch, Spot, cnn, encoder, gru, mlp

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Healthy:
    """A training.

    Attributes:
        title: What is legal in it.
        model: Makes the network, whose spot works in every step.
        loss: Of outputs and targets; cross-entropy where there is none.
        prepare: Changes each batch.
        init_scale: Of a GradScaler, if there is one.
    """

    title: str
    model: Callable[[], nn.Module]
    loss: Loss | None = None
    prepare: Callable[[Batch], Any] | None = None
    init_scale: float | None = None


class LogTable(nn.Module):
    """Adds logarithms of probabilities, one of which is 0."""

    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor(values))

    def forward(self, values: Tensor) -> Tensor:
        return values + (values[:, :4] + self.table).logsumexp(1, keepdim=True)


class Bounds(nn.Module):
    """Keeps values between bounds of which one is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.full((8,), -torch.inf))
        self.register_buffer("high", torch.full((8,), torch.inf))

    def forward(self, values: Tensor) -> Tensor:
        return values.clamp(min=self.low, max=self.high)


class BestSoFar(nn.Module):
    """Remembers the least value of all steps, from infinity on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("best", torch.tensor(torch.inf))

    def forward(self, values: Tensor) -> Tensor:
        self.best = torch.minimum(self.best, values.detach().min())
        return values


class Attention(nn.Module):
    """Attends with a mask."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.mask = mask
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, values: Tensor) -> Tensor:
        return values + self.attention(values, values, values, attn_mask=self.mask)[0]


def causal(size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if dtype == torch.bool:
        return torch.ones(size, size, dtype=torch.bool).triu(1)
    return torch.full((size, size), -torch.inf).triu(1)


def masked(values: Tensor) -> Tensor:
    return values + values.masked_fill(values < values.mean(), -torch.inf).softmax(-1)


def some_rows(values: Tensor) -> Tensor:
    shares = values.masked_fill(torch.arange(len(values))[:, None] == 1, -torch.inf).softmax(-1)
    return values + shares.nan_to_num().detach()


def top(values: Tensor) -> Tensor:
    least = values.topk(3, -1).values[..., -1:]
    return values + torch.where(values < least, -torch.inf, values).softmax(-1)


def padded(values: Tensor) -> Tensor:
    return functional.max_pool1d(functional.pad(values, (1, 1), value=-torch.inf), 3, 1) + values


def chosen(values: Tensor) -> Tensor:
    return torch.where(values > 0, values.detach().clamp(min=0).log().exp(), values)


def detached(values: Tensor) -> Tensor:
    return values + torch.nan_to_num(values.detach() / 0) * 0


def running_maximum(values: Tensor) -> Tensor:
    best = torch.full_like(values[..., 0], -torch.inf)
    for column in values.unbind(-1):
        best = torch.maximum(best, column)
    return values + best[..., None]


def nan_beside(values: Tensor) -> Tensor:
    (values.detach() * torch.nan).sum()
    torch.zeros(3).log()
    return values


def filled_then_written(values: Tensor) -> Tensor:
    memory = torch.full_like(values, torch.nan)
    memory[:, ::2] = values[:, ::2]
    memory[:, 1::2] = values[:, 1::2]
    return memory


def nan_mean(values: Tensor) -> Tensor:
    holes = torch.where(torch.rand_like(values) > 0.9, torch.nan, values.detach())
    return values + holes.nanmean().nan_to_num()


def statistics(values: Tensor) -> Tensor:
    worst = values.detach().flatten().std(0) / torch.zeros(())
    return values + (0.0 if torch.isinf(worst) else 1.0)


def forward_algorithm(values: Tensor) -> Tensor:
    alpha = torch.full((len(values), 4), -torch.inf)
    alpha[:, 0] = 0
    transitions = torch.zeros(4, 4).index_put(
        (torch.arange(1, 4), torch.zeros(3, dtype=torch.long)), torch.tensor(-torch.inf)
    )
    for column in values[:, :3].unbind(1):
        alpha = torch.logsumexp(alpha[:, :, None] + transitions, 1) + column[:, None]
    return values + alpha[:, :2].logsumexp(1, keepdim=True)


def ctc(outputs: Tensor, targets: Tensor) -> Tensor:
    steps = outputs[:, None].expand(-1, 6, -1).log_softmax(2).transpose(0, 1)
    return functional.ctc_loss(
        steps,
        torch.ones(len(targets), 2, dtype=torch.long),
        torch.full((len(targets),), 6),
        torch.full((len(targets),), 2),
    )


def impossible_ctc(outputs: Tensor, targets: Tensor) -> Tensor:
    steps = outputs[:, None].expand(-1, 2, -1).log_softmax(2).transpose(0, 1)
    lengths = torch.full((len(targets),), 4)
    labels = torch.ones(len(targets), 4, dtype=torch.long)
    lost = functional.ctc_loss(steps, labels, torch.full((len(targets),), 2), lengths, zero_infinity=True)
    return lost + outputs.square().mean()


def masked_logits(outputs: Tensor, targets: Tensor) -> Tensor:
    forbidden = torch.zeros_like(outputs, dtype=torch.bool).scatter(1, ((targets + 1) % 4)[:, None], True)
    return functional.cross_entropy(outputs.masked_fill(forbidden, -torch.inf), targets)


def policy(outputs: Tensor, targets: Tensor) -> Tensor:
    legal = torch.tensor([0.0, 0.0, 0.0, -torch.inf])
    actions = torch.distributions.Categorical(logits=outputs + legal, validate_args=False)
    return -actions.log_prob(targets.clamp(max=2)).mean()


def ignored(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets.where(targets > 0, -100)).nan_to_num()


def cleaned(outputs: Tensor, targets: Tensor) -> Tensor:
    each = functional.cross_entropy(outputs, targets, reduction="none")
    holes = torch.where(torch.arange(len(each)) == 1, torch.nan, each.detach())
    return each[~holes.isnan()].mean()


def contrast(outputs: Tensor, targets: Tensor) -> Tensor:
    scores = (outputs @ outputs.T).masked_fill(torch.eye(len(outputs), dtype=torch.bool), -torch.inf)
    return functional.cross_entropy(scores, (torch.arange(len(outputs)) + 1) % len(outputs))


def divergence(outputs: Tensor, targets: Tensor) -> Tensor:
    exact = functional.one_hot(targets, 4).float()
    return functional.kl_div(outputs.log_softmax(1), exact, reduction="batchmean")


def hard_minimum(outputs: Tensor, targets: Tensor) -> Tensor:
    distances = torch.cdist(outputs, outputs.detach() + 1) + torch.eye(len(outputs)).mul(1e3)
    nearest = distances.masked_fill(targets[:, None] == targets[None], torch.inf).min(1).values
    return nearest.clamp(max=10).mean()


def weights_of_log(outputs: Tensor, targets: Tensor) -> Tensor:
    weights = torch.tensor([0.0, 0.2, 0.3, 0.5]).log().exp()
    return (outputs.square() * weights).mean()


def binary(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy((outputs * 1e3).sigmoid(), functional.one_hot(targets, 4).float())


def nan_padding(batch: Batch) -> None:
    batch.inputs.view(len(batch.inputs), -1)[:, -1] = torch.nan


class DropsPadding(nn.Module):
    """Leaves out what is NaN in its argument."""

    def forward(self, values: Tensor) -> Tensor:
        return torch.where(values.isnan(), 0, values)


class TakesMask(nn.Module):
    """Adds a mask of the batch, an argument of the model, to scores."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, values: Tensor) -> Tensor:
        mask = torch.zeros(4).masked_fill(torch.tensor([False, False, False, True]), -torch.inf)
        return (self.layer(values) + mask).softmax(1)


def parts(*modules: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(4, 8), *(module() for module in modules), nn.Linear(8, 4))


HEALTHY = [
    Healthy("masked scores", lambda: mlp(masked)),
    Healthy("masked scores of tokens", lambda: encoder(masked)),
    Healthy("causal mask of numbers", parts(lambda: Attention(causal(8)))),
    Healthy("causal mask of truths", parts(lambda: Attention(causal(8, torch.bool)))),
    Healthy("rows masked and cleaned", lambda: mlp(some_rows)),
    Healthy("top three", lambda: gru(top)),
    Healthy("padding with -inf", lambda: cnn(padded)),
    Healthy("pooling with padding", lambda: cnn(lambda x: functional.max_pool1d(x, 3, 1, 1))),
    Healthy("logarithm behind where", lambda: mlp(chosen)),
    Healthy("NaN detached and cleaned", lambda: encoder(detached)),
    Healthy("running maximum", lambda: gru(running_maximum)),
    Healthy("NaN beside the way", lambda: mlp(nan_beside)),
    Healthy("NaN overwritten in parts", lambda: mlp(filled_then_written)),
    Healthy("mean without NaN", lambda: mlp(nan_mean)),
    Healthy("statistic of infinity", lambda: cnn(statistics)),
    Healthy("forward algorithm", lambda: mlp(forward_algorithm)),
    Healthy("minimum with infinity", lambda: gru(lambda x: torch.full_like(x, torch.inf).minimum(x))),
    Healthy("clamp to infinity", lambda: mlp(lambda x: x.clamp(-torch.inf, torch.inf))),
    Healthy("exp of -inf", lambda: encoder(lambda x: x + (torch.zeros(()) - torch.inf).exp())),
    Healthy("tanh of infinity", lambda: mlp(lambda x: x + torch.full((8,), torch.inf).tanh())),
    Healthy("1 / infinity", lambda: mlp(lambda x: x + 1 / torch.full((8,), torch.inf))),
    Healthy("memory of empty, filled", lambda: gru(lambda x: torch.empty_like(x).fill_(torch.nan).copy_(x))),
    Healthy("table of logarithms", parts(lambda: LogTable([0.0, -1.0, -torch.inf, -0.5]))),
    Healthy("constant table of logarithms", parts(lambda: LogTable([0.0, 0.0, -torch.inf, 0.0]))),
    Healthy("bounds", parts(Bounds)),
    Healthy("best so far", parts(BestSoFar)),
    Healthy("NaN padding of a batch", lambda: nn.Sequential(DropsPadding(), nn.Linear(4, 4)), prepare=nan_padding),
    Healthy("forbidden classes", TakesMask, loss=lambda o, t: -(o + 1).log().mean()),
    Healthy("masked logits", lambda: mlp(None), masked_logits),
    Healthy("illegal actions", lambda: gru(None), policy),
    Healthy("ignored targets", lambda: mlp(None), ignored),
    Healthy("losses left out", lambda: encoder(None), cleaned),
    Healthy("contrast without itself", lambda: gru(None), contrast),
    Healthy("divergence from one class", lambda: mlp(None), divergence),
    Healthy("nearest of another class", lambda: gru(None), hard_minimum),
    Healthy("weights that are exp of -inf", lambda: mlp(None), weights_of_log),
    Healthy("sure of both classes", lambda: mlp(None), binary),
    Healthy("connectionist loss", lambda: gru(None), ctc),
    Healthy("impossible alignment", lambda: mlp(None), impossible_ctc),
    Healthy("overflow by a scale", lambda: mlp(None), init_scale=2.0**127),
    Healthy("overflow by a scale and masks", lambda: encoder(masked), init_scale=2.0**127),
    Healthy("no spot at all", lambda: nn.Sequential(nn.Linear(4, 4), Spot())),
]
"""The trainings."""
