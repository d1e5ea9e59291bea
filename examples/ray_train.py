"""Ray Train: two workers of a local Ray are watched as two ranks, without a change of the training function."""

import sys
from pathlib import Path

import ray
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_digits
from torch import nn

import stepscope
from stepscope.integrations.ray import report, watched


def train(settings: dict) -> None:
    rank = ray.train.get_context().get_world_rank()
    digits = load_digits()
    images = torch.from_numpy(digits.data).float()[rank:1500:2] / 16  # every second digit
    labels = torch.from_numpy(digits.target)[rank:1500:2]
    torch.manual_seed(0)
    model = prepare_model(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    for _ in range(8):
        for batch in torch.randperm(750).split(50):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        report({"epoch_loss": loss.item()})  # was: ray.train.report


def main(folder: str) -> None:
    ray.init(num_cpus=2, log_to_driver=False)
    trainer = TorchTrainer(
        watched(train),  # was: train
        train_loop_config={"lr": 0.5},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(Path(folder).absolute()), name="digits"),
    )
    results = trainer.fit().path
    ray.shutdown()
    with stepscope.read_run(f"{results}/stepscope") as record:
        print("ranks", record.ranks, "of a run with", record.info.config)
        for rank in record.ranks:
            losses, told = record.scalars("loss", rank), record.scalars("epoch_loss", rank)
            print(f"rank {rank}: loss {losses.values[-1]:.3f} at step {losses.steps[-1]}, reported {len(told)} times")
        total = stepscope.MergedRanks(record).scalars("total_norm/gradients")
        print(f"norm of the averaged gradients at the last step {total.values[-1]:.4f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/ray")
