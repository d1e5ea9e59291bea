"""What a session is told of validations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tracker_adapters.values.base import check_step

from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.sessions.diagnostics import checked_scalar
from stepscope.sessions.lifecycle import SessionLifecycle
from stepscope.sessions.telling.told_values import check_metrics


@methods_between_graphs
class SessionValidation(SessionLifecycle):
    """The part of a session that takes validations."""

    def validation(
        self,
        loss: torch.Tensor | float | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        """Takes the result of a validation: emits ``validation/loss`` and ``validation/<metric>``.

        ::

            with session.validating():
                loss, accuracy = validate(model, held_out)
            session.validation(loss, metrics={"accuracy": accuracy})

        Args:
            loss: The mean loss, computed as the training's loss is: a number or a tensor of one element. NaN and
                infinities are recorded as they are.
            metrics: Further numbers, by name.
            step: The training step after which it ran; by default the last one.

        Raises:
            ArtifactError: For a wrong step, and for a loss or metric that is no number; then nothing is recorded.
            SessionError: When neither is given, and for metrics that are no mapping.
        """
        check_metrics(metrics, "validation/")
        if loss is None and not metrics:
            raise SessionError("validation got neither a loss nor metrics; expected a number, validation(loss)")
        number = max(0, self.last_step) if step is None else check_step("session", "step", step)
        values = {} if loss is None else {"validation/loss": loss}
        values |= {f"validation/{name}": value for name, value in (metrics or {}).items()}
        checked = {name: checked_scalar(name, value) for name, value in values.items()}
        if self.disabled:
            return
        with self._pacing.stopwatch:
            if self._run is not None:
                for name, value in checked.items():
                    self._run.scalar(name, value, step=number)
            with self._isolation.guard("recording a validation"):
                self._diagnosis.note_validation()
                for name, value in checked.items():
                    self._diagnosis.note_later(number, name, value)

    @contextmanager
    def validating(self) -> Iterator[None]:
        """Excludes a validation from the training, as ``paused`` does, and checks the modes of the model's layers.

        Dropouts and batch norms in training mode falsify a validation: the diagnosis says so.
        """
        with self.paused():
            try:
                with self._isolation.guard("watching a validation"):
                    self._diagnosis.begin_validation()
                yield
            finally:
                with self._isolation.guard("watching a validation"):
                    self._diagnosis.end_validation()
