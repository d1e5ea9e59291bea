"""Runs a script as Python does, watches what it trains, and says at its end what was found."""

from __future__ import annotations

import builtins
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from tracker_adapters.config import SinksSpec
from tracker_adapters.errors import RunError

from stepscope.integrations.session_options import SessionOptions
from stepscope.runs.opening import open_run
from stepscope.runs.script_run import script_run
from stepscope.scripts.trainings import WatchedOptimizers
from stepscope.sessions.config import DebugConfig

FAILED = 1


def run_script(
    script: str, arguments: Sequence[str], *, is_module: bool, folder: str, sinks: SinksSpec, config: DebugConfig
) -> None:
    """Runs a script in this process, and records it.

    Args:
        script: Its path, or the name of a module.
        arguments: Its ``sys.argv[1:]``.
        is_module: Whether ``script`` names a module, as behind ``python -m``.
        folder: The run's folder.
        sinks: Where the run is shown.
        config: What is measured.

    Raises:
        RunError: When there is no such script, and what else ``open_run`` raises; before the script begins.
        SystemExit: As the script leaves; with code 1 where it ended with an exception, which is printed as Python does.
    """
    sys.argv = [script, *arguments]
    # Python puts the script's folder first; for a module it is where one is.
    sys.path[0] = str(Path.cwd()) if is_module else str(Path(script).resolve().parent)
    if not (_has_module(script) if is_module else Path(script).is_file()):
        raise RunError(f"there is no script {script!r}; expected a file of Python, or a module's name behind -m")
    run = open_run(folder, sinks=sinks)
    trainings = WatchedOptimizers(run, SessionOptions(config))
    ended_by: BaseException | None = None
    try:
        with script_run(run):
            if is_module:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                _run_file(Path(script).absolute())
    except BaseException as error:
        ended_by = error
    clean = ended_by is None or (isinstance(ended_by, SystemExit) and not ended_by.code)
    failure = None if clean else ended_by
    trainings.end(failure)
    run.__exit__(None if failure is None else type(failure), failure, None)
    if clean and trainings.process.is_current and not trainings.seen:
        sys.stderr.write(f"stepscope: {script} took no step with an optimizer of torch: nothing was watched\n")
    if isinstance(ended_by, SystemExit):
        raise ended_by
    if ended_by is not None:
        _leave(ended_by)


def _has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a package before the last dot
        return False


def _run_file(path: Path) -> None:
    """Runs a file as the main module, which stays the main one: threads and exit functions may outlast the file."""
    main = ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    # From the file itself: Python keeps no compiled copy of a script either.
    exec(SourceFileLoader("__main__", str(path)).source_to_code(path.read_bytes(), str(path)), main.__dict__)


def _leave(error: BaseException) -> NoReturn:
    """Prints an exception without the frames of who ran the script, and ends as Python does."""
    error = error.with_traceback(_of_script(error.__traceback__))
    sys.excepthook(type(error), error, error.__traceback__)
    if isinstance(error, KeyboardInterrupt):  # so that a shell's loop ends, too
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(FAILED)


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    rest: Any = trace
    while rest is not None and rest.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        rest = rest.tb_next
    return trace if rest is None else rest
