"""Gradient checks of a copy of a module with the inputs that it was given, and of a user's function."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracker_adapters.values.tensors import is_sharded

from debuggers.torch_import import torch
from debuggers.torch_internals.modules import hook_tables, is_compiled, parameters_of
from debuggers.utils import apply_tensor_op, tensors_in
from stability.debugging.gradient_check import CheckLimits, check_gradients
from stability.debugging.gradient_check_values import CHOSEN_ELEMENTS, CheckedValue
from stability.errors import StabilityError
from stability.results.debugging import GradientCheck

UNCUT_INPUT_ELEMENTS = 65_536
MOST_INPUT_ELEMENTS = 1_000_000
MOST_PARAMETER_ELEMENTS = 10_000_000
ROWS = 2


def check_module(
    name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], limits: CheckLimits, *, seed: int
) -> GradientCheck:
    """Checks the gradients of a module's outputs with respect to its inputs and parameters, up to eight each.

    The module is copied without its hooks, made float64, and stays in its mode: batch norm normalises by the batch in
    training and by its running statistics in eval, and dropout drops the same elements at each evaluation. The module
    itself is only read.

    Args:
        name: Its name.
        module: A leaf module, or another one that is small.
        args: What it was called with; see ``small_arguments``.
        kwargs: Its keyword arguments.
        limits: How much is checked.
        seed: Which elements.
    """
    try:
        twin = _float64_copy(module)
    except Exception as error:
        return skipped(name, f"cannot be copied: {type(error).__name__}")
    parameters = dict(twin.named_parameters())
    inputs = dict(_named_tensors(args, kwargs))

    def make_values(attempt: int) -> list[CheckedValue]:
        values = []
        for value_name, tensor in (*inputs.items(), *parameters.items()):
            value = CheckedValue(value_name, tensor, elements=CHOSEN_ELEMENTS, seed=seed)
            if value_name in inputs:
                value.shift(seed + attempt)
            values.append(value)
        return values

    def call(tensors: list[torch.Tensor]) -> Any:
        given = iter(tensors[: len(inputs)])
        for parameter_name, tensor in zip(parameters, tensors[len(inputs) :], strict=True):
            _replace_parameter(twin, parameter_name, tensor)
        return twin(
            *apply_tensor_op(lambda tensor: next(given) if _differentiable(tensor) else tensor, args),
            **apply_tensor_op(lambda tensor: next(given) if _differentiable(tensor) else tensor, kwargs),
        )

    return check_gradients(name, call, make_values, limits)


def check_function(
    function: Callable[..., Any], inputs: torch.Tensor | Sequence[torch.Tensor], limits: CheckLimits
) -> GradientCheck:
    """Checks the gradients of a function with respect to all elements of its floating-point or complex inputs.

    Args:
        function: Called with the inputs in float64 (complex128), as often as they have elements and more: keep them
            small.
        inputs: Its arguments, dense or sparse (COO or CSR); those of other dtypes are passed as they are.
        limits: How much is checked.

    Raises:
        StabilityError: When an input is no tensor, or none is floating-point or complex.
    """
    given: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for number, tensor in enumerate(given):
        if not isinstance(tensor, torch.Tensor):
            raise StabilityError(f"input {number} of the checked function is {tensor!r}; expected a tensor")
    checked = {f"input {number}": tensor for number, tensor in enumerate(given) if _differentiable(tensor)}
    if not checked:
        raise StabilityError(
            f"the checked function's inputs are {', '.join(str(tensor.dtype) for tensor in given) or 'none'}; "
            "expected at least one of a floating-point or complex dtype"
        )

    def make_values(attempt: int) -> list[CheckedValue]:
        values = [CheckedValue(name, tensor, elements=None, seed=0) for name, tensor in checked.items()]
        for value in values[: len(values) if attempt else 0]:
            value.shift(attempt)
        return values

    def call(tensors: list[torch.Tensor]) -> Any:
        values = iter(tensors)
        return function(*(next(values) if _differentiable(tensor) else tensor for tensor in given))

    name = getattr(function, "__name__", type(function).__name__)
    return check_gradients(name, call, make_values, limits)


def small_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Returns copies of a call's arguments, cut to two rows where they hold more than 65,536 elements.

    What is cut is every tensor whose first dimension is that of the first tensor. None when that is more
    than a million elements.
    """
    tensors = [tensor for _, tensor in _tensors(args, kwargs)]
    rows = tensors[0].shape[0] if tensors and tensors[0].ndim else 0
    cut = sum(map(_elements, tensors)) > UNCUT_INPUT_ELEMENTS

    def part(tensor: torch.Tensor) -> torch.Tensor:
        strided = tensor.layout is torch.strided
        return tensor[:ROWS] if cut and strided and tensor.ndim and tensor.shape[0] == rows else tensor

    if sum(_elements(part(tensor)) for tensor in tensors) > MOST_INPUT_ELEMENTS:
        return None
    with torch.no_grad():
        return apply_tensor_op(lambda tensor: part(tensor.detach()).clone(), (args, kwargs))  # type: ignore[no-any-return]


def reason_to_skip(module: torch.nn.Module) -> str | None:
    """Returns why a module is not to be checked, or None."""
    tensors = [*module.parameters(), *module.buffers()]
    if any(map(is_sharded, tensors)):
        return "sharded"
    if sum(tensor.numel() for tensor in tensors) > MOST_PARAMETER_ELEMENTS:
        return f"more than {MOST_PARAMETER_ELEMENTS:,} parameters"
    if isinstance(module, torch.nn.SyncBatchNorm):
        return "computes together with other processes"
    if isinstance(module, torch.jit.ScriptModule) or is_compiled(module):
        return "compiled"
    return None


def skipped(name: str, reason: str) -> GradientCheck:
    """Returns what stands for a check that was not done."""
    return GradientCheck(
        module=name, passed=None, skipped=reason, inputs=[], modes=[], evaluations=0, seconds=0.0, failures=[]
    )


def is_sparse(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a module's gradients or inputs are sparse."""
    inputs_sparse = any(tensor.layout is not torch.strided for _, tensor in _tensors(args, kwargs))
    return bool(getattr(module, "sparse", False)) or inputs_sparse


def _float64_copy(module: torch.nn.Module) -> torch.nn.Module:
    memo: dict[int, Any] = {}
    for part in module.modules():
        for table in hook_tables(part):
            memo[id(table)] = type(table)()
    return copy.deepcopy(module, memo).double()


def _replace_parameter(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    # As a plain attribute: a recurrent layer keeps a list of its weights, which only this updates.
    path, _, attribute = name.rpartition(".")
    owner = module.get_submodule(path)
    parameters_of(owner).pop(attribute, None)
    setattr(owner, attribute, tensor)


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _elements(tensor: torch.Tensor) -> int:
    return tensor.numel() if tensor.layout is torch.strided else math.prod(tensor.shape)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    named = [*((f"input {number}", value) for number, value in enumerate(args)), *kwargs.items()]
    for name, value in named:
        found = list(tensors_in(value))
        for number, tensor in enumerate(found):
            yield name if len(found) == 1 else f"{name}.{number}", tensor


def _named_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    return ((name, tensor) for name, tensor in _tensors(args, kwargs) if _differentiable(tensor))
