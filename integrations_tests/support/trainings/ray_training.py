"""Trains on two workers of Ray, alone and watched: ``ray_training.py FOLDER KINDS``, where kinds are a JSON list.

``alone`` is not watched; ``failing`` raises on rank 1; ``stopping`` stops when rank 1 has a NaN loss; ``s3`` has its
results in an object store, whose URL is in ``RESULTS``. Each worker writes its losses and weights to
``FOLDER/KIND_RANK.json``.
"""

import json
import os
import sys
from pathlib import Path

import ray
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from torch import nn

from stepscope.integrations.ray import current_run, report, should_stop, watched

STEPS, BROKEN_AT = 30, 12


def train(settings):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank, kind = ray.train.get_context().get_world_rank(), settings["kind"]
    network = nn.Sequential(nn.Linear(8, 15), nn.Tanh(), nn.Dropout(0.1), nn.Linear(15, 3))
    model = ray.train.torch.prepare_model(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["lr"])
    generator, losses = torch.Generator().manual_seed(1 + rank), []
    torch.manual_seed(1 + rank)
    for step in range(STEPS):
        if kind == "failing" and rank == 1 and step == BROKEN_AT:
            raise ArithmeticError("planted")
        inputs = torch.randn(16, 8, generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
        if kind == "stopping" and rank == 1 and step == BROKEN_AT:
            loss = loss * float("nan")
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if should_stop():
            break
        if step % 10 == 9:
            report({"train_loss": loss.item(), "val_loss": 0.5, "phase": "short"})
    if kind == "watched":
        current_run().text("notes", f"by rank {rank}", step=STEPS)
    weights = [parameter.tolist() for parameter in model.parameters()]
    (Path(settings["folder"]) / f"{kind}_{rank}.json").write_text(json.dumps({"losses": losses, "weights": weights}))


def fit(folder, kind):
    """Returns where the results lie, or what the training raised."""
    place = os.environ["RESULTS"] if kind == "s3" else str(folder / "results")
    actions = {"non_finite_loss": "stop"} if kind == "stopping" else None
    trainer = ray.train.torch.TorchTrainer(
        train if kind == "alone" else watched(train, updates=True, on_finding=actions),
        train_loop_config={"lr": 0.01, "kind": kind, "folder": str(folder)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=place, name=kind),
    )
    try:
        return trainer.fit().path
    except ray.train.TrainingFailedError as error:
        return repr(error)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    told = {kind: fit(folder, kind) for kind in json.loads(sys.argv[2])}
    (folder / "told.json").write_text(json.dumps(told))
    ray.shutdown()
