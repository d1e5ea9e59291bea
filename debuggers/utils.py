"""Finds layers by name and applies functions to the tensors inside nested structures."""

import copy
import dataclasses
import difflib
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from debuggers.errors import LayerNotFoundError
from debuggers.torch_import import torch


def get_layer_by_name(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """Returns the submodule with this dotted name, such as ``backbone.layer4``; ``""`` is the model itself.

    Raises:
        LayerNotFoundError: When there is none; the message lists the nearest names.
    """
    layers: dict[str, torch.nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if name in layers:
        return layers[name]
    hint = nearest_names(name, (known for known in layers if known))
    raise LayerNotFoundError(f"{type(model).__name__} has no layer {name!r}; {hint}")


def nearest_names(name: str, names: Iterable[str]) -> str:
    """Returns what a message about a missing layer ends with: the nearest of the names that there are."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.4) or known[:5]
    return f"nearest names: {', '.join(near)}" if near else "it has no named layers"


_MOST_LEVELS = 100
"""How deep tensors are looked for. A list that holds itself must not take the interpreter's whole stack: whatever the
garbage collector finalizes up there fails, unseen."""


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Returns the tensors in nested mappings, lists, tuples and data classes, in their order.

    Raises:
        RecursionError: When they are nested in more than 100 levels, as in a list that holds itself.
    """
    if isinstance(values, torch.Tensor):
        return [values]
    found: list[torch.Tensor] = []
    _gather(values, found.append, _MOST_LEVELS)
    return found


def _gather(value: Any, note: Callable[[torch.Tensor], None], levels: int) -> None:
    if isinstance(value, torch.Tensor):
        note(value)
    elif isinstance(value, (list, tuple)):
        below = _below(levels, value)
        for item in value:
            _gather(item, note, below)
    elif isinstance(value, (dict, Mapping)):
        below = _below(levels, value)
        for item in value.values():
            _gather(item, note, below)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        below = _below(levels, value)
        for field in dataclasses.fields(value):
            _gather(getattr(value, field.name), note, below)


def _below(levels: int, value: Any) -> int:
    if not levels:
        raise RecursionError(
            f"a {type(value).__name__} is nested in more than {_MOST_LEVELS} others: does it hold itself?"
        )
    return levels - 1


def apply_tensor_op(func: Callable[[torch.Tensor], Any], inputs: Any) -> Any:
    """Returns ``inputs`` with ``func`` applied to each tensor.

    Goes into mappings, lists, tuples, named tuples and data classes, and passes everything else on as it is. They keep
    their types, but mappings that are neither a ``dict`` nor a ``UserDict`` become dicts. ``inputs`` is not changed.

    Raises:
        RecursionError: When they are nested in more than 100 levels, as in a list that holds itself.
    """
    return _applied(func, inputs, _MOST_LEVELS)


def _applied(func: Callable[[torch.Tensor], Any], value: Any, levels: int) -> Any:
    if isinstance(value, torch.Tensor):
        return func(value)
    if isinstance(value, Mapping):
        return _applied_to_mapping(func, value, _below(levels, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        below = _below(levels, value)
        return type(value)(*(_applied(func, item, below) for item in value))
    if isinstance(value, (list, tuple)):
        below = _below(levels, value)
        # A list serves every type: the results of torch.max and its like take only one sequence.
        return type(value)([_applied(func, item, below) for item in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        below, changed = _below(levels, value), copy.copy(value)
        for field in dataclasses.fields(value):
            # A frozen data class refuses setattr; its copy is ours to fill.
            object.__setattr__(changed, field.name, _applied(func, getattr(value, field.name), below))
        return changed
    return value


def _applied_to_mapping(
    func: Callable[[torch.Tensor], Any], inputs: Mapping[Any, Any], levels: int
) -> Mapping[Any, Any]:
    items = {key: _applied(func, item, levels) for key, item in inputs.items()}
    # A shallow copy of any other mapping may hold the same items as the original.
    if type(inputs) is dict or not isinstance(inputs, (dict, UserDict)):
        return items
    changed: Any = copy.copy(inputs)  # keeps the factory of a defaultdict, the attributes of a model output
    for key, item in items.items():
        changed[key] = item
    return changed  # type: ignore[no-any-return]
