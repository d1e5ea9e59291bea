"""Training steps on two ranks with fully sharded parameters, and what clipping makes of their gradients.

Started by torchrun: ``sharded_training.py FOLDER CASES``, where these are a JSON list of the cases of ``run_rank``.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn
from tracker_adapters.artifacts import Alert
from tracker_adapters.testing import MemoryEmitter

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, StabilityError

if __name__ == "__main__":  # seconds of imports, which every worker of the tests would spend that collects them
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate

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


def clip_as_torch(parameters, max_norm):
    """Clips by ``clip_grad_norm_`` and returns the norm; forms it first if torch would add 1e-6 to it on each rank."""
    parameters = list(parameters)
    total = nn.utils.get_total_norm([parameter.grad for parameter in parameters])
    if any(placement.is_partial() for placement in (total + 1e-6).placements):  # torch 2.7
        total = total.redistribute(placements=[Replicate()])
        nn.utils.clip_grads_with_norm_(parameters, max_norm, total)
    else:
        total = nn.utils.clip_grad_norm_(parameters, max_norm)
    return total.full_tensor().item()


def train(way, rank):
    """Trains with one way of clipping; returns norms before clipping, the weights on this rank, and alerts."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    mesh = init_device_mesh("cpu", (RANKS,))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=0.1), NaNHandlingConfig())
    emitter = MemoryEmitter()
    session = stepscope.DebugSession(model, optimizer, run=emitter, stability=manager, config="standard")
    steps = {
        "torch": lambda loss: clip_as_torch(model.parameters(), 0.1),
        "manager": lambda loss: manager.step(model, loss, optimizer)["clipping_stats"]["total_norm"],
        "session": lambda loss: session.step(loss)["clipping_stats"]["total_norm"],
    }
    generator = torch.Generator().manual_seed(rank)
    norms = []
    with session if way == "session" else nullcontext():
        for _ in range(40):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 6, generator=generator)).square().mean()
            loss.backward()
            norms.append(steps[way](loss))
            optimizer.step()
    parts = torch.cat([parameter.detach().to_local().flatten() for parameter in model.parameters()])
    alerts = [artifact.message for artifact in emitter.artifacts if isinstance(artifact, Alert)]
    return {"norms": norms, "weights": parts, "alerts": alerts}


def whole_gradients(model):
    """The gradients as tensors on each rank."""
    return [parameter.grad.full_tensor() for parameter in model.parameters()]


def run_rank(folder, cases):
    """Saves the statistics, faults, and whole gradients before and after of each case, or its error; then of trainings.

    A case is the fields of a configuration, a factor for the loss, and whether rank 0 puts a NaN into its part of the
    first gradient.
    """
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    outcomes = []
    for fields, scale, poisoned in cases:
        model = network()
        fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
        loss = backward(model, scale)
        if poisoned and rank == 0:
            model[0].weight.grad.to_local()[0, 0] = torch.nan
        before = whole_gradients(model)
        try:
            stats, faults = clip(model, loss, fields)
        except StabilityError as error:
            outcomes.append(str(error))
        else:
            outcomes.append({"stats": stats, "faults": faults, "before": before, "gradients": whole_gradients(model)})
        del model
    outcomes.append({way: train(way, rank) for way in ("torch", "manager", "session")})
    torch.save(outcomes, Path(folder) / f"rank_{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    run_rank(sys.argv[1], json.loads(sys.argv[2]))
