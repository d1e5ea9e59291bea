"""Gradients that lie in parts on several ranks (DTensor, as FSDP2 gives them): sums and norms of the whole."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from debuggers.torch_import import torch
from stability.errors import StabilityError

RankGroups: TypeAlias = tuple[Any, ...]
"""The process groups, one for each sharded dimension of a mesh, whose ranks hold parts of a tensor; () when whole."""


def rank_groups(name: str, tensor: torch.Tensor) -> RankGroups:
    """Returns which ranks hold the other parts of a tensor.

    Raises:
        StabilityError: When the ranks hold terms of a sum that was not formed (``Partial``).
    """
    sharded: Any = tensor
    if not hasattr(sharded, "placements"):
        return ()
    groups = []
    for dimension, placement in enumerate(sharded.placements):
        if placement.is_partial():
            raise StabilityError(f"the gradient of {name} is placed as {placement}; expected Shard or Replicate")
        if not placement.is_replicate():
            groups.append(sharded.device_mesh.get_group(dimension))
    return tuple(groups)


def lie_on_one_mesh(groups: Sequence[RankGroups], tensors: Sequence[torch.Tensor]) -> bool:
    """Whether there are sharded tensors among these, and all of them are DTensors of one mesh."""
    if not any(groups):
        return False
    meshes: list[Any] = [getattr(tensor, "device_mesh", None) for tensor in tensors]
    return meshes[0] is not None and all(mesh == meshes[0] for mesh in meshes)


def whole_tensor(tensor: Any) -> torch.Tensor:
    """Returns a DTensor's value as an ordinary tensor, with a collective."""
    whole: torch.Tensor = tensor.full_tensor()
    return whole


def whole_norms(norms: list[torch.Tensor], groups: list[RankGroups], norm_type: float) -> list[torch.Tensor]:
    """Returns norms of whole tensors from those of this rank's parts, with one collective for each set of ranks.

    Sums are formed in float64. What is not finite on one rank is not finite on all.

    Args:
        norms: 0-d, of this rank's parts; those of tensors that are whole stay as they are.
        groups: Of each tensor.
        norm_type: The order p, positive.
    """
    whole = list(norms)
    for ranks in dict.fromkeys(groups):
        if not ranks:
            continue
        members = [index for index, others in enumerate(groups) if others == ranks]
        parts = torch.stack([norms[index].double() for index in members])
        if math.isinf(norm_type):
            parts = parts.nan_to_num(nan=math.inf, posinf=math.inf)  # a maximum may lose NaN
            operation = torch.distributed.ReduceOp.MAX
        else:
            parts = parts**norm_type
            operation = torch.distributed.ReduceOp.SUM
        for group in ranks:
            torch.distributed.all_reduce(parts, operation, group=group)
        roots = parts if math.isinf(norm_type) else parts ** (1.0 / norm_type)
        for index, root in zip(members, roots, strict=True):
            whole[index] = root.to(norms[index].dtype)
    return whole


def whole_sum(number: torch.Tensor, groups: RankGroups) -> torch.Tensor:
    """Returns the sum of a 0-d tensor over the ranks that hold parts; all of them have to take part."""
    for group in groups:
        torch.distributed.all_reduce(number, group=group)
    return number
