"""The TensorBoard sink beside torch.utils.tensorboard.SummaryWriter and tensorboardX: values a second."""

import gc
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tracker_adapters.child_process import collect_rarely
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.registry import load_sink

import stepscope
from debuggers.measurement.measure import measure

NAMES = 50
VALUES = 1_000_000
Rates = dict[str, list[float]]


def sides(folder: Path, *, rounds: int = 3, scalars: int = 100_000, histograms: int = 100, images: int = 100) -> Rates:
    """Measures all sides in turn, round after round.

    Args:
        folder: Where all of them write; empty.
        rounds: How often.
        scalars: To log in a round, of 50 names.
        histograms: To log in a round, each of a million float32 values.
        images: To log in a round, uint8 of 256 x 256 x 3.

    Returns:
        Values a second by side, one for each round. ``stepscope, scalars`` is from the run store to the event file;
        all others are from the call to the file.
    """
    tensors = [torch.randn(VALUES, generator=torch.Generator().manual_seed(number)) for number in range(4)]
    pictures = [photograph(number) for number in range(4)]
    measured: dict[str, Callable[[Path], float]] = {
        "stepscope, scalars": lambda at: our_scalars(at, scalars),
        "SummaryWriter.add_scalar": lambda at: their_scalars(summary_writer(at), scalars),
        "stepscope, histograms": lambda at: our_histograms(at, tensors, histograms, emit_measured),
        "stepscope, run.histogram": lambda at: our_histograms(at, tensors, histograms, emit_tensor),
        "SummaryWriter.add_histogram": lambda at: their_histograms(summary_writer(at), tensors, histograms),
        "stepscope, images": lambda at: our_images(at, pictures, images),
        "SummaryWriter.add_image": lambda at: their_images(summary_writer(at), pictures, images),
    }
    if find_spec("tensorboardX"):
        measured["tensorboardX add_scalar"] = lambda at: their_scalars(tensorboard_x(at), scalars)
    rates: Rates = {name: [] for name in measured}
    measure(tensors).resolve()  # compiles
    for number in range(rounds):
        for name, side in measured.items():
            rates[name].append(side(folder / f"{number} {name}"))
    return rates


def our_scalars(folder: Path, number: int) -> float:
    store_scalars(folder, number)
    return number / delivered(folder, "tensorboard")


def our_histograms(
    folder: Path, tensors: list[torch.Tensor], number: int, emit: Callable[[stepscope.Run, torch.Tensor, int], None]
) -> float:
    start = time.perf_counter()
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(number):
            emit(run, tensors[step % len(tensors)], step)
    stored = time.perf_counter() - start
    return number / (stored + delivered(folder, "tensorboard"))


def emit_measured(run: stepscope.Run, tensor: torch.Tensor, step: int) -> None:
    """As a session does it."""
    run.histograms(["weight"], measure([tensor]).resolve().columns, step=step)


def emit_tensor(run: stepscope.Run, tensor: torch.Tensor, step: int) -> None:
    """As a user's own line does it."""
    run.histogram("weight", tensor, step=step)


def our_images(folder: Path, pictures: list[npt.NDArray[np.uint8]], number: int) -> float:
    start = time.perf_counter()
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(number):
            run.image("input", pictures[step % len(pictures)], layout="HWC", step=step)
    stored = time.perf_counter() - start
    return number / (stored + delivered(folder, "tensorboard"))


def their_scalars(board: Any, number: int) -> float:
    names, values = names_and_values(number)
    start = time.perf_counter()
    for place, value in enumerate(values):
        board.add_scalar(names[place % NAMES], value, place // NAMES)
    board.close()
    return number / (time.perf_counter() - start)


def their_histograms(board: Any, tensors: list[torch.Tensor], number: int) -> float:
    start = time.perf_counter()
    for step in range(number):
        board.add_histogram("weight", tensors[step % len(tensors)], step)
    board.close()
    return number / (time.perf_counter() - start)


def their_images(board: Any, pictures: list[npt.NDArray[np.uint8]], number: int) -> float:
    start = time.perf_counter()
    for step in range(number):
        board.add_image("input", pictures[step % len(pictures)], step, dataformats="HWC")
    board.close()
    return number / (time.perf_counter() - start)


def store_scalars(folder: Path, number: int) -> None:
    """Makes a finished run of so many scalars that no sink has seen."""
    names, values = names_and_values(number)
    with stepscope.open_run(folder, sinks=[]) as run:
        for place, value in enumerate(values):
            run.scalar(names[place % NAMES], value, step=place // NAMES)


def delivered(folder: Path, sink: str) -> float:
    """Carries a finished run into a sink as its delivery process does; returns the seconds that it took."""
    sink_class = load_sink(sink)
    options = sink_class.resolve({}, folder)
    sink_class(**options).close()  # imported before the clock starts
    gc.collect()
    gc.freeze()  # a delivery process has no torch, whose objects the collector would look through again and again
    thresholds = gc.get_threshold()
    collect_rarely()  # as it does, too
    start = time.perf_counter()
    outcome = DeliveryWorker(folder, 0, sink, options["target"], lambda: sink_class(**options)).run()
    seconds = time.perf_counter() - start
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    if outcome != "done":
        raise RuntimeError(f"delivery to {sink} ended as {outcome!r}; expected 'done'")
    return seconds


def names_and_values(number: int) -> tuple[list[str], list[float]]:
    """The names that take turns, and a value for each scalar."""
    return [f"layers.{n}.weight/norm" for n in range(NAMES)], np.random.default_rng(0).normal(size=number).tolist()


def photograph(seed: int) -> npt.NDArray[np.uint8]:
    """A picture with slopes and sensor noise, as PNG finds it in photographs; uint8 (256, 256, 3)."""
    y, x = np.mgrid[0:256, 0:256] / 256
    slopes = np.stack([128 + 90 * np.sin(6 * x + 3 * y), 128 + 80 * np.cos(5 * y), 255 * x * y], axis=-1)
    noise = np.random.default_rng(seed).normal(0, 6, slopes.shape)
    return np.clip(slopes + noise, 0, 255).astype(np.uint8)


def summary_writer(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))  # type: ignore[no-untyped-call]


def tensorboard_x(folder: Path) -> Any:
    from tensorboardX import SummaryWriter

    return SummaryWriter(str(folder))
