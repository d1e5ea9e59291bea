"""One pass over a model's gradients: the norms that detection and clipping share, in one copy to the host."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tracker_adapters.values.tensors import local_part

from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach
from stability.errors import StabilityError
from stability.gradients.sharded import RankGroups, lie_on_one_mesh, rank_groups, whole_norms, whole_tensor

CLIP_EPSILON = 1e-6
"""Added to the norm before dividing by it, as ``torch.nn.utils.clip_grad_norm_`` does (PyTorch 2.7 to 2.15)."""
_CLEARLY_BELOW = 0.99
"""A norm under this share of the bound is not clipped, whatever the rounding of its last digits."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """A model's gradients, in the order of ``model.parameters()``; tied parameters come once.

    Attributes:
        names: Of the parameters that have a gradient.
        tensors: Their gradients: of a sparse one the coalesced values, of a sharded one (a DTensor) the part on this
            rank. To change them in place is to change the gradients, once ``store`` is called.
        parameters: Those that have a gradient.
        all_parameters: Those without a gradient too.
        without_gradient: Names of those that have none.
        coalesced: The sparse gradients, coalesced, by their position.
        groups: Which ranks hold the other parts of each gradient.
    """

    names: list[str]
    tensors: list[torch.Tensor]
    parameters: list[torch.nn.Parameter]
    all_parameters: list[torch.nn.Parameter]
    without_gradient: list[str]
    coalesced: dict[int, torch.Tensor]
    groups: list[RankGroups]

    def store(self) -> None:
        """Gives sparse gradients the values in ``tensors``: call it when these were changed, and not before.

        A sparse gradient that nobody changes stays as backward left it, duplicates included: an optimizer that adds
        them one by one rounds otherwise.
        """
        for index, gradient in self.coalesced.items():
            self.parameters[index].grad = gradient


@dataclass(frozen=True, slots=True)
class Norms:
    """Norms on the host, and what clipping needs on the device.

    ``each`` is in the order of the gradients. ``coefficient`` is at most 1; its tensor is what
    ``clip_grad_norm_`` would multiply by, to the bit. ``extras`` are values that a clipper asked for.
    """

    each: list[float]
    total: float
    coefficient: float
    coefficient_tensor: torch.Tensor
    loss: float
    extras: list[float] = field(default_factory=list)


@torch.no_grad()
def collect_gradients(model: torch.nn.Module) -> Gradients:
    """Returns the gradients of a model's parameters; call it after unscaling, which may replace sparse ones.

    Raises:
        StabilityError: When no parameter has one, or one is in a compressed sparse layout or a sum that its ranks
            have not formed; names the parameter.
    """
    names: list[str] = []
    tensors: list[torch.Tensor] = []
    parameters: list[torch.nn.Parameter] = []
    all_parameters: list[torch.nn.Parameter] = []
    without_gradient: list[str] = []
    coalesced: dict[int, torch.Tensor] = {}
    groups: list[RankGroups] = []
    for name, parameter in model.named_parameters():
        all_parameters.append(parameter)
        gradient = parameter.grad
        if gradient is None:
            without_gradient.append(name)
            continue
        if gradient.layout is torch.sparse_coo:
            gradient = coalesced[len(names)] = gradient.coalesce()
            gradient = gradient.values()
        elif gradient.layout is not torch.strided:
            raise StabilityError(
                f"the gradient of {name} has the layout {gradient.layout}; expected a dense one or torch.sparse_coo"
            )
        names.append(name)
        groups.append(rank_groups(name, gradient))
        tensors.append(local_part(gradient))
        parameters.append(parameter)
    if not tensors:
        raise _nothing_to_do(model)
    return Gradients(names, tensors, parameters, all_parameters, without_gradient, coalesced, groups)


def check_any_gradient(model: torch.nn.Module) -> None:
    """Raises StabilityError when no parameter has a gradient."""
    if all(parameter.grad is None for parameter in model.parameters()):
        raise _nothing_to_do(model)


def _nothing_to_do(model: torch.nn.Module) -> StabilityError:
    return StabilityError(
        f"none of the {len(list(model.parameters()))} parameters of {type(model).__name__} has a gradient; "
        "expected step() after loss.backward() and before optimizer.zero_grad()"
    )


def check_loss(loss: torch.Tensor | float) -> None:
    """Raises StabilityError unless ``loss`` is a real number or a tensor of one element; NaN is legal."""
    if isinstance(loss, torch.Tensor):
        if loss.numel() == 1 and not loss.is_complex() and not loss.is_meta and loss.layout is torch.strided:
            return
        found = f"a {loss.layout} tensor of shape {tuple(loss.shape)} and {loss.dtype} on {loss.device}"
    elif isinstance(loss, (int, float)):
        return
    else:
        found = f"{type(loss).__name__} {loss!r}"
    raise StabilityError(f"the loss is {found}; expected a real scalar, such as loss.mean()")


@torch.no_grad()
def measure(
    gradients: Gradients,
    loss: torch.Tensor | float,
    norm_type: float,
    max_norm: float,
    extras: Sequence[torch.Tensor] = (),
    *,
    wide: bool = False,
) -> Norms:
    """Returns the norm of each gradient, the norm of these norms, and the factor that clips it to ``max_norm``.

    The arithmetic is that of ``torch.nn.utils.clip_grad_norm_``, order and dtypes included; the norm of a sharded
    gradient is that of the whole, on every rank. Where sharded and whole gradients, or several meshes, come together,
    which ``clip_grad_norm_`` refuses, and for the largest magnitude, sums over the ranks are formed first. A gradient
    with NaN has the norm NaN, one with infinities an infinite norm or NaN; a finite one whose norm is beyond its
    dtype's range has an infinite norm too (``handling.non_finite.find_faults`` tells them apart).

    Args:
        gradients: What to measure, on one or several devices.
        loss: Travels to the host in the same copy.
        norm_type: The order of the norm, positive.
        max_norm: The largest total norm.
        extras: Further 0-d tensors, on any device, that travel to the host in the same copy.
        wide: Form all sums in float64, other than ``clip_grad_norm_`` does.
    """
    first_device = gradients.tensors[0].device
    norms, order = _norms(gradients.tensors, norm_type, wide=wide)
    norms = whole_norms(norms, [gradients.groups[index] for index in order], norm_type)
    stacked = torch.stack([norm.to(first_device) for norm in norms])
    total = torch.linalg.vector_norm(stacked, norm_type)
    if not (wide or math.isinf(norm_type)) and lie_on_one_mesh(gradients.groups, gradients.parameters):
        # Which sums are formed first, those over the ranks or those over the parameters, decides the last bits.
        whole = [parameter.grad for parameter in gradients.parameters if parameter.grad is not None]
        sharded, _ = _norms(whole, norm_type)
        total = whole_tensor(torch.linalg.vector_norm(torch.stack(sharded), norm_type))
    coefficient = torch.clamp(max_norm / (total + CLIP_EPSILON), max=1.0)
    pieces = [stacked, total.reshape(1), coefficient.reshape(1)]
    pieces += [extra.reshape(1).to(first_device) for extra in extras]
    if isinstance(loss, torch.Tensor):
        pieces.append(loss.detach().reshape(1).to(first_device))
    # The only synchronisation of a step: the norms are exact in the widest of their dtypes.
    values = torch.cat(pieces).tolist()
    each = [0.0] * len(order)
    for position, index in enumerate(order):
        each[index] = values[position]
    total_value, coefficient_value, *rest = values[len(order) :]
    loss_value = rest[-1] if isinstance(loss, torch.Tensor) else float(loss)
    return Norms(each, total_value, coefficient_value, coefficient, loss_value, rest[: len(extras)])


def shared_norms(
    summaries: SummaryTable, loss: torch.Tensor | float, norm_type: float, max_norm: float
) -> Norms | None:
    """Returns the norms of gradients that were measured already, or None where ``measure`` has to do it.

    That is where its last bits matter, because the gradients will be clipped, where a value is not finite or only a
    part of a gradient was measured, and for other norms than the Euclidean and the largest magnitude. These norms are
    sums in float64, so that they can differ from those of ``measure`` in the last digits of float32.

    Args:
        summaries: The gradients' summaries, in their order.
        loss: The loss, on the host.
        norm_type: The order of the norm.
        max_norm: The largest total norm.
    """
    if norm_type not in (2.0, math.inf) or summaries.non_finite.any() or summaries.local_shard.any():
        return None
    each = summaries.l2 if norm_type == 2.0 else np.nan_to_num(summaries.largest_magnitude)
    total = float(np.linalg.norm(each) if norm_type == 2.0 else each.max())
    if not total < max_norm * _CLEARLY_BELOW:
        return None
    loss_value = loss.detach().item() if isinstance(loss, torch.Tensor) else float(loss)
    return Norms(each.tolist(), total, 1.0, torch.ones(()), loss_value)


def wide_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Returns float64, or complex128 for a complex tensor."""
    return torch.complex128 if tensor.is_complex() else torch.float64


