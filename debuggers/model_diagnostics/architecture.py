"""Reads the architecture of a model from its modules; the model is not run, except to count its operations."""

from collections.abc import Iterable
from typing import Any

from debuggers.instrumentation.model_replay import plain_model, run_aside
from debuggers.model_diagnostics.records import ModelArchitectureInfo
from debuggers.torch_import import torch

NARROW = 0.25
"""A layer below this share of the widths of both neighbours is a bottleneck."""
_WIDTHS = ("out_features", "embedding_dim", "out_channels")


def architecture_of(model: torch.nn.Module) -> ModelArchitectureInfo:
    """Returns the size and shape of a model, from shapes only: nothing is computed, and no tensor is read.

    Parameters that are not initialised yet (lazy modules) count as empty.
    """
    parameters = [one for one in model.parameters() if not _is_lazy(one)]
    buffers = [one for one in model.buffers() if not _is_lazy(one)]
    modules = dict(model.named_modules())
    widths = dict(_widths(modules.items()))
    return ModelArchitectureInfo(
        total_parameters=sum(one.numel() for one in parameters),
        trainable_parameters=sum(one.numel() for one in parameters if one.requires_grad),
        model_size_mb=sum(one.numel() * one.element_size() for one in parameters + buffers) / 2**20,
        layer_count=sum(not any(True for _ in module.children()) for module in modules.values()),
        depth=max(name.count(".") + 1 if name else 0 for name in modules),
        parameters_by_module={
            name: count
            for name, module in modules.items()
            if (count := sum(one.numel() for one in module.parameters(recurse=False) if not _is_lazy(one)))
        },
        widths=widths,
        bottlenecks=tuple(_narrow(list(widths.items()))),
    )


def count_flops(model: torch.nn.Module, *inputs: Any) -> int:
    """Returns the floating-point operations of one forward pass, by ``torch.utils.flop_counter``.

    It counts matrix products, convolutions and attention, two operations for each multiplication and addition. The
    model runs once, without gradients and aside: buffers and random state stay as they were; see ``run_aside``. What
    the model raises is raised.

    Raises:
        DebuggerConfigError: When the model computes together with other processes.
    """
    from torch.utils.flop_counter import FlopCounterMode

    plain = plain_model(model)

    def counted() -> int:
        with FlopCounterMode(display=False) as counter:
            plain(*inputs)
        return int(counter.get_total_flops())

    return run_aside(plain, counted, gradients=False)


def _widths(modules: Iterable[tuple[str, torch.nn.Module]]) -> Iterable[tuple[str, int]]:
    for name, module in modules:
        width = next((value for key in _WIDTHS if type(value := getattr(module, key, None)) is int), None)
        if width:
            yield name, width


def _narrow(widths: list[tuple[str, int]]) -> Iterable[str]:
    # The last layer has as many outputs as the task has answers, whatever comes before it.
    for (_, before), (name, width), (_, after) in zip(widths, widths[1:], widths[2:], strict=False):
        if width < NARROW * min(before, after):
            yield name


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer))
