"""Finds the debug outputs that a trainer or an evaluator saved. Needs no torch."""

from pathlib import Path

from debuggers.errors import PageError
from debuggers.integration import debugger_folder
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.pages import PageReader


def load_debug_outputs(epoch_dir: str | Path, *, limits: PageLimits = LIMITS) -> PageReader:
    """Returns the debug outputs of an epoch or evaluation as a mapping ``{datapoint_idx: {debugger_name: outputs}}``.

    Only the index is read now. A page is opened when one of its datapoints is asked for, and one at a time stays
    open.

    Args:
        epoch_dir: A trainer's ``work_dir/epoch_<n>`` or an evaluator's ``work_dir``, with the pages in its folder
            ``debugger``; or the folder that holds the pages.
        limits: The limits beyond which a page is refused.

    Raises:
        PageError: When neither folder holds pages.
    """
    folders = debugger_folder(epoch_dir), Path(epoch_dir)
    for folder in folders:
        if any(folder.glob("page_*.pkl")):
            return PageReader(folder, limits=limits)
    raise PageError(f"{epoch_dir}: has no debug outputs; expected page_<n>.pkl files in {folders[0]} or {folders[1]}")
