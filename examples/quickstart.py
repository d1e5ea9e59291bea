"""The smallest run: one scalar a step, in TensorBoard and as plain files."""

import sys

import stepscope


def main(folder: str) -> None:
    with stepscope.open_run(folder, sinks=["tensorboard", "local"], config={"lr": 0.1}) as run:
        for step in range(100):
            run.scalar("train/loss", 1 / (step + 1), step=step)
    print(stepscope.read_run(folder).names())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/quickstart")
