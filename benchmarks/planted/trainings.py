"""Fifty-six faults that appear in the middle of a training: in the model, in its loss, in a batch, or in a weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from planted.architectures import Batch, Spot, cnn, encoder, gru, mlp

half, brain = torch.float16, torch.bfloat16
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Training:
    """A training whose fault shows in one step.

    Attributes:
        title: What the fault is.
        model: Makes the network; a ``Spot`` in it does what it was given while ``switch`` is on.
        module: The name of the module that has the fault, or ``the loss``.
        operators: The names that are right.
        direction: The pass.
        loss: Of the outputs and targets, while the switch is on.
        precision: The dtype of autocast, if any.
        prepare: Changes the model or the batch of the step.
        micro_batches: In how many parts the batch is taken; the fault is in the second of them.
    """

    title: str
    model: Callable[[], nn.Module]
    module: str
    operators: Sequence[str]
    direction: str = "forward"
    loss: Loss | None = None
    precision: torch.dtype | None = None
    prepare: Callable[[nn.Module, Batch], Any] | None = None
    micro_batches: int = 1


class LogOfDistance(torch.autograd.Function):
    """Its backward pass divides by 0, as its last operator."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        return gradient / (values - values)


class Overflowing(torch.autograd.Function):
    """Its forward pass overflows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return (values.abs() + 1e3).exp()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def set_element(name: str, value: float) -> Callable[[nn.Module, Batch], None]:
    def prepare(model: nn.Module, batch: Batch) -> None:
        with torch.no_grad():
            model.get_parameter(name).view(-1)[1] = value

    return prepare


def set_input(value: float) -> Callable[[nn.Module, Batch], None]:
    def prepare(model: nn.Module, batch: Batch) -> None:
        batch.inputs.view(len(batch.inputs), -1)[2, 1] = value

    return prepare


def set_buffer(model: nn.Module, batch: Batch) -> None:
    model.get_buffer("1.scale")[0] = torch.nan


def in_place(values: Tensor) -> Tensor:
    kept = values.clone()
    kept[:, 1:3].mul_(0).div_(kept[:, 1:3] * 0)
    return kept


def in_place_slope(values: Tensor) -> Tensor:
    kept = values * 0
    kept[:, 1:3].sqrt_()
    return kept + values


def masked_rows(values: Tensor) -> Tensor:
    mask = torch.zeros(len(values), len(values), dtype=torch.bool)
    mask[2] = True
    return (values @ values.T).masked_fill(mask, -torch.inf).softmax(-1) @ values


def repeated(values: Tensor) -> Tensor:
    square = torch.eye(4) * values.sum()
    return values + torch.linalg.eigh(square).eigenvectors.sum()


class Scale(nn.Module):
    """Multiplies by a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(8))

    def forward(self, values: Tensor) -> Tensor:
        return values * self.scale


