"""One configuration, three trackers: a TOML file names the sinks, and the loop does not know them."""

import sys
from pathlib import Path

import stepscope

SINKS = """
sinks = ["tensorboard", "local", { type = "mlflow", experiment = "three sinks" }]
"""


def main(folder: str) -> None:
    file = Path(f"{folder}_sinks.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SINKS, encoding="utf-8")
    with stepscope.open_run(folder, sinks=str(file), config={"lr": 0.1}) as run:
        for step in range(100):
            run.scalar("train/loss", 1 / (step + 1), step=step)
        run.flush(timeout=60.0)
        for name, sink in sorted(run.stats.sinks.items()):
            print(f"{name.partition(':')[0]}: {sink.delivered} delivered, {sink.pending} pending")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/three_sinks")
