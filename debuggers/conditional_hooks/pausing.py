"""Pauses the training for its user, in pdb."""

import bdb
import logging
import pdb
import sys
import threading

from debuggers.conditional_hooks.events import HookEvent

_log = logging.getLogger(__name__)


def is_interactive() -> bool:
    """Whether somebody can answer: standard input and output are a terminal, and this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def pause(event: HookEvent) -> bool:
    """Starts pdb with ``event``, ``tensor`` and ``summary`` at hand; returns whether it did.

    Raises:
        KeyboardInterrupt: When the user quits the debugger.
    """
    if not is_interactive():
        _log.info("%r does not pause: this is no terminal, or not the main thread", event)
        return False
    tensor, summary = event.tensor, event.summary  # noqa: F841  # names for the prompt
    try:
        pdb.set_trace(header=f"{event}: event, tensor and summary are at hand; c continues the training")
    except bdb.BdbQuit:
        raise KeyboardInterrupt("quit in the debugger") from None
    return True
