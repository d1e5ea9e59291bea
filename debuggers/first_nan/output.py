"""Reports the origin of the first NaN: on the terminal, as an alert, and as a page with the values."""

import logging
from dataclasses import dataclass
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.terminal_text import say

from debuggers.first_nan.origin import NonFiniteOrigin
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.wrappers.emission import page_contents

ALERT = "first_nan"
PAGE_DEBUGGER = "first_nan"
_STEPS_IN_TEXT = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstNaN:
    """The origin of a step's NaN.

    Attributes:
        step: The step.
        origin: The operator or module; None if no replay reproduced the fault and no module's output showed it.
        seen_first: The leaf module with the first non-finite output in the step itself, before any replay.
        history: Statistics of the module's outputs in the last steps, oldest first; see ``NonFiniteWatch.history``.
        notes: How the replay differed, or why there was none.
    """

    step: int
    origin: NonFiniteOrigin | None
    seen_first: str | None
    history: tuple[dict[str, float], ...]
    notes: tuple[str, ...]

    @property
    def message(self) -> str:
        """One or two sentences: module, operator, and what to do."""
        if self.origin is None:
            reasons = "; ".join(self.notes) or "the difference is not known"
            return f"step {self.step}: the origin of NaN or infinity is not known: {reasons}"
        parts = [f"step {self.step}: {self.origin.title}", self.origin.suggestion, *self.origin.notes]
        return "; ".join(part for part in parts if part)

    def __str__(self) -> str:
        if self.origin is None:
            return self.message
        lines = [f"the first NaN or infinity of step {self.step}:", *str(self.origin).splitlines()]
        lines += [
            f"output at step {entry['step']}: mean {entry['mean']:.4g}, std {entry['std']:.4g}, "
            f"{entry['minimum']:.4g} to {entry['maximum']:.4g}"
            for entry in self.history[-_STEPS_IN_TEXT:]
        ]
        return "\n  ".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values."""
        return {
            "step": self.step,
            "origin": None if self.origin is None else self.origin.as_dict(),
            "seen_first": self.seen_first,
            "history": [dict(entry) for entry in self.history],
            "notes": list(self.notes),
        }


class FirstNaNReporter:
    """Reports results; a failure to do so is only logged."""

    def __init__(self, *, to_terminal: bool) -> None:
        self._to_terminal = to_terminal
        self._folder: TemporaryFolder | None = None
        self._pages = 0

    def report(self, answer: FirstNaN, emitter: Emitter | None) -> None:
        """Prints a result to standard error, emits the alert ``first_nan``, and the page with the tensors.

        The page has one entry, under the first affected datapoint or row, else 0: the result, inputs and outputs of
        the operator, truncated to 8 rows and 65,536 values, and the module's statistics in the last steps.
        """
        try:
            if self._to_terminal:
                say(str(answer))
            if emitter is not None:
                emitter.alert(ALERT, answer.message, step=answer.step, level="error", told=self._to_terminal)
                if answer.origin is not None:
                    self._emit_page(answer, answer.origin, emitter)
        except Exception:
            _log.exception("where the first NaN of step %d comes from could not be reported", answer.step)

    def close(self) -> None:
        """Removes the folder of the pages; runs have their own links to them."""
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _emit_page(self, answer: FirstNaN, origin: NonFiniteOrigin, emitter: Emitter) -> None:
        if self._folder is None:
            self._folder = TemporaryFolder("first_nan_")
        folder = self._folder.path
        place = next(iter(origin.datapoints or origin.rows or (0,)))
        values = {role: DeferredTensor(sample).resolve() for role, sample in origin.samples.items()}
        contents = {place: {PAGE_DEBUGGER: {**answer.as_dict(), "values": values}}}
        # joblib takes a tenth of the time until the first step, and most trainings have no NaN.
        from debuggers.page_files.saving import write_page

        record = write_page(folder, self._pages, contents)
        self._pages += 1
        emitter.page(
            folder / record.page,
            step=answer.step,
            name=PAGE_DEBUGGER,
            contents=list(page_contents(contents)),
            sha256=record.sha256,
        )
