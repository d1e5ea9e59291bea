"""The W&B sink beside W&B's own client, both offline: scalars a second to a ``.wandb`` file that is read back."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import stepscope
from delivery.tensorboard_side import Rates, delivered


def sides(folder: Path, *, rounds: int = 3, scalars: int = 200_000, calls: int = 20_000) -> Rates:
    """Measures all sides in turn, round after round.

    Args:
        folder: Where all of them write; empty.
        rounds: How often.
        scalars: Of ours in a round, with 1, 4 and 50 names; also of 50 keys a call.
        calls: To ``run.log`` with one key in a round, one scalar each.

    Returns:
        Scalars a second by side, one for each round. ``stepscope`` is from the run store to the closed file;
        ``run.log`` from the first call to the end of ``run.finish``, without ``wandb.init``.
    """
    measured: dict[str, Callable[[Path], float]] = {
        "stepscope, 1 name a step": lambda at: ours(at, 1, scalars),
        "run.log, 1 key a call": lambda at: theirs(at, 1, calls),
        "stepscope, 4 names a step": lambda at: ours(at, 4, scalars),
        "stepscope, 50 names a step": lambda at: ours(at, 50, scalars),
        "run.log, 50 keys a call": lambda at: theirs(at, 50, scalars),
    }
    rates: Rates = {name: [] for name in measured}
    for number in range(rounds):
        for name, side in measured.items():
            rates[name].append(side(folder / f"{number} {name}"))
    return rates


def ours(folder: Path, names: int, number: int) -> float:
    keys = [f"layer{place}/grad/norm" for place in range(names)]
    with stepscope.open_run(folder, sinks=[]) as run:
        for place in range(number):
            run.scalar(keys[place % names], place / 7, step=place // names)
    rate = number / delivered(folder, "wandb")
    check(folder, keys, number)
    return rate


def theirs(folder: Path, names: int, number: int) -> float:
    import wandb

    folder.mkdir()
    keys = [f"layer{place}/grad/norm" for place in range(names)]
    settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
    run = wandb.init(mode="offline", dir=str(folder), reinit="create_new", settings=settings)
    start = time.perf_counter()
    for step in range(number // names):
        run.log({key: (step * names + place) / 7 for place, key in enumerate(keys)})
    run.finish()
    rate = number / (time.perf_counter() - start)
    wandb.teardown()  # the last rows can come after finish has returned
    check(folder, keys, number)
    return rate


def check(folder: Path, keys: list[str], number: int) -> None:
    """Reads the file back; raises RuntimeError unless it holds all of the values, in their order."""
    support = str(Path(__file__).parents[2] / "integrations_tests" / "support" / "trackers")
    if support not in sys.path:
        sys.path.append(support)
    from readback_wandb import history

    (found,) = (folder / "wandb").glob("offline-run-*")
    values = [row[key] for row in history(found) for key in keys]
    if values != [place / 7 for place in range(number)]:
        raise RuntimeError(f"{found} holds {len(values)} values; expected {number}, in order")
