"""How a training of the zoo is watched: not at all, in an unchanged loop, or by a loop that tells what it knows."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import stepscope

Mode = Literal["unwatched", "unchanged", "told"]
MODES: tuple[Mode, ...] = ("unwatched", "unchanged", "told")


class Silent:
    """A session that is told nothing."""

    def step(self, loss: Any = None, *, inputs: Any = None, outputs: Any = None, targets: Any = None) -> None:
        """Does nothing."""

    def validation(self, loss: Any, *, metrics: dict[str, float] | None = None) -> None:
        """Does nothing."""

    def validating(self) -> AbstractContextManager[None]:
        """Does nothing."""
        return nullcontext()


class Told(Silent):
    """Passes on what the loop tells."""

    def __init__(self, session: stepscope.DebugSession) -> None:
        self._session = session

    def step(self, loss: Any = None, *, inputs: Any = None, outputs: Any = None, targets: Any = None) -> None:
        """Passes on the loss, and the inputs, outputs and targets."""
        self._session.step(loss, inputs=inputs, outputs=outputs, targets=targets)

    def validation(self, loss: Any, *, metrics: dict[str, float] | None = None) -> None:
        """Passes on the result of a validation."""
        self._session.validation(loss, metrics=metrics)

    def validating(self) -> AbstractContextManager[None]:
        """Says when the loop validates."""
        return self._session.validating()


class Watcher:
    """The sessions of one training: some trainings have several models."""

    def __init__(self, mode: Mode, run: stepscope.Run | None = None) -> None:
        self._mode, self._run = mode, run
        self.sessions: list[stepscope.DebugSession] = []

    def watch(self, model: Any, optimizer: Any, *, scaler: Any = None) -> Silent:
        """Begins to watch a model, as ``stepscope.watch`` does."""
        if self._mode == "unwatched":
            return Silent()
        emitter = self._run
        if emitter is not None and self.sessions:
            emitter = emitter.scoped(f"model_{len(self.sessions)}")
        session = stepscope.watch(model, optimizer, run=emitter, scaler=scaler)
        self.sessions.append(session)
        return Told(session) if self._mode == "told" else Silent()

    def close(self) -> None:
        """Ends all sessions."""
        for session in self.sessions:
            session.close()

    def causes(self) -> list[tuple[str, float]]:
        """Returns the codes of all causes and how sure they are, the surest first."""
        found: dict[str, float] = {}
        for session in self.sessions:
            for cause in session.report().causes:
                found[cause.code] = max(cause.confidence, found.get(cause.code, 0.0))
        if len(self.sessions) == 1:
            return list(found.items())
        return sorted(found.items(), key=lambda item: -item[1])

    def health(self) -> str:
        """Returns the worst verdict's health in one word."""
        order = ("critical", "warning", "unknown", "no problem in what was checked", "healthy")
        words = {str(session.report().verdict.health) for session in self.sessions}
        return next((word for word in order if word in words), "unwatched")
