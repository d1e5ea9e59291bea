"""Has the measuring code compiled by a process of its own, where this machine has not got it compiled yet.

Compiling takes about half a minute of a processor, and the interpreter's lock with it. Meanwhile tensors are measured
with torch operations, so that no step is missed; the training goes on. The compiled code is kept on disk (see
``tracker_adapters.compilation``), where this process and all later ones find it.

numba is imported, and the code loaded, in a thread that ends with it. Signal handlers of Python run in the main thread:
the KeyboardInterrupt of Ctrl-C in the middle of the import would leave modules of numba half there, which can be
imported no more, by nobody in the process.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from tracker_adapters.child_process import import_path, leave_alone, python_command, python_environment
from tracker_adapters.own_process import Maker, finalize
from tracker_adapters.store.lock import FileLock
from tracker_adapters.terminal_text import say

MODE_VARIABLE = "STEPSCOPE_COMPILE"
"""``background``, the default, or ``wait``: to compile before the first measurement, in this process."""
LOOK_INTERVAL_S = 0.5
LOCK_TIMEOUT_S = 600.0
NICENESS = 10
LOG = "stepscope-compilation.log"
LOCK = "stepscope-compilation.lock"
_GOES_ON = "measuring goes on with torch operations"

logger = logging.getLogger(__name__)
State = Literal["unknown", "loading", "compiling", "ready", "failed"]


class KernelCompilation:
    """Whether the measuring code can be used; there is one for a process."""

    def __init__(self) -> None:
        self._state: State = "unknown"
        self._child: subprocess.Popen[bytes] | None = None
        self._maker = Maker()
        self._asking = threading.Lock()
        self._begun_at = self._look_at = 0.0

    @property
    def is_pending(self) -> bool:
        """Whether the code is being compiled now, so that it is worth asking ``is_ready`` again."""
        return self._state == "compiling"

    def is_ready(self) -> bool:
        """Whether the code is loaded; the first question loads it, or has it compiled. Cheap to ask again.

        Ctrl-C is raised at once, as anywhere; the loading goes on behind it, and nobody waits for it again.
        """
        if self._state in ("ready", "failed"):
            return self._state == "ready"
        if self._asking.acquire(blocking=False):
            try:
                if self._state == "unknown":
                    self._apart(self._begin)
                elif self._state == "compiling" and time.monotonic() >= self._look_at:
                    self._look()
            finally:
                self._asking.release()
        return self._is_loaded()

    def _is_loaded(self) -> bool:
        return self._state == "ready"

    def _apart(self, work: Callable[[], None]) -> None:
        """Does the work in a thread of its own and waits for it; where it fails, the code is not used."""
        self._state = "loading"
        done = threading.Event()

        def do() -> None:
            try:
                work()
            except ImportError as error:
                self._fail(f"measures with torch operations, tens of times slower: numba cannot be imported ({error})")
            except Exception as error:
                logger.debug("loading the measuring code failed", exc_info=True)
                self._fail(f"cannot load the measuring code ({error!r}); {_GOES_ON}")
            finally:
                done.set()

        try:
            threading.Thread(target=do, name="stepscope-kernel-loading").start()
        except RuntimeError:  # there are too many, or the interpreter shuts down
            do()
        done.wait()  # not join, which takes a thread for ended when it is interrupted

    def _begin(self) -> None:
        functions = _functions()
        if _are_compiled(functions):
            self._load()
            return
        folder = _cache_folder(functions)
        if folder is None or os.environ.get(MODE_VARIABLE) == "wait":
            why = "no folder for compiled code can be written" if folder is None else f"{MODE_VARIABLE} is set"
            _say(f"compiles its measuring code before it starts, half a minute of a processor ({why})")
            self._load()
            return
        self._begun_at, self._maker = time.monotonic(), Maker()
        self._look_at = self._begun_at + LOOK_INTERVAL_S
        try:
            self._child = _start(folder)
            finalize(self, leave_alone, self._child)  # it goes on when this process ends: the next has the code then
        except OSError as error:
            self._fail(f"cannot compile the measuring code (no process can be started: {error}); {_GOES_ON}")
            return
        self._state = "compiling"
        _say(
            "compiles its measuring code, once on this machine (half a minute of a processor); until then it measures "
            "with torch operations, more slowly"
        )

    def _load(self) -> None:
        compile_all()
        self._state = "ready"

    def _look(self) -> None:
        self._look_at = time.monotonic() + LOOK_INTERVAL_S
        mine = self._maker.is_here  # a forked child must not ask for a process that is not its own
        if mine and self._child is not None and self._child.poll() is None:
            return
        functions = _functions()
        if _are_compiled(functions):
            self._apart(self._load)
            if mine and self._is_loaded():
                _say(
                    f"compiled its measuring code in {time.monotonic() - self._begun_at:.0f} s and uses it from here on"
                )
        elif mine:
            log = (_cache_folder(functions) or Path()) / LOG
            self._fail(f"cannot compile the measuring code (see {log}); {_GOES_ON}")

    def _fail(self, message: str) -> None:
        self._state = "failed"
        logger.warning(message)


def _functions() -> list[Any]:
    """The compiled functions, the one that is compiled last at the end."""
    from tracker_adapters.histograms.merging import compiled_merge
    from tracker_adapters.store.segments.histogram_codec import compiled_pack

    from debuggers.measurement import cpu as measurement_cpu
    from debuggers.measurement.kernels import spread as spread_kernel

    return [
        measurement_cpu.compiled_measure,
        spread_kernel.compiled_measure,
        compiled_merge(),
        compiled_pack(),
    ]


def _are_compiled(functions: Sequence[Any]) -> bool:
    """Whether numba's index of each function lists code for this processor."""
    try:
        for function in functions:
            here = function.targetctx.codegen().magic_tuple()
            if not any(here in key for key in function._cache._cache_file._load_index()):
                return False
    except AttributeError:  # nothing is cached, or numba keeps it in another way: the first call compiles, or loads
        return False
    return True


def is_compiled() -> bool:
    """Whether the measuring code is compiled for this machine.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    return _are_compiled(_functions())


def _cache_folder(functions: Sequence[Any]) -> Path | None:
    path = getattr(functions[0].stats, "cache_path", None)
    return Path(path) if path and os.access(path, os.W_OK) else None


def _start(folder: Path) -> subprocess.Popen[bytes]:
    environment = python_environment() | {MODE_VARIABLE: "wait"}
    environment["PYTHONPATH"] = os.pathsep.join(import_path())
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(
            [*python_command("debuggers.measurement.kernel_compilation"), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _say(line: str) -> None:
    if os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) in ("", "0"):
        say(line)


def compile_all() -> None:
    """Compiles, or loads, all that measuring uses.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    import numpy as np
    import torch
    from tracker_adapters.histograms.merging import compile_merging
    from tracker_adapters.store.segments.histogram_codec import compile_encoder

    from debuggers.measurement import cpu as measurement_cpu
    from debuggers.measurement.kernels import spread as spread_kernel

    measurement_cpu.measure_segments(np.zeros((1, 5), np.int64), 0)
    spread_kernel.spread_of(torch.arange(8.0))
    compile_merging()
    compile_encoder()


def main() -> None:
    """Compiles, unless another process does it already: then waits for that one."""
    os.nice(NICENESS)
    lock = FileLock(Path(sys.argv[1]) / LOCK)
    lock.acquire_within(LOCK_TIMEOUT_S)
    try:
        compile_all()
    finally:
        lock.release()


compilation = KernelCompilation()

if __name__ == "__main__":
    main()
