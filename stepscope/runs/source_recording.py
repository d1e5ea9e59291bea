"""Records the packages and the Git state of a training, while it has begun already."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from tracker_adapters.child_process import answer_of, import_path
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.redaction import redact_remembered

if TYPE_CHECKING:
    from stepscope.runs.live_run import Run

PATCH = "stepscope/source.patch"
"""The name of the file with what differs from the commit; ``git apply`` takes it."""
LIMIT_S = 30.0
CLOSE_LIMIT_S = 3.0
"""How long a run that ends at once waits for it."""
_log = logging.getLogger(__name__)


class SourceRecording:
    """Asks a process of its own in a thread, which never keeps the process alive, and tells the run."""

    def __init__(self, run: Run) -> None:
        """Starts asking, about the working folder of this moment."""
        self._run = weakref.ref(run)
        self._owner = os.getpid()
        self._is_late = False
        try:
            folder = str(Path.cwd())
        except OSError:  # it may be gone
            folder = ""
        self._asked = json.dumps({"folder": folder, "paths": import_path()})
        self._thread = threading.Thread(target=self._record, name="stepscope-source", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits until it is recorded, for 3 s at most, and no longer than half of the closing run's timeout."""
        if os.getpid() == self._owner:  # a fork's child has no such thread
            run = self._run()
            limit_s = CLOSE_LIMIT_S if run is None else min(CLOSE_LIMIT_S, run.closing_s / 2)
            self._thread.join(limit_s)
            if self._thread.is_alive():
                self._is_late = True
                _log.warning("packages and Git state are not recorded: reading them took longer than %.2g s", limit_s)

    def _record(self) -> None:
        try:
            answer = json.loads(answer_of("tracker_adapters.source.source_state", asked=self._asked, timeout_s=LIMIT_S))
            environment = {name: redact_remembered(text) for name, text in answer["environment"].items()}
            run = self._run()
            if run is not None and not self._is_late:  # a closed run would count it as lost
                self._tell(run, environment, answer["patch"])
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, RuntimeError) as error:
            _log.info("packages and Git state are not recorded: %r", error)

    @staticmethod
    def _tell(run: Run, environment: dict[str, str], patch: str) -> None:
        run.describe(environment=environment)
        if patch:
            with TemporaryFolder("stepscope_") as folder:
                path = folder.path / "source.patch"
                path.write_text(redact_remembered(patch), encoding="utf-8")
                run.file(path, name=PATCH, media_type="text/x-diff", step=0)
