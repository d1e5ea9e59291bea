"""The runs that other trackers' calls record in: opened, or joined where this process records in them already."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tracker_adapters.emitter import Emitter

from stepscope.runs.live_run import Run
from stepscope.runs.opening import open_run
from stepscope.runs.script_run import current_script_run

_lock = threading.Lock()
_shared: dict[str, list[JoinedRun]] = {}


class JoinedRun:
    """A run that one or several writers record in; the last one that leaves closes it.

    Attributes:
        run: The run.
        emitter: Where this writer emits: the run, or a scope in it.
        scope: What tells this writer from others that log under the same names, empty where none do.
        is_scripts: Whether it is the run of ``stepscope run``, which closes and watches by itself.
    """

    def __init__(self, run: Run, emitter: Emitter, key: str, *, is_scripts: bool) -> None:
        self.run, self.emitter, self.is_scripts = run, emitter, is_scripts
        self.scope = ""
        self._key = key

    def leave(self, *, failed: bool = False) -> None:
        """Closes the run if nobody else here records in it; calling it again does nothing."""
        with _lock:
            writers = _shared.get(self._key, [])
            if self not in writers:
                return
            writers.remove(self)
            if writers:
                return
            del _shared[self._key]
        if not self.is_scripts:
            self.run.finish("failed" if failed else "finished")


def join_or_open(folder: str | Path, *, scope: str = "", **options: Any) -> JoinedRun:
    """Returns the run of ``stepscope run``, or one that is open in this process under this name, or a new one.

    Args:
        folder: The run's folder.
        scope: Where to emit in a run that another writer records in already, lest their series be mixed.
        options: Of ``open_run``.

    Raises:
        RunError: And what else ``open_run`` raises.
    """
    own = current_script_run()
    key = "script" if own is not None else str(Path(folder).expanduser().absolute())
    with _lock:
        writers = _shared.setdefault(key, [])
        if writers and writers[0].run.info.status != "running":  # somebody else has closed it
            writers.clear()
        try:
            if own is not None:
                mixes = any(writer.scope for writer in writers)
                emitter: Emitter = own.scoped(scope) if scope and mixes else own
                joined = JoinedRun(own, emitter, key, is_scripts=True)
            elif writers:
                joined = JoinedRun(writers[0].run, writers[0].run, key, is_scripts=False)
            else:
                run = open_run(folder, **options)
                joined = JoinedRun(run, run, key, is_scripts=False)
        except BaseException:
            if not writers:
                del _shared[key]
            raise
        joined.scope = scope
        writers.append(joined)
    return joined
