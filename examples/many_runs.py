"""A hundred runs as one table, which DuckDB reads as it is."""

import sys
from pathlib import Path

import duckdb
import numpy as np

import stepscope

BEST = """
    select scalars.run, min(value) as lowest, cast(config ->> '$.lr' as double) as lr
    from '{0}/scalars.parquet' as scalars join '{0}/runs.parquet' as runs on scalars.run = runs.run
    where name = 'loss' and isfinite(value)
    group by all order by lowest limit 3
"""


def record(folder: Path) -> None:
    for number, lr in enumerate(np.linspace(0.01, 2.5, 100)):
        with stepscope.open_run(folder / f"run_{number:02d}", sinks=[], config={"lr": lr}, environment=False) as run:
            for step in range(50):
                run.scalar("loss", abs(1 - lr) ** step, step=step)  # of gradient descent on a parabola


def main(folder: str) -> None:
    record(Path(folder))
    exported = stepscope.export_runs([folder], f"{folder}_tables", format="parquet")
    print(exported.rows)
    for run, lowest, lr in duckdb.sql(BEST.format(exported.output)).fetchall():
        print(f"{run}: lowest loss {lowest:.3g} with lr {lr:.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/hundred")
