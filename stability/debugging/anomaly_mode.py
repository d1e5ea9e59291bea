"""Autograd's anomaly mode while a session runs, and the operations behind a gradient that is not finite."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tracker_adapters.wording import some_of

from debuggers.torch_import import torch
from stability.debugging.config import AnomalyMode
from stability.debugging.log import DebugLog
from stability.debugging.process_setting import ProcessSetting
from stability.debugging.tool import StepSeen
from stability.results.step import Anomaly, DebugInfo

MOST_SUSPECTS = 5
_TRACEBACK = "traceback_"
_TORCH = str(Path(torch.__file__).parent)
_RAISED = r"Function '(\w+)' returned nan values in its \d+th output"
_ROOTS = ("t_outputs", "tensors", "outputs", "self")
"""The variables of torch's functions that hold what ``backward`` began with, the innermost function's first."""


class _Mode(NamedTuple):
    """Whether anomaly mode is on, and whether it checks each gradient."""

    enabled: bool
    check_nan: bool


def _read() -> _Mode:
    return _Mode(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())


def _write(mode: _Mode) -> None:
    torch.autograd.set_detect_anomaly(mode.enabled, check_nan=mode.check_nan)


def _strictest(modes: Iterable[_Mode]) -> _Mode:
    return _Mode(enabled=True, check_nan=any(mode.check_nan for mode in modes))


_SETTING = ProcessSetting(_read, _write, _strictest)


@dataclass(frozen=True, slots=True)
class SuspectOperation:
    """An operation whose backward may have made a gradient not finite.

    Attributes:
        name: The autograd function's, such as ``SqrtBackward0``.
        place: The innermost frame outside torch that called it in the forward pass, as ``file:line in function: text``;
            empty when nothing is known of it.
    """

    name: str
    place: str


class AutogradAnomaly:
    """Switches torch's anomaly mode on until ``close``; after the last of several sessions it is as it was.

    With ``"raise"`` torch checks each gradient in ``backward`` and raises at the first NaN. With ``"detect"`` it only
    keeps where each operation was called, and the operations that may have made a gradient not finite are logged
    after the step.
    """

    def __init__(self, mode: AnomalyMode, log: DebugLog) -> None:
        self._log = log
        self._ongoing = False
        _SETTING.hold(self, _Mode(enabled=True, check_nan=mode == "raise"))

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Nothing is attached: the mode is the process's."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Names the suspects when gradients stop being finite while the loss is: at the first of consecutive steps."""
        loss = seen.loss
        kinds = {anomaly["kind"] for anomaly in seen.anomalies}
        ongoing, self._ongoing = self._ongoing, bool(kinds & {"nan_gradient", "inf_gradient"})
        if ongoing or not self._ongoing or kinds & {"nan_loss", "inf_loss"}:
            return []
        if not isinstance(loss, torch.Tensor) or loss.grad_fn is None:
            self._log.note("no_graph", "the loss has no graph: the operation behind a fault cannot be named")
            return []
        suspects = find_suspects(seen.model, loss, seen.faulty)
        if suspects:
            listed = "; ".join(f"{suspect.name} at {suspect.place}" for suspect in suspects)
            info["suspect_operations"] = [f"{suspect.name}: {suspect.place}" for suspect in suspects]
            self._log.event(
                "suspect_operations",
                f"step {seen.number}: if the fault has one origin, it is the backward of one of these operations, "
                f"the nearest to the loss first: {listed}",
                "error",
            )
        return []

    def close(self) -> None:
        """Puts the mode back."""
        _SETTING.release(self)


