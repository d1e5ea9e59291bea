"""Functions for trainers and evaluators: which epochs are debugged, and where their pages are."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracker_adapters.values.checked_values import at_least, check_value, is_valid

from debuggers.errors import DebuggerConfigError

if TYPE_CHECKING:
    from debuggers.wrappers.sequential_debugger import SequentialDebugger

FOLDER_NAME = "debugger"


def checkpoint_indices(checkpoint_method: int | Literal["all", "latest"], epochs: int) -> list[int]:
    """Returns the epochs, counted from 0, whose debug outputs are saved.

    Args:
        checkpoint_method: ``all``; ``latest``, the last epoch only; or n, every n-th epoch and always the
            last: 5 of 10 epochs gives 4 and 9.
        epochs: How many epochs the training has.

    Raises:
        DebuggerConfigError: For another method, n below 1, or a negative number of epochs.
    """
    check_value("epochs", epochs, at_least(0), DebuggerConfigError)
    if checkpoint_method == "all":
        return list(range(epochs))
    last = [epochs - 1] if epochs else []
    if checkpoint_method == "latest":
        return last
    if not is_valid(checkpoint_method, at_least(1)):
        raise DebuggerConfigError(
            f"checkpoint_method is {checkpoint_method!r}; expected 'all', 'latest' or an int from 1"
        )
    return sorted({*range(checkpoint_method - 1, epochs, checkpoint_method), *last})


def debugger_folder(work_dir: str | Path, epoch: int | None = None) -> Path:
    """Returns where pages lie: ``<work_dir>/epoch_<n>/debugger``; ``<work_dir>/debugger`` for an evaluator."""
    parent = Path(work_dir) if epoch is None else Path(work_dir) / f"epoch_{epoch}"
    return parent / FOLDER_NAME


def before_epoch(
    debugger: SequentialDebugger, work_dir: str | Path, epoch: int | None = None, indices: Container[int] = ()
) -> bool:
    """Enables the debugger for an epoch that is to be saved, and disables it for any other.

    Args:
        debugger: The debugger.
        work_dir: The folder of the training or evaluation.
        epoch: The epoch, from 0; left out by an evaluator, which is always debugged.
        indices: What ``checkpoint_indices`` returned; an evaluator leaves it out.

    Returns:
        Whether the debugger is enabled now.
    """
    if epoch is not None and epoch not in indices:
        debugger.enabled = False
        return False
    debugger.begin_epoch(debugger_folder(work_dir, epoch))
    return True


def after_epoch(debugger: SequentialDebugger) -> None:
    """Saves the pages of the epoch and disables the debugger, if ``before_epoch`` enabled it."""
    if debugger.enabled:
        debugger.save_all()
        debugger.enabled = False
