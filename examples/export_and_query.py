"""Several runs as tables: SQL over all of them, and an export to CSV."""

import sys
from pathlib import Path

import stepscope

BEST = """
    select run, config ->> 'lr' as lr, min(value) as best, count(*) as steps
    from scalars join runs using (run)
    where name = 'loss' group by run order by best
"""


def main(folder: str) -> None:
    for lr in (0.01, 0.1, 1.0):
        with stepscope.open_run(f"{folder}/lr_{lr}", sinks=[], config={"lr": lr}) as run:
            for step in range(50):
                run.scalar("loss", abs(1 - lr * (step + 1) / 10), step=step)
    with stepscope.query_runs([folder], BEST) as result:
        print(result.columns)
        for row in result:
            print(row)
    exported = stepscope.export_runs([folder], f"{folder}_tables", names=["loss"])
    print(exported.rows)
    print((Path(f"{folder}_tables") / "scalars.csv").read_text(encoding="utf-8").splitlines()[0])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/sweep")