class Checkpointed(nn.Module):
    """Computes a part again in the backward pass."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.part = Spot(function)

    def forward(self, values: Tensor) -> Tensor:
        return checkpoint(self.part, values, use_reentrant=False)


def with_part(part: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(4, 8), part(), nn.Linear(8, 4))


def compiled(function: Callable[[Tensor], Tensor]) -> nn.Module:
    return torch.compile(Spot(function), backend="eager")


def empty_mean(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs[targets > 99].square().mean()


def cosine(outputs: Tensor, targets: Tensor) -> Tensor:
    zeros = outputs * 0
    return (zeros / zeros.norm(dim=1, keepdim=True)).sum()


def distance(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:1] - outputs[:1]).square().sum(1).sqrt().sum() + outputs.square().mean()


def entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    shares = (outputs * 1e3).softmax(1)
    return (shares * shares.log()).sum(1).mean()


def likelihood(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * ((outputs - 1).square() / (outputs * 0).exp().sub(1)).mean()


def mixture(outputs: Tensor, targets: Tensor) -> Tensor:
    return -(-(outputs * 1e3).square()).exp().sum(1).log().mean()


def determinant(outputs: Tensor, targets: Tensor) -> Tensor:
    return torch.linalg.slogdet((outputs * 0).T @ outputs)[1]


def soft_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    weights = functional.one_hot(targets, 4).float() * 0
    return functional.cross_entropy(outputs, targets, weight=weights[0])


def angles(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs / outputs).acos().mean()


def contrast(outputs: Tensor, targets: Tensor) -> Tensor:
    scores = outputs @ outputs.T
    return torch.logsumexp(scores.masked_fill(torch.ones_like(scores, dtype=torch.bool), -torch.inf), 1).mean()


def focal(outputs: Tensor, targets: Tensor) -> Tensor:
    sure = (outputs * 0).sigmoid() * 2
    return ((1 - sure) ** 0.5).mean() + outputs.mean()


def of(title: str, net: Any, function: Any, operators: str, direction: str = "forward", **more: Any) -> Training:
    """A fault in the spot of a network."""
    return Training(title, lambda: net(function), net.spot, operators.split(), direction, **more)


def in_loss(title: str, net: Any, loss: Loss, operators: str, direction: str = "forward", **more: Any) -> Training:
    """A fault in the loss."""
    return Training(title, lambda: net(None), "the loss", operators.split(), direction, loss, **more)


TRAININGS = [
    of("log of 0", mlp, lambda x: (x * 0).log(), "aten::log"),
    of("log1p of -1", mlp, lambda x: (x * 0 - 1).log1p(), "aten::log1p"),
    of("root at 0", mlp, lambda x: (x * 0).sqrt(), "aten::sqrt", "backward"),
    of("rsqrt of 0", cnn, lambda x: x * (x * 0).rsqrt(), "aten::rsqrt"),
    of("0 / 0", cnn, lambda x: x / x.sub(x), "aten::div"),
    of("masked mean", gru, lambda x: x / (x > 99).sum(1, keepdim=True), "aten::div"),
    of("power at 0", gru, lambda x: (x * 0).pow(0.5) + x, "aten::pow", "backward"),
    of("negative power", encoder, lambda x: (x * 0).abs().pow(-1), "aten::pow aten::reciprocal"),
    of("exp overflows", encoder, lambda x: (x.abs() + 100).exp(), "aten::exp"),
    of("expm1 overflows", mlp, lambda x: (x.abs() + 100).expm1(), "aten::expm1"),
    of("square overflows", mlp, lambda x: (x.abs() * 1e30 + 1e30).square(), "aten::pow aten::square"),
    of("acos at 1", mlp, lambda x: (x * 0 + 1).acos() + x, "aten::acos", "backward"),
    of("asin beyond 1", cnn, lambda x: (x.abs() + 1.5).asin(), "aten::asin"),
    of("atanh of 1", encoder, lambda x: (x * 0 + 1).atanh(), "aten::atanh"),
    of("hypot at 0", mlp, lambda x: torch.hypot(x * 0, x * 0) + x, "aten::hypot", "backward"),
    of("logit of 1", mlp, lambda x: torch.logit(x * 0 + 1), "aten::logit"),
    of("erfinv of 1", mlp, lambda x: (x * 0 + 1).erfinv(), "aten::erfinv"),
    of("lgamma of 0", mlp, lambda x: (x * 0).lgamma(), "aten::lgamma"),
    of("root of a variance", encoder, lambda x: x + (x * 0).var(-1, keepdim=True).sqrt(), "aten::sqrt", "backward"),
    of("var of one", gru, lambda x: x + x[:1].var(0), "aten::var"),
    of("layer norm of equals", mlp, lambda x: functional.layer_norm(x * 0, (8,), eps=0.0), "aten::native_layer_norm"),
    of("norm at 0", encoder, lambda x: x + (x * 0).norm(dim=-1, keepdim=True) ** 0.5, "aten::pow", "backward"),
    of("cumprod overflows", mlp, lambda x: (x.abs() * 0 + 1e10).cumprod(1), "aten::cumprod"),
    of("cumsum overflows", mlp, lambda x: (x * 0 + 3e38).cumsum(1), "aten::cumsum"),
    of("eigenvectors of equals", mlp, repeated, "aten::linalg_eigh aten::_linalg_eigh", "backward"),
    of("rows masked before softmax", encoder, lambda x: (x - torch.inf).softmax(-1), "aten::_softmax aten::sub"),
    of("rows masked in attention", mlp, masked_rows, "aten::_softmax"),
    of("root behind where", cnn, lambda x: torch.where(x > 99, (x * 0).sqrt(), x), "aten::sqrt", "backward"),
    of("in place, of a part", mlp, in_place, "aten::div_"),
    of("in place, slope", mlp, in_place_slope, "aten::sqrt_", "backward"),
    of("custom function, backward", cnn, LogOfDistance.apply, "aten::div", "backward"),
    of("custom function, forward", gru, Overflowing.apply, "aten::exp"),
    of("float16 product", mlp, lambda x: x * 6e4 @ torch.full((8, 8), 10.0), "aten::mm aten::_to_copy", precision=half),
    of("float16 cast", cnn, lambda x: (x.float() + 1e6).half().float(), "aten::_to_copy", precision=half),
    of("bfloat16 exp", encoder, lambda x: (x.abs() + 100).exp(), "aten::exp", precision=brain),
    of("second of four micro-batches", mlp, lambda x: (x * 0).log(), "aten::log", micro_batches=4),
    of("slope in micro-batches", gru, lambda x: (x * 0).sqrt() + x, "aten::sqrt", "backward", micro_batches=4),
    Training("checkpointed", with_part(lambda: Checkpointed(lambda x: (x * 0).log())), "1.part", ["aten::log"]),
    Training(
        "checkpointed slope",
        with_part(lambda: Checkpointed(lambda x: (x * 0).sqrt() + x)),
        "1.part",
        ["aten::sqrt"],
        "backward",
    ),
    Training("compiled part", with_part(lambda: compiled(lambda x: (x * 0).log())), "1", ["aten::log"]),
    Training("NaN in a pixel", lambda: cnn(None), "0", ["aten::convolution"], prepare=set_input(torch.nan)),
    Training("infinity in the data", lambda: mlp(None), "0", ["aten::addmm"], prepare=set_input(torch.inf)),
    Training(
        "NaN in a weight", lambda: cnn(None), "0", ["aten::convolution"], prepare=set_element("0.weight", torch.nan)
    ),
    Training("infinite weight", lambda: mlp(None), "4", ["aten::addmm"], prepare=set_element("4.weight", torch.inf)),
    Training("NaN in a buffer", with_part(Scale), "1", ["aten::mul"], prepare=set_buffer),
    in_loss("mean of nothing", mlp, empty_mean, "aten::mean"),
    in_loss("cosine of 0", mlp, cosine, "aten::div"),
    in_loss("distance of equals", gru, distance, "aten::sqrt", "backward"),
    in_loss("entropy", encoder, entropy, "aten::log"),
    in_loss("variance 0", mlp, likelihood, "aten::div"),
    in_loss("empty mixture", cnn, mixture, "aten::log"),
    in_loss("singular matrix", mlp, determinant, "aten::_linalg_slogdet aten::linalg_slogdet"),
    in_loss("no class weight", mlp, soft_targets, "aten::nll_loss_forward"),
    in_loss("angle of equals", gru, angles, "aten::acos", "backward"),
    in_loss("nothing to contrast", mlp, contrast, "aten::masked_fill"),
    in_loss("focal at 1", cnn, focal, "aten::pow", "backward"),
]
"""The faults."""
