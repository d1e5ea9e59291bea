"""The thirty faults: ten in each network, forward and backward, in float32, bfloat16 and float16."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from planted.networks import BadSlope, Change, Images, Spot, Steps, Tokens

BATCH = 7


@dataclass(frozen=True)
class Fault:
    """A fault, and its name: module, operator and pass.

    Attributes:
        title: What it is.
        model: Makes the network.
        module: The name of the module that has it, or ``the loss``.
        operator: The operator; empty where it depends on the processor.
        direction: The pass.
        precision: The dtype of autocast, if any.
        loss: Computes the loss of outputs and targets.
        prepare: Changes the model or the inputs first.
        call: Which call of the module.
        rows: The datapoints that trigger it, where they can be told.
    """

    title: str
    model: Callable[[], nn.Module]
    module: str
    operator: str
    direction: str = "forward"
    precision: torch.dtype | None = None
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy
    prepare: Callable[[nn.Module, Tensor], None] | None = None
    call: int = 1
    rows: tuple[int, ...] | None = None


def scaled(name: str, factor: float) -> Callable[[nn.Module, Tensor], None]:
    def prepare(model: nn.Module, inputs: Tensor) -> None:
        with torch.no_grad():
            model.get_parameter(name).mul_(factor)

    return prepare


def poisoned(name: str, value: float) -> Callable[[nn.Module, Tensor], None]:
    def prepare(model: nn.Module, inputs: Tensor) -> None:
        with torch.no_grad():
            model.get_parameter(name).view(-1)[1] = value

    return prepare


def set_gain(model: nn.Module, inputs: Tensor) -> None:
    model.blocks[1].attention.gain = 1e6


def nan_pixel(model: nn.Module, inputs: Tensor) -> None:
    inputs[2, 0, 1, 1] = torch.nan


def log_of_probabilities(outputs: Tensor, targets: Tensor) -> Tensor:
    return -(outputs * 1000).softmax(1).gather(1, targets[:, None]).log().mean()


def nothing_to_learn(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, torch.full_like(targets, -100))


def certain(outputs: Tensor, targets: Tensor) -> Tensor:
    share = torch.sigmoid(outputs * 1e4).max(1).values
    return -(1 - share).log().mean()


def spread_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets) + (outputs[:1] - outputs[:1]).square().sum().sqrt()


half, brain = torch.float16, torch.bfloat16


def images(function: Change | None = None) -> Callable[[], nn.Module]:
    return lambda: Images(Spot(function))


def tokens(function: Change | None = None) -> Callable[[], nn.Module]:
    return lambda: Tokens(Spot(function))


def steps(function: Change | None = None) -> Callable[[], nn.Module]:
    return lambda: Steps(function)


def last_step(function: Change | None = None) -> Callable[[], nn.Module]:
    return lambda: Steps(spot=Spot(function))


FAULTS = [
    Fault("log of 0", images(lambda x: nn.functional.relu(x - 100).log()), "blocks.5", "aten::log", rows=(2,)),
    Fault("root at 0", images(lambda x: (x * 0).sqrt() + x), "blocks.5", "aten::sqrt", "backward", rows=(2,)),
    Fault("0 / 0", images(lambda x: x / (x * 0).sum()), "blocks.5", "aten::div", rows=(2,)),
    Fault(
        "float16 convolution",
        images(),
        "blocks.0",
        "aten::convolution",
        precision=half,
        prepare=scaled("blocks.0.weight", 6e4),
    ),
    Fault("exp overflows", images(lambda x: (x * 1e3).exp()), "blocks.5", "aten::exp", precision=brain, rows=(2,)),
    Fault("NaN in the data", images(), "blocks.0", "aten::convolution", prepare=nan_pixel),
    Fault("blown-up weights", images(), "head", "aten::addmm", prepare=scaled("head.weight", 3e38)),
    Fault(
        "NaN in a weight",
        images(),
        "blocks.1",
        "aten::native_batch_norm",
        prepare=poisoned("blocks.1.weight", torch.nan),
    ),
    Fault("power below 1 at 0", images(lambda x: (x * 0) ** 0.5), "blocks.5", "aten::pow", "backward", rows=(2,)),
    Fault("deviation of one", images(lambda x: x + x.std(0)), "blocks.5", "aten::std", precision=half, rows=(2,)),
    Fault("all masked", lambda: Tokens(Spot(), mask_all=True), "blocks.1.attention", "aten::_softmax", rows=(2,)),
    Fault(
        "product with the mask",
        tokens(lambda x: x * torch.zeros(16).index_fill(0, torch.tensor([3]), -torch.inf) * 0),
        "blocks.1.spot",
        "aten::mul",
        rows=(2,),
    ),
    Fault("log of a probability 0", tokens(), "the loss", "aten::log", loss=log_of_probabilities),
    Fault(
        "root behind where",
        tokens(lambda x: torch.where(x > 100, (x * 0).sqrt(), x)),
        "blocks.1.spot",
        "aten::sqrt",
        "backward",
        rows=(2,),
    ),
    Fault("float16 scores", tokens(), "blocks.1.attention", "aten::mul", precision=half, prepare=set_gain),
    Fault("acos at 1", tokens(lambda x: (x * 0 + 1).acos() + x), "blocks.1.spot", "aten::acos", "backward", rows=(2,)),
    Fault("acosh at 1", tokens(lambda x: (x * 0 + 1).acosh() + x), "blocks.1.spot", "aten::acosh", "backward"),
    Fault("no target", tokens(), "the loss", "aten::nll_loss_forward", loss=nothing_to_learn),
    Fault("1 / 0", tokens(lambda x: (x * 0).reciprocal()), "blocks.1.spot", "aten::reciprocal", precision=brain),
    Fault(
        "infinity in a weight",
        tokens(),
        "blocks.0.norm",
        "aten::native_layer_norm",
        prepare=poisoned("blocks.0.norm.weight", torch.inf),
    ),
    Fault("log in the third step", steps(lambda s: s.abs().neg().log()), "cell", "aten::log", call=3),
    Fault("NaN in a recurrent weight", steps(), "lstm", "", prepare=poisoned("lstm.weight_hh_l0", torch.nan)),
    Fault("gate overflows", steps(lambda s: (s * 1e5).exp()), "cell", "aten::exp", precision=brain, call=3),
    Fault("asin beyond 1", steps(lambda s: (s + 2).asin()), "cell", "aten::asin", call=3),
    Fault("wrong slope", last_step(BadSlope.apply), "spot", "aten::div", "backward", rows=(2,)),
    Fault("atanh at 1", steps(lambda s: (s * 0 + 1).atanh()), "cell", "aten::atanh", call=3),
    Fault("rsqrt of 0", last_step(lambda x: (x * 0).rsqrt()), "spot", "aten::rsqrt", precision=brain),
    Fault("log of 1 - p", steps(), "the loss", "aten::log", loss=certain),
    Fault(
        "cast to float16",
        last_step(lambda x: (x.float() + 1e6).half().float()),
        "spot",
        "aten::_to_copy",
        precision=half,
        rows=(2,),
    ),
    Fault("root in the loss", steps(), "the loss", "aten::sqrt", "backward", loss=spread_loss),
]


def plant(fault: Fault) -> tuple[nn.Module, Tensor, Callable[[], Tensor]]:
    """Returns a model with the fault, a batch, and what computes the loss of the batch."""
    torch.manual_seed(1)
    model = fault.model()
    kind = type(model)
    inputs = (
        torch.randn(BATCH, 1, 8, 8)
        if kind is Images
        else torch.randint(11, (BATCH, 6))
        if kind is Tokens
        else torch.randn(BATCH, 5, 4)
    )
    if fault.prepare is not None:
        fault.prepare(model, inputs)
    targets = torch.randint(5, (BATCH,))

    def closure() -> Tensor:
        autocast = torch.autocast("cpu", dtype=fault.precision) if fault.precision else contextlib.nullcontext()
        with autocast:
            outputs = model(inputs)
        return fault.loss(outputs.float(), targets)

    return model, inputs, closure
