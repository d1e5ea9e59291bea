"""How the parameters of a model lie on this rank: whole, as copies, or as shards of a device mesh."""

from collections.abc import Iterable
from typing import Any

from tracker_adapters.values.tensors import local_part

from debuggers.diagnosis.rank_facts import Placed, RankFacts
from debuggers.torch_import import torch

MOST = 20_000
"""Parameters whose placement is recorded."""
_FLAT = "FullyShardedDataParallel"
_MODULE = "FSDPModule"


def is_one_of_several() -> bool:
    """Whether this process is one of several ranks of ``torch.distributed``."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def rank_facts(model: torch.nn.Module, names: Iterable[str], parameters: Iterable[torch.Tensor]) -> RankFacts:
    """Returns what this rank holds of a model, without communication.

    Args:
        model: The model, which may be wrapped.
        names: Of its parameters.
        parameters: The parameters, DTensors or plain ones.
    """
    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    strategy, is_flat = _strategy(model)
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for name, tensor in zip(names, parameters, strict=True):
        key = _flat_place(rank, world_size) if is_flat else _place(tensor)
        found.setdefault(key, {})[name] = int(local_part(tensor.detach()).numel())
        if sum(map(len, found.values())) >= MOST:
            break
    placed = tuple(
        Placed(placements=key[0], mesh_names=key[1], mesh_shape=key[2], place=key[3], elements=elements)
        for key, elements in found.items()
    )
    if not strategy and any(one.placements for one in placed):
        strategy = "dtensor"
    return RankFacts(rank=rank, world_size=world_size, strategy=strategy, placed=placed)


def ignored_by_ddp(model: torch.nn.Module) -> frozenset[str]:
    """Returns the parameters that DistributedDataParallel was told to leave alone: each rank has its own."""
    found: set[str] = set()
    for module in model.modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            found.update(getattr(module, "parameters_to_ignore", ()))
    return frozenset(found)


def _strategy(model: torch.nn.Module) -> tuple[str, bool]:
    """The strategy, and whether plain tensors are shards of flat parameters."""
    strategy = ""
    for module in model.modules():
        kinds = {one.__name__ for one in type(module).__mro__}
        if _FLAT in kinds:
            return "fsdp", True
        if _MODULE in kinds:  # importing the class takes a second
            return "fsdp", False
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            strategy = "ddp"
    return strategy, False


def _place(tensor: Any) -> tuple[Any, ...]:
    placements = getattr(tensor, "placements", None)
    if placements is None:
        return (), (), (), ()
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    place = (0,) * len(placements) if coordinate is None else tuple(map(int, coordinate))
    return (
        tuple("Replicate()" if one.is_replicate() else str(_repr(one)) for one in placements),
        tuple(map(str, mesh.mesh_dim_names or ())),
        tuple(map(int, mesh.shape)),
        place,
    )


def _repr(placement: Any) -> str:
    """``Shard(0)`` in all versions, whatever the name of its argument is."""
    dimension = getattr(placement, "dim", None)
    return repr(placement) if dimension is None else f"{type(placement).__name__}({dimension})"


def _flat_place(rank: int, world_size: int) -> tuple[Any, ...]:
    return ("Flat()",), (), (world_size,), (rank,)
