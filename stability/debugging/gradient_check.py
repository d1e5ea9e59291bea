"""Compares gradients with finite differences, by ``torch.autograd.gradcheck`` in float64, within a time."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch.autograd.gradcheck import GradcheckError

from debuggers.instrumentation.random_state import preserved_random_state
from debuggers.torch_import import torch
from debuggers.utils import tensors_in
from stability.debugging.gradient_check_values import CheckedValue, observed
from stability.debugging.gradient_mismatch import ABSOLUTE, RELATIVE, STEP, find_mismatches
from stability.results.debugging import GradientCheck, GradientCheckFailure, GradientMode

NONDETERMINISM = 1e-7
REPEATABILITY = 1e-12
ATTEMPTS = 3
MESSAGE_LENGTH = 200
Function = Callable[[list[torch.Tensor]], Any]


class SkippedError(Exception):
    """Why something cannot be checked."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """How a check is done.

    Attributes:
        budget_s: At each point it gives up after so many seconds; looked at before each evaluation. The first check
            in a process imports parts of torch, which takes a second or two and does not count.
        modes: Reverse mode, forward mode or both.
        sampled: Whether fewer elements may be checked where the time is short.
        masked: Whether sparse inputs have derivatives only where they have entries; see ``gradcheck``.
    """

    budget_s: float
    modes: tuple[GradientMode, ...] = ("reverse",)
    sampled: bool = False
    masked: bool | None = None


class _Evaluation:
    """The function as ``gradcheck`` wants it: from the values' chosen elements to small outputs.

    Each call starts from the same random numbers, so that dropout drops the same elements.
    """

    def __init__(self, function: Function, values: Sequence[CheckedValue], deadline: float) -> None:
        self.deadline = deadline
        self._function = function
        self._values = values
        self._weights: dict[int, torch.Tensor] = {}
        self.count = 0

    def __call__(self, *chosen: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if time.monotonic() > self.deadline:
            raise SkippedError("out of time")
        self.count += 1
        with preserved_random_state(value.base for value in self._values):
            result = self._function([value.put(part) for value, part in zip(self._values, chosen, strict=True)])
        outputs = observed(result, self._weights)
        if not outputs:
            raise SkippedError("no floating-point output")
        return outputs


def check_gradients(
    name: str, function: Function, make_values: Callable[[int], list[CheckedValue]], limits: CheckLimits
) -> GradientCheck:
    """Checks a function's derivatives with respect to the chosen elements of its values.

    At a kink, such as the two equal maxima of a pooling window, a finite difference is wrong, not the gradient. So a
    failure counts when it shows at three points: ``make_values`` shifts the inputs a little more each time. The random
    number generators are as before afterwards.

    Args:
        name: What is checked.
        function: Takes the values, in float64, and returns tensors in any structure.
        make_values: Returns the values at the point 0, 1 or 2.
        limits: How much is checked.
    """
    started = time.monotonic()
    result = GradientCheck(
        module=name, passed=None, skipped="", inputs=[], modes=[], evaluations=0, seconds=0.0, failures=[]
    )
    try:
        with ExitStack() as stack:
            _enter_plain_computation(stack)
            _check(result, function, make_values, limits)
    except SkippedError as reason:
        result["skipped"] = str(reason)
    except Exception as error:
        # Whatever the checked code raises in float64, or on a part of its batch, is no fault of its gradients.
        result["skipped"] = f"cannot be evaluated: {type(error).__name__}: {error}".partition("\n")[0][:MESSAGE_LENGTH]
    result["seconds"] = time.monotonic() - started
    return result


def _check(
    result: GradientCheck,
    function: Function,
    make_values: Callable[[int], list[CheckedValue]],
    limits: CheckLimits,
) -> None:
    failures: list[GradientCheckFailure] = []
    _import_what_gradcheck_needs(forward="forward" in limits.modes)
    for attempt in range(ATTEMPTS):
        values = make_values(attempt)
        evaluation = _Evaluation(function, values, time.monotonic() + limits.budget_s)
        chosen = [value.chosen_elements() for value in values]
        result["inputs"] = [value.name for value in values]
        try:
            _refuse_what_cannot_be_compared(evaluation, chosen)
            if limits.sampled:
                _choose_what_there_is_time_for(evaluation, values, chosen, limits)
                chosen = [value.chosen_elements() for value in values]
            messages = _failed_modes(evaluation, chosen, limits, result)
            evaluation.deadline = math.inf
            failures = [
                failure
                for mode, message in messages.items()
                for failure in find_mismatches(evaluation, values, chosen, mode, message)
            ]
        finally:
            result["evaluations"] += evaluation.count
        if not messages:
            result["passed"] = True
            return
    result["passed"] = False
    result["failures"] = failures


def _failed_modes(
    evaluation: _Evaluation, chosen: list[torch.Tensor], limits: CheckLimits, result: GradientCheck
) -> dict[GradientMode, str]:
    messages: dict[GradientMode, str] = {}
    checked: list[GradientMode] = []
    for mode in limits.modes:
        try:
            torch.autograd.gradcheck(
                evaluation,
                chosen,
                eps=STEP,
                atol=ABSOLUTE,
                rtol=RELATIVE,
                nondet_tol=NONDETERMINISM,
                check_undefined_grad=False,
                check_backward_ad=mode == "reverse",
                check_forward_ad=mode == "forward",
                masked=limits.masked,
            )
        except GradcheckError as error:
            messages[mode] = str(error).strip().splitlines()[0]
        except (NotImplementedError, RuntimeError):
            if mode != "forward":
                raise
            continue  # the module has no derivatives in forward mode
        checked.append(mode)
    result["modes"] = checked
    return messages


@cache
def _import_what_gradcheck_needs(*, forward: bool) -> None:
    value = CheckedValue("", torch.zeros(1, device="cpu"), elements=None, seed=0)
    evaluation = _Evaluation(lambda tensors: tensors, [value], math.inf)
    torch.autograd.gradcheck(evaluation, [value.chosen_elements()], check_forward_ad=forward)


def _refuse_what_cannot_be_compared(evaluation: _Evaluation, chosen: list[torch.Tensor]) -> None:
    with _PrecisionWatch() as watch:
        first = evaluation(*chosen)
    if watch.narrowing:
        raise SkippedError(f"computes below float64 inside ({watch.narrowing})")
    if not any(output.requires_grad for output in first):
        raise SkippedError("nothing to differentiate")
    if not all(bool(output.isfinite().all()) for output in first):
        raise SkippedError("output not finite")
    for one, other in zip(first, evaluation(*chosen), strict=True):
        # CUDA may add in another order; noise above this would show in a finite difference.
        if not torch.allclose(one, other, rtol=REPEATABILITY, atol=REPEATABILITY):
            raise SkippedError("not deterministic")


def _enter_plain_computation(stack: ExitStack) -> None:
    stack.enter_context(warnings.catch_warnings(action="ignore"))
    stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.enable_grad())
    stack.enter_context(torch.autograd.set_detect_anomaly(False))
    stack.enter_context(preserved_random_state())
    for device_type in ("cpu", "cuda"):
        stack.enter_context(torch.autocast(device_type, enabled=False))


def _choose_what_there_is_time_for(
    evaluation: _Evaluation, values: Sequence[CheckedValue], chosen: Sequence[torch.Tensor], limits: CheckLimits
) -> None:
    started = time.monotonic()
    evaluation(*chosen)
    seconds = max(time.monotonic() - started, 1e-9)
    # Two evaluations an element for the finite difference, as much again for the rest, and some twenty for backward.
    affordable = (limits.budget_s / seconds - 20 * len(limits.modes)) / (4 * len(limits.modes) * len(values))
    for value in values:
        value.choose_at_most(max(1, int(affordable)))


class _PrecisionWatch(torch.overrides.TorchFunctionMode):
    """Names the first function that makes less of float64 values: finite differences of its result would be noise."""

    def __init__(self) -> None:
        super().__init__()
        self.narrowing = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.narrowing and torch.float64 in _dtypes((args, kwargs)):
            narrow = _dtypes(result) & {torch.float32, torch.float16, torch.bfloat16}
            self.narrowing = f"{getattr(func, '__name__', func)} to {narrow.pop()}" if narrow else ""
        return result


def _dtypes(value: Any) -> set[torch.dtype]:
    return {tensor.dtype for tensor in tensors_in(value)}


def describe_failure(check: GradientCheck) -> str:
    """Returns one sentence about a check that failed: the entry that is furthest from its finite difference."""
    first = check["failures"][0]
    if math.isnan(first["analytical"]):
        return f"{check['module']}: {first['message']}"
    more = f", and {len(check['failures']) - 1} more" if len(check["failures"]) > 1 else ""
    return (
        f"{check['module']}: the gradient of output {first['output']} with respect to {first['input']}"
        f"{first['input_index']} is {first['analytical']:g}, its finite difference {first['numerical']:g} "
        f"({first['mode']} mode){more}"
    )
