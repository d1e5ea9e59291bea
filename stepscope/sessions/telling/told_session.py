"""What a loop tells of the steps of a watched training, before the optimizer takes them or after."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from tracker_adapters.values.base import check_step

from debuggers.detectors.finding import collected_findings
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.joined_optimizers import rounds_of
from debuggers.torch_import import torch
from stepscope.sessions.diagnostics import checked_scalars
from stepscope.sessions.session import DebugSession
from stepscope.sessions.telling.step_order import StepOrder
from stepscope.sessions.telling.told_values import check_metrics, checked_batch

if TYPE_CHECKING:
    from debuggers.detectors import Finding

_log = logging.getLogger(__name__)
_BATCH = ("inputs", "outputs", "targets")
_TOLD = frozenset({"step", "replay", "metrics", *_BATCH})


@methods_between_graphs
class ToldSession(DebugSession):
    """The part of a watching session that takes what the loop tells of a step that the optimizer counts.

    The loss that backward passes showed, and what was found of the batch, wait for what the loop tells of them until
    the next step: in the first step, and since the loop has told of one after it.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, **options: Any) -> None:
        super().__init__(model, optimizer, **options)
        self._rounds = rounds_of(optimizer)
        self._told: dict[str, Any] | None = None
        """What the loop told of the coming step of several optimizers, until the last of them begins."""
        self._order = StepOrder(self._diagnosis, has_several=self._rounds is not None)
        self._has_counted = self._was_told = False
        self._waiting: int | None = None
        """The step whose loss and batch wait for what the loop tells of them."""
        self._said: set[str] = set()

    def step(self, loss: torch.Tensor | float | None = None, **options: Any) -> Any:
        """Takes the loss of a step, and more; without a call ``optimizer.step`` takes the step by itself.

        Best call it after the last ``backward`` and before ``optimizer.step()``; see ``DebugSession.step`` for the
        arguments. In a loop with a GradScaler give ``watch`` the scaler: a call of this method comes before it can be
        found.

        A call after ``optimizer.step()``, before the next backward pass, belongs to the step just taken, under whose
        number it records what it is told: the step was measured by then, ``replay`` is not used, since the weights have
        changed, and actions of ``on_finding`` upon what it is told come with the next step. Where the loop's first such
        call is not in the first step, its loss and batch are not recorded if others were found. A call after a step
        that a GradScaler skipped takes one of its own, as a call before it does.

        Of several optimizers, the step is taken when the last of them begins; losses told meanwhile, or after it, add
        up.
        """
        if self.disabled:
            return super().step(loss, **options)
        is_between = self._rounds is None or not self._rounds.is_open
        if is_between and self._order.follows:
            self._check_told(loss, options)
            self._order.tells_after = True
            self._tell_after(loss, options)
            return None
        if self._rounds is not None:
            self._check_told(loss, options)
            self._tell(loss, options, self._rounds.is_open)
            return None
        self._complete()
        result = super().step(loss, **options)
        self._order.call()
        return result

    def _check_told(self, loss: torch.Tensor | float | None, options: dict[str, Any]) -> None:
        """Checks what a loop tells of a step that it does not take.

        Raises:
            ArtifactError, SessionError, TypeError: As ``step`` does.
        """
        self._check_running()
        unknown = [name for name in options if name not in _TOLD]
        if unknown:
            raise TypeError(f"Watch.step() got an unexpected keyword argument {unknown[0]!r}")
        if options.get("step") is not None:
            check_step("session", "step", options["step"])
        check_metrics(options.get("metrics"))
        checked_scalars(loss, options.get("metrics"))
        checked_batch(**{name: options.get(name) for name in _BATCH})

    def _tell(self, loss: torch.Tensor | float | None, options: dict[str, Any], is_open: bool) -> None:
        """Keeps what the loop told of the coming step of several optimizers."""
        if self._told is not None and not is_open:
            self._count()  # no optimizer has stepped since, as where a GradScaler skips
        if self._told is None:
            self._told = {"loss": loss, **options}
            return
        metrics = {**(self._told.get("metrics") or {}), **(options.get("metrics") or {})}
        self._told |= {**options, "loss": _sum(self._told["loss"], loss), "metrics": metrics}

    def _count(self) -> None:
        """Takes a step that the optimizer counts, with what the loop told of it."""
        self._complete()
        told, self._told = self._told or {}, None
        loss = told.pop("loss", None)
        self._waits, self._was_told = not self._has_counted or self._order.tells_after, loss is not None
        self._has_counted = True
        try:
            super().step(loss, **told)
        finally:
            self._waiting = self.last_step if self._waits else None
            self._waits = False

    def _tell_after(self, loss: torch.Tensor | float | None, options: dict[str, Any]) -> None:
        """Adds what the loop told to the step that the optimizer has taken."""
        number, metrics = self.last_step, options.get("metrics")
        told = {name: value for name in _BATCH if (value := options.get(name)) is not None}
        shown, spent_before_s = self._shown(loss), self._pacing.stopwatch.seconds
        with self._pacing.stopwatch, collected_findings() as begun:
            self._diagnostics.tell(number, shown, metrics)
            self._diagnosis.note_metrics(number, metrics)
            self._diagnosis.complete(number, shown, told, has_loss=loss is not None)
            if loss is not None:
                with self._isolation.guard("looking at the loss"):
                    self._instruments.complete(number, loss)
        self._diagnosis.spent_after_step(self._pacing.stopwatch.seconds - spent_before_s)
        self._instruments.tools.begun(begun)
        if options.get("replay") is not None:
            self._say_once(
                "replay",
                "session.step(replay=…) was called after optimizer.step(), which has changed the weights: no step is "
                "repeated; expected it between backward and optimizer.step()",
            )
        if (step := options.get("step")) is not None:
            self._pacing.renumber(step)
            if step != number:
                self._say_once(
                    "step",
                    f"session.step(step={step}) was called after optimizer.step(), which was recorded as step "
                    f"{number}; later steps are numbered by what the loop tells; expected watch(…, first_step=…)",
                )

    def _shown(self, loss: torch.Tensor | float | None) -> torch.Tensor | float | None:
        """Returns the loss to show of the step that was taken, now that the loop has told one after it.

        None if one is shown already, or waits for what the loop tells after the turns of other optimizers.
        """
        if isinstance(loss, torch.Tensor):
            loss = loss.detach()
        before, waits, is_told = self._loss, self._waiting is not None, loss is not None
        if not waits and loss is not None and _differ(before, loss):
            self._say_once(
                "loss",
                f"session.step(loss) was called after optimizer.step() with the loss {_text(loss)}, which is not "
                f"recorded: step {self.last_step} has the loss {_text(before)} already; expected one, at each step",
            )
        if loss is None:
            loss = before
        elif self._was_told:
            loss = _sum(before, loss)
        if not waits and before is not None:
            return None
        self._loss = loss
        if waits and self._rounds is not None:
            self._was_told |= is_told
            return None
        self._waiting = None
        return loss

    def _complete(self) -> None:
        """Ends a step of which the loop has told nothing after it."""
        number, self._waiting = self._waiting, None
        if number is not None and not self._is_inherited:
            with self._pacing.stopwatch:
                self._diagnostics.tell(number, self._loss, None)
                self._diagnosis.complete(number, self._loss, {})

    def _findings(self) -> list[Finding]:
        self._complete()
        return super()._findings()

    def _say_once(self, about: str, text: str) -> None:
        if about not in self._said:
            self._said.add(about)
            _log.warning(text)


def _differ(first: torch.Tensor | float | None, second: torch.Tensor | float) -> bool:
    """Whether two losses are known on the host, and not the same."""
    one, other = _on_host(first), _on_host(second)
    if one is None or other is None or (math.isnan(one) and math.isnan(other)):
        return False
    return not math.isclose(one, other, rel_tol=1e-4)


def _on_host(loss: torch.Tensor | float | None) -> float | None:
    return None if loss is None or (isinstance(loss, torch.Tensor) and not loss.is_cpu) else float(loss)


def _text(loss: torch.Tensor | float | None) -> str:
    known = _on_host(loss)
    return "?" if known is None else f"{known:.6g}"


def _sum(first: torch.Tensor | float | None, second: torch.Tensor | float | None) -> torch.Tensor | float | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
