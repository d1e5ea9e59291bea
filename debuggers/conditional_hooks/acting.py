"""Does what hooks are to do; a failure is counted, told once, and never stops the training."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter
from tracker_adapters.reports import NOTIFICATIONS
from tracker_adapters.values.plain import json_values

from debuggers.conditional_hooks.control import TrainingControl
from debuggers.conditional_hooks.events import HookEvent, HookResult
from debuggers.conditional_hooks.hook import Action
from debuggers.conditional_hooks.pages import HookPages
from debuggers.conditional_hooks.pausing import pause
from debuggers.conditional_hooks.registered import RegisteredHook
from debuggers.conditional_hooks.snapshot import Snapshots
from debuggers.conditional_hooks.vocabulary import HookAction
from debuggers.errors import DebuggerConfigError
from debuggers.gradients.debugger import GradientDebugger
from debuggers.gradients.parameters import Parameters
from debuggers.instrumentation.isolation import Isolation, describe
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.instrumentation.random_state import preserved_random_state
from debuggers.tensors.inspector import TensorInspector
from debuggers.torch_import import torch

SLOW_S = 1.0
"""A callback that takes longer is told once."""
_SEVERITIES: dict[AlertLevel, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)


class HookActing:
    """Runs the actions of hooks.

    Attributes:
        isolation: Counts what fails.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        isolation: Isolation,
        *,
        inspector: TensorInspector,
        gradients: GradientDebugger,
        emitter: Emitter | None,
        output_dir: Path | None,
        control: TrainingControl,
    ) -> None:
        self._control = control
        self.isolation = isolation
        self._model, self._inspector, self._gradients, self._emitter = model, inspector, gradients, emitter
        self._pages = HookPages(output_dir, emitter, isolation)
        self._snapshots = Snapshots(model, emitter)
        self._inside = threading.local()
        self._slow: set[int] = set()
        self._doers: dict[HookAction, Callable[[RegisteredHook, Action, HookEvent], Any]] = {
            HookAction.INSPECT_TENSOR: self._inspect,
            HookAction.RECORD_GRADIENT: self._record,
            HookAction.SAVE_TENSOR: self._save,
            HookAction.SNAPSHOT: lambda entry, action, event: self._snapshots.take(event.hook, event.step),
            HookAction.CALLBACK: self._call,
            HookAction.ALERT: self._alert,
            HookAction.PAUSE: self._pause,
            HookAction.LOG: self._log,
            HookAction.NOTIFY: self._notify,
            HookAction.STOP: lambda entry, action, event: control.stop(self._sentence(entry, event)),
            HookAction.RAISE: self._raise,
            HookAction.MEASURE: lambda entry, action, event: control.measure(action.steps),
        }

    @property
    def is_acting(self) -> bool:
        """Whether this thread is inside an action: what that calls, such as the model, is none of the training."""
        return getattr(self._inside, "acting", False)

    def check(self, entry: RegisteredHook) -> None:
        """Checks that there is what the actions of a hook need.

        Raises:
            DebuggerConfigError: When something is missing.
        """
        for action in entry.hook.actions:
            if action.kind is HookAction.SAVE_TENSOR:
                self._pages.check(entry.hook.name, None if action.folder is None else Path(action.folder))
            if action.kind is HookAction.SNAPSHOT and self._model is None:
                raise DebuggerConfigError(
                    f"hook {entry.hook.name!r}: SNAPSHOT needs a model; expected DebugSession(model, ...)"
                )
            if action.kind is HookAction.NOTIFY and self._emitter is None:
                raise DebuggerConfigError(
                    f"hook {entry.hook.name!r}: NOTIFY needs a run, whose webhook sinks post the finding"
                )

    def act(self, entry: RegisteredHook, event: HookEvent) -> list[HookResult]:
        """Runs all actions of a hook for an event, counts that, and lets the tensor go."""
        entry.count()
        device = "cpu" if event.source is None else event.source.device.type
        self._inside.acting = True
        try:
            with quiet_computation(device):
                return [self._attempt(entry, action, event) for action in entry.hook.actions]
        finally:
            self._inside.acting = False
            event.release()

    def fail(self, entry: RegisteredHook, what: str, error: Exception) -> str:
        """Counts a failure, and returns it in words.

        Raises:
            Exception: The error, where failures are not isolated.
        """
        entry.failures += 1
        self.isolation.record(f"hook {entry.hook.name!r}: {what}", error)
        if self.isolation.on_error == "raise":
            raise error
        return describe(error)

    def close(self) -> None:
        """Writes and emits what is left; waits for devices and disk."""
        with self.isolation.guard("ending the hooks"):
            self._snapshots.drain()
        with self.isolation.guard("ending the hooks"):
            self._pages.close()

    def _attempt(self, entry: RegisteredHook, action: Action, event: HookEvent) -> HookResult:
        value, failure = None, ""
        try:
            value = self._doers[action.kind](entry, action, event)
        except Exception as error:
            failure = self.fail(entry, action.kind, error)
        return HookResult(
            hook_id=entry.id,
            hook=event.hook,
            layer=event.layer,
            step=event.step,
            action=action.kind,
            value=value,
            error=failure,
        )

    def _inspect(self, entry: RegisteredHook, action: Action, event: HookEvent) -> Any:
        ids = [
            self._inspector.inspect_tensor(
                tensor,
                name if event.is_forward else f"{name}/gradient",
                layer=name,
                operation="forward" if event.is_forward else "backward",
                step=event.given_step,
            )
            for name, tensor in self._tensors(entry, event)
        ]
        return ids if event.source is None else ids[0]

    def _record(self, entry: RegisteredHook, action: Action, event: HookEvent) -> None:
        step = event.step if self._model is not None else event.given_step
        for name, tensor in self._tensors(entry, event):
            self._gradients.record_gradient_flow(name, tensor, step=step)

    def _save(self, entry: RegisteredHook, action: Action, event: HookEvent) -> Any:
        folder = None if action.folder is None else Path(action.folder)
        paths = [self._pages.save(event, name, tensor, folder) for name, tensor in self._tensors(entry, event)]
        return paths if event.source is None else paths[0]

    def _call(self, entry: RegisteredHook, action: Action, event: HookEvent) -> Any:
        assert action.callback is not None
        begun = time.perf_counter()
        with preserved_random_state([] if event.source is None else [event.source]):
            value = action.callback(event)
        seconds = time.perf_counter() - begun
        if seconds > SLOW_S and entry.id not in self._slow:
            self._slow.add(entry.id)
            _log.warning(
                "the callback of hook %r blocked the training for %.1f s (reported once)",
                event.hook,
                seconds,
            )
        return value

    def _pause(self, entry: RegisteredHook, action: Action, event: HookEvent) -> bool:
        with preserved_random_state([] if event.source is None else [event.source]):
            return pause(event)

    def _alert(self, entry: RegisteredHook, action: Action, event: HookEvent) -> str:
        message = action.message or self._sentence(entry, event)
        if self._emitter is not None:
            self._emitter.alert(f"hooks/{event.hook}", message, step=event.step, level=action.level)
        else:
            _log.log(_SEVERITIES[action.level], "hook %r at step %d: %s", event.hook, event.step, message)
        return message

    def _log(self, entry: RegisteredHook, action: Action, event: HookEvent) -> str:
        sentence = self._sentence(entry, event)
        level = action.level if event.finding is None else event.finding.level
        _log.log(_SEVERITIES[level], "hook %r at step %d: %s", event.hook, event.step, sentence)
        return sentence

    def _notify(self, entry: RegisteredHook, action: Action, event: HookEvent) -> None:
        assert self._emitter is not None  # without it no such hook can be registered
        assert event.finding is not None
        content = json_values(event.finding.to_dict())
        self._emitter.text(f"{NOTIFICATIONS}{event.finding.kind}", json.dumps(content), step=event.step)

    def _raise(self, entry: RegisteredHook, action: Action, event: HookEvent) -> None:
        self._control.raise_later(action.exception(self._sentence(entry, event)))

    @staticmethod
    def _sentence(entry: RegisteredHook, event: HookEvent) -> str:
        if event.finding is not None:
            return f"{event.finding.kind}: {event.finding.message}"
        condition = entry.hook.condition
        held = "" if condition is None else f", where {condition.text}"
        what = "" if event.is_forward is None else "output of " if event.is_forward else "gradient of "
        return f"{what}{event.layer} at step {event.step}{held}"

    def _tensors(self, entry: RegisteredHook, event: HookEvent) -> Iterator[tuple[str, torch.Tensor]]:
        """The event's tensor; of a step as a whole the gradients of the matching layers' parameters."""
        if event.source is not None:
            yield event.layer, event.source
        elif self._model is not None:
            found = Parameters(self._model).gradients()
            for name, gradient in zip(found.names, found.tensors, strict=True):
                if entry.hook.patterns(name) or entry.hook.patterns(name.rpartition(".")[0]):
                    yield name, gradient
