"""Training steps on two ranks with fully sharded parameters, and what clipping makes of their gradients."""

from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, StabilityError

RANKS = 2


def network():
    """Seven rows do not divide by two ranks, and of the last layer's single row one rank has nothing."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))


def backward(model, scale):
    """The batch is the same on every rank."""
    inputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    loss = model(inputs).square().mean() * scale
    loss.backward()
    return loss.detach()


def clip(model, loss, fields):
    """Returns the statistics of clipping and the faults."""
    manager = NumericalStabilityManager(GradientClippingConfig(**fields), NaNHandlingConfig())
    result = manager.step(model, loss, torch.optim.SGD(model.parameters()))
    return result["clipping_stats"], result["nan_stats"]["parameters"]


def run_rank(rank, folder, cases):
    """Saves each case's statistics, faults and whole gradients, or the text of its error.

    A case is the fields of a configuration, a factor for the loss, and whether rank 0 puts a NaN into its part of the
    first gradient.
    """
    store = torch.distributed.FileStore(f"{folder}/store", RANKS)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    outcomes = []
    for fields, scale, poisoned in cases:
        model = network()
        fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
        loss = backward(model, scale)
        if poisoned and rank == 0:
            model[0].weight.grad.to_local()[0, 0] = torch.nan
        try:
            stats, faults = clip(model, loss, fields)
        except StabilityError as error:
            outcomes.append(str(error))
        else:
            whole = [parameter.grad.full_tensor() for parameter in model.parameters()]
            outcomes.append({"stats": stats, "faults": faults, "gradients": whole})
        del model
    torch.save(outcomes, Path(folder) / f"rank_{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
