"""Starts sessions: on an unchanged loop, by the optimizer's own hook, or for what a loop passes itself."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.detectors.signals.front import Rule
from debuggers.first_nan.forward_capture import outside_of_graphs
from debuggers.gradients.loss_scale import calling_scaler, step_was_skipped
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.joined_optimizers import members_of
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.sessions.arguments import check_order, joined
from stepscope.sessions.config import ConfigSpec, as_config
from stepscope.sessions.on_finding import OnFinding
from stepscope.sessions.session import DebugSession
from stepscope.sessions.telling.told_session import ToldSession

_log = logging.getLogger(__name__)
_SEARCHES = 10
"""Steps in which a GradScaler is looked for."""


@methods_between_graphs
class Watch(ToldSession):
    """A session whose ``step`` is called by ``optimizer.step`` itself; made by ``watch``."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, **options: Any) -> None:
        """Takes what ``DebugSession`` takes, and starts at once."""
        super().__init__(model, optimizer, **options)
        self._step_hooks, self._pass_hooks = Hooks(), Hooks()
        if self._rounds is not None:
            self._rounds.guard = self._isolation.guard
        self._observed = outside_of_graphs(model)
        self._searches = 0 if options.get("scaler") is not None else _SEARCHES
        self._diagnosis.tells_step_end()
        self.start()
        if not self.disabled:
            self._step_hooks.add_gradients_ready(optimizer, self._step_of)
            self._step_hooks.add_optimizer_post_step(optimizer, self._end_step_of)
            for member in () if self._rounds is None else members_of(optimizer):
                # What a wrapper hides may step in a member's place.
                self._step_hooks.add_gradients_ready(member, partial(self._begin_one_of_several, member))
                self._step_hooks.add_optimizer_post_step(member, partial(self._end_one_of_several, member))
            self._see_passes()

    def losses_add_up(self, divisor: Callable[[], int] | None = None) -> None:
        """Says that the loop divides the loss of each backward pass of a step, so that the step's loss is their sum.

        By default it is their mean, or their sum if the loss's graph shows that it was divided by their number.

        Args:
            divisor: Returns what the loop divides by. The loss of a step with fewer passes is their mean, too, as of an
                epoch's last step. None where the loop divides by the passes of the very step.
        """
        self._diagnosis.losses_add_up(divisor)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """See ``DebugSession.paused``."""
        self._end_round()
        self._pass_hooks.remove()
        try:
            with super().paused():
                yield
        finally:
            if not (self._stopped or self.disabled):
                self._see_passes()

    def stop(self) -> Any:
        """See ``DebugSession.stop``."""
        self._end_round()
        self._complete()
        self._step_hooks.remove()
        self._pass_hooks.remove()
        return super().stop()

    def _let_go(self) -> None:
        self._step_hooks.remove()
        self._pass_hooks.remove()
        super()._let_go()

    def _see_passes(self) -> None:
        """Has forward passes counted: of steps that a GradScaler skips they are all that can be seen."""
        if self._observed is not None:
            self._pass_hooks.add_before_forward(self._observed, self._pass_begins)

    def _pass_begins(self, module: torch.nn.Module, args: object, kwargs: object) -> None:
        if is_training_forward():
            self._order.forward_passes += 1
            with self._isolation.guard("watching the GradScaler"):
                self._instruments.pass_begins()

    def _step_of(self, optimizer: torch.optim.Optimizer) -> None:
        if self._paused:
            self._missed_steps += threading.get_ident() != self._pausing_thread
            return
        was_skipped = False
        with self._isolation.guard("preparing a step"):
            self._find_scaler()
            # What a fused optimizer was told on a device is known only later.
            overflow = step_was_skipped(optimizer)
            was_skipped = overflow is not None and overflow.is_cpu and bool(overflow.item())
        if was_skipped:
            self._order.skip()
            self._start_over()
        else:
            counts = self._order.begin()
            if self._rounds is not None:
                self._instruments.expects_loss = not self._diagnosis.sees_passes or self._rounds.had_pass
            if counts:
                self._count()
            with self._isolation.guard("watching the GradScaler"):
                self._instruments.skipped.made(self.last_step)

    def _end_step_of(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._paused:
            self._order.end()
            self._diagnosis.after_step()
            # Further calls of a closure ran the model on the way to the weights that this step ends with.
            self._start_over()

    def _begin_one_of_several(self, optimizer: torch.optim.Optimizer, _: torch.optim.Optimizer) -> None:
        if self._paused or self._rounds is None:
            return
        overflow = step_was_skipped(optimizer)
        if overflow is not None and overflow.is_cpu and overflow.item():
            return
        self._rounds.leave(optimizer)
        self._diagnosis.optimizer_begins()
        self._rounds.begins(optimizer)

    def _end_one_of_several(self, optimizer: torch.optim.Optimizer, _: torch.optim.Optimizer) -> None:
        if not self._paused and self._rounds is not None:
            self._rounds.ends(optimizer)

    def _end_round(self) -> None:
        """Takes the step of several optimizers that waits for one of them, and what was told of one that did not come.

        Nothing is left to do in a forked child, or in a session that has ended.
        """
        if self._rounds is None or self._stopped or self._paused or self.disabled or self._is_inherited:
            return
        with self._isolation.guard("ending a step"):
            self._rounds.finish()
            if self._told is not None:
                self._count()

    def _start_over(self) -> None:
        self._instruments.start_over()
        with self._isolation.guard("preparing a step"):
            self._diagnosis.start_over()

    def _find_scaler(self) -> None:
        if not self._searches:
            return
        self._searches -= 1
        scaler = calling_scaler()
        if scaler is not None:
            self._searches = 0
            if self._order.is_told and scaler.is_enabled():
                _log.warning(
                    "the gradients of step %d were recorded without unscaling, because "
                    "session.step() was called before the GradScaler was known; expected watch(..., scaler=scaler)",
                    self.last_step,
                )
            self._instruments.use_scaler(scaler)
            self._first_nan.use_scaler(scaler)
            self._diagnosis.use_scaler(scaler)


def watch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    *,
    run: Emitter | None = None,
    scaler: torch.amp.GradScaler | None = None,
    config: ConfigSpec | None = None,
    detectors: Sequence[Rule] = (),
    on_finding: OnFinding | None = None,
    **settings: Any,
) -> Watch:
    """Starts watching the training of a model, in an unchanged loop.

    ::

        with stepscope.watch(model, optimizer, run=run):
            train()

    A step is a call of ``optimizer.step()``. Gradients are measured when it starts, or when its closure returns for the
    first time: accumulated over all micro-batches, unscaled by a GradScaler, clipped if the loop clips. A step that a
    GradScaler skips does not count. Call ``session.step(loss)`` before it, or else after it, to pass the loss yourself.
    Without ``with``, call ``close()`` at the end; closing the run also ends the session.

    Several optimizers are watched together: ``watch(model, [muon, adamw])``. Then a step begins with the step of the
    first of them and ends with that of the last one. One that has not stepped when another steps again is not waited
    for: its steps are steps of their own, as those of a GAN's generator after several of its critic. In a step, the
    gradients and changes of a parameter are those of its own optimizer's step, and parameters of the others have none.

    Args:
        model: The model; may be compiled or wrapped.
        optimizer: The optimizer that updates it, or a list or tuple of several, whose learning rates are
            ``learning_rate/<class>``.
        run: The emitter of artifacts; without one there is only the report.
        scaler: The loop's GradScaler. By default, it is detected when it first calls ``optimizer.step``; gradients of
            activations are recorded from the next step on.
        config: A DebugConfig, or the name of a preset: ``"economy"``, ``"standard"`` (the default), ``"full"``. Or a
            mapping of fields, such as OmegaConf's: ``{"preset": "economy", "schedule": {"every": 5}}``.
        detectors: Further rules; see ``DebugSession``.
        on_finding: What to do when findings begin; see ``DebugSession``. ``optimizer.step`` raises its exceptions.
        settings: Fields of DebugConfig to change: ``watch(model, optimizer, updates=True)``.

    Returns:
        The running session.

    Raises:
        SessionError: When ``model`` or ``optimizer`` is something else, a list is empty, or holds an optimizer twice.
        ConfigError: For a wrong configuration or setting.
    """
    check_order(model, optimizer)
    if model is None or optimizer is None:
        missing = "model" if model is None else "optimizer"
        raise SessionError(f"watch got no {missing} ({missing} is None); expected both, watch(model, optimizer)")
    config, one = as_config(config, settings), joined(model, optimizer)
    return Watch(model, one, run=run, scaler=scaler, config=config, detectors=detectors, on_finding=on_finding)


def debug_session(config: ConfigSpec | None = None, **settings: Any) -> DebugSession:
    """Returns a session without a model, for a loop that passes in its tensors and gradients itself.

    ::

        session = stepscope.debug_session().start()
        for batch in loader:
            session.tensor_inspector.inspect_tensor(model(batch), "output")
            ...
        print(session.stop().summary())

    ``session.step()`` ends a step. In a loop that never calls it, the next step starts when a tensor is inspected
    again, or gradients of a layer are recorded again.

    Args:
        config: See ``DebugSession``.
        settings: Fields of DebugConfig to change.
    """
    return DebugSession(config=as_config(config, settings))