@torch.no_grad()
def scale(tensors: Sequence[torch.Tensor], coefficient: torch.Tensor) -> None:
    """Multiplies gradients in place by a 0-d tensor, as ``torch.nn.utils.clip_grads_with_norm_`` does."""
    for device, group, _ in _groups(tensors):
        factor = coefficient.to(device)
        if foreach.is_supported(group, device):
            foreach.mul_(group, factor)
        else:
            for tensor in group:
                tensor.mul_(factor)


def _norms(
    tensors: Sequence[torch.Tensor], norm_type: float, *, wide: bool = False
) -> tuple[list[torch.Tensor], list[int]]:
    """Returns 0-d norms in the order in which ``clip_grad_norm_`` forms their norm, and of which tensor each is."""
    norms: list[torch.Tensor] = []
    order: list[int] = []
    for device, members, indices in _groups(tensors):
        if math.isinf(norm_type):  # of no elements there is no largest
            members = [tensor if tensor.numel() else tensor.new_zeros(1) for tensor in members]
        if wide:
            norms.extend(torch.linalg.vector_norm(tensor, norm_type, dtype=wide_dtype(tensor)) for tensor in members)
        elif foreach.is_supported(members, device):
            norms.extend(foreach.norm(members, norm_type))
        else:
            norms.extend(torch.linalg.vector_norm(tensor, norm_type) for tensor in members)
        order.extend(indices)
    return norms, order


def _groups(tensors: Sequence[torch.Tensor]) -> list[tuple[torch.device, list[torch.Tensor], list[int]]]:
    # The order of the groups decides the order of the sum, and with it the last bits of the total norm:
    # only this function gives the order that clip_grad_norm_ has.
    grouped = foreach.group_by_device_and_dtype([list(tensors)], with_indices=True)
    return [(device, [tensors[index] for index in indices], indices) for (device, _), (_, indices) in grouped.items()]
