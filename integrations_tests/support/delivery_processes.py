"""The delivery processes that a process has started."""

import os
from pathlib import Path

import psutil
from waiting import until


def delivery_processes(parent: int | None = None, run: Path | None = None) -> list[psutil.Process]:
    """The delivery processes that live, of the process ``parent`` (this one by default) and its descendants.

    Args:
        parent: The process that started them.
        run: Only those of this run's folder; a test before this one may have left others.
    """
    try:
        children = psutil.Process(parent or os.getpid()).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    found = []
    for child in children:
        try:
            # Between the kernel's closing of files and its copying of arguments, a program that starts has none.
            until(lambda child=child: child.cmdline() or child.status() == psutil.STATUS_ZOMBIE)
            command = child.cmdline()
        except psutil.NoSuchProcess:
            continue
        if "tracker_adapters.deliver" in command and (run is None or str(run) in command):
            found.append(child)
    return found
