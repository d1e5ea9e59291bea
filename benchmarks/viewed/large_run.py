"""Makes the run that the viewers show: many points under many names, large pages beside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np

import stepscope

LAYER_STATISTICS = ("gradient_norm", "update_ratio", "weight_norm", "activation_mean", "activation_std")
PAGE_BYTES = 10 * 10**6


@dataclass(frozen=True)
class Size:
    """How large a run is: values in all, names, and bytes of pages."""

    points: int = 10_000_000
    names: int = 2_000
    page_bytes: int = 500 * 10**6

    @property
    def steps(self) -> int:
        return self.points // self.names


def names_of(size: Size) -> list[str]:
    """The loss, and statistics of layers, as a watched training has them."""
    layers = -(-size.names // len(LAYER_STATISTICS))
    found = [f"{statistic}/blocks.{layer}.weight" for statistic in LAYER_STATISTICS for layer in range(layers)]
    return ["loss", *found][: size.names]


def values_of(size: Size) -> Iterator[np.ndarray]:
    """For each step one value a name: noise about a curve, NaN and infinity here and there."""
    generator = np.random.default_rng(0)
    scale = np.exp(generator.normal(size=size.names))
    for step in range(size.steps):
        values = scale * (0.1 + 1 / (1 + step / 200)) * (1 + 0.1 * generator.standard_normal(size.names))
        if step % 1000 == 999:
            values[7 % size.names], values[11 % size.names] = np.nan, np.inf
        yield values


def make_run(folder: Path, size: Size) -> None:
    """Writes the run, unless the folder holds it already."""
    if (folder / "run.json").exists():
        return
    making = folder.with_name(f"{folder.name}.making")
    names = names_of(size)
    with stepscope.open_run(making, sinks=[], config={"lr": 0.1}, name=folder.name) as run:
        for step, values in enumerate(values_of(size)):
            run.scalars(names, values, step=step)
            if step % 50 == 0:
                run.flush(60)
        for number in range(size.page_bytes // PAGE_BYTES):
            path = making / "epoch_1" / "debugger" / f"page_{number}.pkl"
            path.parent.mkdir(parents=True, exist_ok=True)
            joblib.dump(np.random.default_rng(number).standard_normal(PAGE_BYTES // 8), path)
            run.page(path, step=number)
    making.rename(folder)


def make_runs(folder: Path, count: int) -> None:
    """Writes a folder of small runs."""
    for number in range(count):
        if not (folder / f"run{number:03d}" / "run.json").exists():
            with stepscope.open_run(folder / f"run{number:03d}", sinks=[], config={"seed": number}) as run:
                for step in range(20):
                    run.scalar("loss", 1 / (step + 1 + number), step=step)
