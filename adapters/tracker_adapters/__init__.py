"""Carries typed artifacts of a training run into trackers, without ever importing torch."""

import sys

from tracker_adapters.last_resort import add_last_resort

if sys.platform == "win32":
    raise ImportError(
        "stepscope needs a POSIX system, for its locks and processes: Linux or macOS. On Windows it runs inside WSL 2"
    )

add_last_resort(__name__)
