"""Trainings of four steps on two ranks; at the third, rank 1 has NaN. Writes what each rank saw as JSON.

Started by torchrun: ``two_ranks.py FOLDER SCENARIOS``, where these are a JSON list of the fields of ``Scenario``.
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from tracker_adapters.artifacts import Alert
from tracker_adapters.testing import MemoryEmitter

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

BAD_STEP, BAD_RANK = 2, 1


@dataclass(frozen=True)
class Scenario:
    """How the ranks train, what they do about a fault, and where it is."""

    handling_type: str
    ddp: bool = False
    fsdp: bool = False
    loss_only: bool = False
    gradients_only: bool = False
    scaler: bool = False
    alone: bool = False


def average(gradients):
    """Averages gradients over the ranks, as a training without DDP does before its optimizer's step."""
    for gradient in gradients:
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def local(tensor):
    """Returns this rank's part of a sharded tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def weights(model):
    """Returns whole weights as numbers."""
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).tolist() for p in model.parameters()]


def train(scenario):
    rank, emitter = dist.get_rank(), MemoryEmitter()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    if scenario.fsdp:
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    wrapped = nn.parallel.DistributedDataParallel(model) if scenario.ddp else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0) if scenario.scaler else None
    config = NaNHandlingConfig(handling_type=scenario.handling_type, agree_between_ranks=not scenario.alone)
    clipping = GradientClippingConfig(clipping_type="none")
    manager = NumericalStabilityManager(clipping, config, emitter=emitter, scaler=scaler)
    actions, ranks, changed = [], [], []
    torch.manual_seed(rank)
    for step in range(4):
        poison = math.nan if step == BAD_STEP and rank == BAD_RANK else 1.0
        optimizer.zero_grad()
        loss = wrapped(torch.randn(8, 3)).square().mean()
        if not (scenario.loss_only or scenario.gradients_only or scenario.scaler):
            loss = loss * poison
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scenario.gradients_only or scenario.scaler:
            local(model[0].weight.grad)[0, 0] *= poison
        before = weights(model)
        stats = manager.step(wrapped, loss * poison if scenario.loss_only else loss, optimizer)["nan_stats"]
        if not (scenario.ddp or scenario.fsdp or scenario.alone):
            average([p.grad for p in model.parameters() if p.grad is not None])
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        actions.append(stats["action"])
        ranks.append(stats["ranks"])
        changed.append(before != weights(model))
    alerts = [artifact.message for artifact in emitter.artifacts if isinstance(artifact, Alert)]
    return {"actions": actions, "ranks": ranks, "changed": changed, "alerts": alerts, "weights": weights(model)}


def main():
    folder, scenarios = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = [train(Scenario(**scenario)) for scenario in scenarios]
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
