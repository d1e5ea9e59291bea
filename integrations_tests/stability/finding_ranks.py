"""Two ranks train; at the third step rank 1 has NaN in its batch, and looks for it. Writes what each found as JSON.

Started by torchrun: ``finding_ranks.py FOLDER``.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from stability import FirstNaNFinder, GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager


def find(*, sharded, with_replay):
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    if sharded:
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    finder = FirstNaNFinder(model, to_terminal=False)
    manager = NumericalStabilityManager(
        GradientClippingConfig(), NaNHandlingConfig(handling_type="skip"), find_first_nan=finder
    )
    for step in range(5):
        inputs = torch.randn(4, 3)
        if step == 2 and dist.get_rank() == 1:
            inputs[1, 0] = torch.nan

        def compute(inputs: torch.Tensor = inputs) -> torch.Tensor:
            return model(inputs).square().mean()

        optimizer.zero_grad()
        loss = compute()
        loss.backward()
        manager.step(model, loss, optimizer, replay=compute if with_replay else None)
        optimizer.step()
    finder.close()
    dist.barrier()
    return {
        "found": [(answer.step, answer.origin and answer.origin.module, answer.message) for answer in finder.found],
        "finite": all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters()),
    }


def main(folder):
    dist.init_process_group("gloo")
    found = {
        "ddp": find(sharded=False, with_replay=False),
        "ddp closure": find(sharded=False, with_replay=True),
        "fsdp": find(sharded=True, with_replay=False),
    }
    Path(folder, f"{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
