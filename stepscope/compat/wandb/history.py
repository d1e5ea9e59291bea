"""The rows of W&B's history: what is logged gathers in one until its step is committed."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tracker_adapters.errors import ArtifactError
from tracker_adapters.terminal_text import say

from stepscope.compat.wandb.values import frozen


class History:
    """Gathers rows as W&B does, from any thread.

    Attributes:
        step: The step of the row that gathers.
    """

    def __init__(self, emit: Callable[[dict[str, Any], int], None], first_step: int = 0) -> None:
        """``emit`` is given each row with its step."""
        self._emit = emit
        self.step = first_step
        self._row: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._warned = False

    def log(self, data: Mapping[str, Any], step: Any = None, commit: bool | None = None) -> None:
        """Adds values to a row, and ends it if it is committed: by default where no step is given.

        Values of a step before the row's are left out, with one warning.

        Raises:
            ArtifactError: For data that cannot be recorded, and a step that is no integer.
        """
        if not isinstance(data, Mapping):
            raise ArtifactError(f"log got {type(data).__name__} {data!r:.60}; expected a mapping of names to values")
        number = None if step is None else _integer(step)
        row = dict(frozen(data))
        if os.getpid() != self._process:  # a fork's child, whose lock another thread may have held: the run warns
            self._emit(row, self.step if number is None else max(0, number))
            return
        with self._lock:
            if number is not None and number < self.step:
                self._warn(number)
                return
            if number is not None and number > self.step:
                self.flush()
                self.step = number
            self._row |= row
            if commit or (commit is None and number is None):
                self.flush()
                self.step += 1

    def flush(self) -> None:
        """Emits what has gathered, at its step."""
        if os.getpid() != self._process:
            return
        with self._lock:
            row, self._row = self._row, {}
            if row:
                self._emit(row, self.step)

    def _warn(self, step: int) -> None:
        if not self._warned:
            self._warned = True
            say(
                f"log got step {step}, which is before the current step {self.step}: steps must not go backwards, "
                "so this data is dropped, as in W&B"
            )


def _integer(step: Any) -> int:
    try:
        return operator.index(step)
    except TypeError:
        raise ArtifactError(f"log: step is {type(step).__name__} {step!r:.40}; expected an integer") from None
