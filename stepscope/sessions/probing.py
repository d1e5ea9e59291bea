"""The probes of a session, on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.sessions.telling.told_values import told_tensors
from stepscope.sessions.validation import SessionValidation

if TYPE_CHECKING:
    from debuggers.probes.report import ProbeReport


@methods_between_graphs
class SessionProbing(SessionValidation):
    """The part of a session that probes a batch."""

    def probe(
        self,
        batch: Any,
        *,
        loss: Callable[[Any, Any], torch.Tensor] | None = None,
        forward: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None,
        steps: int = 60,
    ) -> ProbeReport:
        """Probes a batch between two steps: it costs about ``2 * steps`` steps and the memory of a second training.

        Fits one batch of 16, zeroes the inputs, looks for outputs that depend on other samples of the batch, compares
        training with eval mode, sweeps the learning rate, and compares the loss with its expectation at the start. All
        of it runs on deep copies of model and optimizer; the generators of torch, NumPy and Python are put back, so
        training goes on bit for bit as without it. Hooks that users put on the model are called. The results are part
        of the session's evidence. The report names a probe that fails.

        Args:
            batch: ``(inputs, targets)``, or a mapping of the model's arguments, on the model's device. The first
                dimension of its tensors counts the samples.
            loss: ``loss(outputs, targets)`` returns a tensor of one element; for a mapping, ``loss(outputs, batch)``.
                By default the kind of loss that the training's graph showed, or the ``loss`` of the model's outputs for
                a mapping.
            forward: ``forward(model, batch)`` returns the loss, instead. It calls the model that it is given.
            steps: How many steps each of the two probes takes that train.

        Raises:
            SessionError: For wrong arguments, in a session without a model, and where the loss is not known.
        """
        _check(batch, loss, forward, steps)
        if self._model is None:
            raise SessionError("the session has no model to probe; expected DebugSession(model, optimizer)")
        from debuggers.probes.batch import ProbedBatch
        from debuggers.probes.losses import loss_of_kind
        from debuggers.probes.report import ProbeReport
        from debuggers.probes.run import kind_of, run_probes

        if self.disabled:
            return ProbeReport(step=self.last_step)
        facts = self._diagnosis.facts()
        if loss is None and forward is None and not isinstance(batch, Mapping):
            loss = loss_of_kind(facts.loss)
            if loss is None:
                seen = f"is of kind {facts.loss.kind!r}" if facts.loss and facts.loss.kind else "is not known"
                raise SessionError(f"the training's loss {seen}; expected loss=loss(outputs, targets), or forward=…")
            kind = facts.loss.kind if facts.loss else ""
        else:
            kind = kind_of(loss, facts.loss)
        is_running = self._started and not self._stopped and not self._paused
        with self.paused() if is_running else nullcontext():
            report = run_probes(
                self._model,
                self._optimizer,
                ProbedBatch(batch, loss, forward),
                kind=kind,
                steps=steps,
                last_step=self.last_step,
                taken=facts.steps,
            )
        self._diagnosis.probes.update(report.results)
        return report


def _check(batch: Any, loss: object, forward: object, steps: object) -> None:
    if loss is not None and forward is not None:
        raise SessionError("probe got both loss and forward; expected one of them")
    for name, value in (("loss", loss), ("forward", forward)):
        if value is not None and not callable(value):
            raise SessionError(f"{name} is {value!r}; expected a function")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise SessionError(f"steps is {steps!r}; expected an integer of at least 1")
    is_pair = isinstance(batch, (tuple, list)) and len(batch) == 2
    tensors = told_tensors("batch", batch)
    if any(tensor.ndim and not len(tensor) for tensor in tensors):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise SessionError(f"batch has no rows: its tensors have the shapes {shapes}; expected one row or more")
    if not tensors:
        held = [*(batch.values() if isinstance(batch, Mapping) else batch if is_pair else [batch])]
        kinds = ", ".join(type(one).__name__ for one in held) or "nothing"
        raise SessionError(f"batch holds no tensor but {kinds}; expected tensors, such as torch.as_tensor(array)")
    if not (is_pair or isinstance(batch, Mapping) or forward is not None):
        shown = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise SessionError(f"batch is a {shown}; expected (inputs, targets), or a mapping of the model's arguments")
