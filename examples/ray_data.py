"""An export of several runs, read by Ray Data as it is, on one machine or a cluster."""

import sys
from pathlib import Path

import ray
from ray.data.aggregate import Count, Min
from ray.data.expressions import col

import stepscope


def record(folder: Path) -> None:
    for lr in (0.1, 0.5, 0.9):
        with stepscope.open_run(folder / f"lr_{lr}", sinks=[], config={"lr": lr}) as run:
            for step in range(50):
                run.scalar("loss", (1 - lr) ** step, step=step)
                run.scalar("gradient_norm", 2 * (1 - lr) ** step, step=step)


def main(folder: str) -> None:
    record(Path(folder))
    exported = stepscope.export_runs([folder], f"{folder}_tables", format="parquet")
    ray.init(num_cpus=2, log_to_driver=False)
    losses = ray.data.read_parquet(f"{exported.output}/scalars.parquet").filter(expr=col("name") == "loss")
    lowest = losses.groupby("run", num_partitions=2).aggregate(
        Min("value", alias_name="lowest"), Count(alias_name="steps")
    )
    for row in sorted(lowest.take_all(), key=lambda row: row["lowest"]):
        print(f"{row['run']}: {row['steps']} steps, lowest loss {row['lowest']:.3g}")
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/several")
