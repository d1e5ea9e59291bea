"""A cluster without a network: the node records into the run alone, and trackers get it later."""

import sys

import stepscope


def train_on_a_node(folder: str) -> None:
    with stepscope.open_run(folder, sinks=[], config={"lr": 0.1}) as run:
        for step in range(1000):
            run.scalar("train/loss", 1 / (step + 1), step=step)


def main(folder: str) -> None:
    train_on_a_node(folder)
    # Copy the folder to a machine with a network, or mount it there. Then, or by `stepscope sync`:
    for result in stepscope.sync_runs(folder, to=["tensorboard", "local"]):
        print(f"{result.sink}: {result.outcome}, {result.delivered} delivered, {result.pending} pending")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/offline")