def find_suspects(model: torch.nn.Module, loss: torch.Tensor, faulty: list[str]) -> list[SuspectOperation]:
    """Returns the operations, nearest to the loss first, that can have made the gradients of these parameters faulty.

    What is not finite spreads to everything that the gradient reaches from there. So the operation lies on the way to
    all faulty parameters and to no sound one; the last operation before those may be at fault too, for the gradient
    that it hands on. This holds for one origin; of several, the result shows at most what they have in common. At most
    five operations; the graph's structure and tracebacks outlive the backward pass.

    Args:
        model: Whose parameters.
        loss: With a graph made in anomaly mode.
        faulty: Names of its parameters.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    order = list(_in_backward_order(loss.grad_fn))
    reached = _parameters_reached(order, names)
    wanted = frozenset(faulty)
    known = frozenset().union(*reached.values()) if reached else frozenset()
    inner = [node for node in order if not hasattr(node, "variable") and wanted and wanted <= reached[id(node)]]
    sound = known - wanted
    chosen = [node for node in inner if not reached[id(node)] & sound]
    before = [node for node in inner if reached[id(node)] & sound]
    suspects = [*before[-1:], *chosen] if sound else chosen
    described = [SuspectOperation(node.name(), _place(node)) for node in suspects]
    unique = [each for each in dict.fromkeys(described) if each.place]
    return unique[:MOST_SUSPECTS]


@dataclass(frozen=True, slots=True)
class RaisedInBackward:
    """What torch raised in a backward pass.

    Attributes:
        message: The operation whose gradient was NaN, and where it was called.
        loss: Of that step; NaN where it cannot be known.
    """

    message: str
    loss: float


def raised_in_backward(error: BaseException) -> RaisedInBackward | None:
    """Returns what torch's anomaly mode raised; None for another error."""
    found = re.match(_RAISED, str(error)) if isinstance(error, RuntimeError) else None
    if found is None:
        return None
    message = f"the backward of an operation gave NaN, and torch raised it: {found[1]}"
    roots = [root for root in _backward_roots(error) if root.grad_fn is not None]
    nodes = [node for root in roots[:1] for node in _in_backward_order(root.grad_fn) if node.name() == found[1]]
    places = [place for place in dict.fromkeys(map(_place, nodes)) if place]
    if places:
        message += f" at {some_of(places, MOST_SUSPECTS, joint=' or at ')}"
    losses = [float(root.detach()) for root in roots if root.numel() == 1 and not root.is_complex()]
    return RaisedInBackward(message, losses[0] if losses else math.nan)


def _backward_roots(error: BaseException) -> Iterator[torch.Tensor]:
    """The tensors that ``backward`` was called on: only the frames of torch know them once it has raised."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(_TORCH):
            found = [traceback.tb_frame.f_locals.get(name) for name in _ROOTS]
            for one in chain.from_iterable(one if isinstance(one, (list, tuple)) else [one] for one in found):
                if isinstance(one, torch.Tensor):
                    yield one
        traceback = traceback.tb_next


def _in_backward_order(root: Any) -> Iterator[Any]:
    """The nodes of a graph, each after all that hand their gradient to it."""
    waiting: dict[int, int] = {}
    stack, seen = [root], {id(root)}
    nodes = [root]
    while stack:
        for child, _ in stack.pop().next_functions:
            if child is None:
                continue
            waiting[id(child)] = waiting.get(id(child), 0) + 1
            if id(child) not in seen:
                seen.add(id(child))
                nodes.append(child)
                stack.append(child)
    ready = [root]
    while ready:
        node = ready.pop(0)
        yield node
        for child, _ in node.next_functions:
            if child is not None:
                waiting[id(child)] -= 1
                if not waiting[id(child)]:
                    ready.append(child)


def _parameters_reached(order: list[Any], names: dict[int, str]) -> dict[int, frozenset[str]]:
    reached: dict[int, frozenset[str]] = {}
    for node in reversed(order):
        variable = getattr(node, "variable", None)
        own = frozenset({names[id(variable)]}) if variable is not None and id(variable) in names else frozenset()
        reached[id(node)] = own.union(*(reached[id(child)] for child, _ in node.next_functions if child is not None))
    return reached


def _place(node: Any) -> str:
    """The innermost frame outside torch of a node's forward traceback."""
    frames = [line.strip() for line in node.metadata.get(_TRACEBACK, []) if _TORCH not in line.partition("\n")[0]]
    if not frames:
        return ""
    found = re.match(r'File "(.*)", line (\d+), in (.*)\n\s*(.*)', frames[-1])
    return f"{found[1]}:{found[2]} in {found[3]}: {found[4]}" if found else " ".join(frames[-1].split())
