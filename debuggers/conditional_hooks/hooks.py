"""The hooks of a session: registers them, and lets them act."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.values.base import check_name, check_step

from debuggers.conditional_hooks.acting import HookActing
from debuggers.conditional_hooks.control import TrainingControl
from debuggers.conditional_hooks.deciding import HookDeciding, SeenTensor, shaped
from debuggers.conditional_hooks.events import HookEvent, HookResult, HookStatus
from debuggers.conditional_hooks.hook import ConditionalHook
from debuggers.conditional_hooks.layers import HookedLayers
from debuggers.conditional_hooks.loss_spikes import LossSpikes
from debuggers.conditional_hooks.registered import RegisteredHook
from debuggers.conditional_hooks.vocabulary import HookTrigger
from debuggers.detectors import Finding, merge_findings
from debuggers.errors import DebuggerConfigError, UnknownHookError
from debuggers.gradients.debugger import GradientDebugger
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.quiet_computation import outside_modes
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.tensors.inspection import as_tensor
from debuggers.tensors.inspector import TensorInspector
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import scale_of

_REMEMBERED_LAYERS = 10_000


@methods_between_graphs
class ConditionalHooks:
    """Registers hooks made by ``HookBuilder``, and lets them act: ``session.hooks``.

    In a session with a model they look at its layers by themselves, from ``start`` on. A loop without one passes its
    tensors to ``execute_hooks``. Actions run on the training thread, at the moment of the event; on CUDA a condition on
    values is decided once they are on the host, some steps later, and the hook acts then on a copy of the tensor.
    Nothing waits for a device, except what a callback reads, and nothing stops the training: a condition, callback or
    action that fails is counted in the report, and told once. A callback that never returns cannot be helped.

    A layer that is exchanged is followed from the step on that begins after it.

    Hooks inside ``torch.compile`` and ``torch.jit`` see nothing. At the end of the session no layer has a hook.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        *,
        inspector: TensorInspector,
        gradients: GradientDebugger,
        isolation: Isolation,
        emitter: Emitter | None = None,
        scaler: torch.amp.GradScaler | None = None,
        output_dir: str | PathLike[str] | None = None,
        stopwatch: Stopwatch | None = None,
        enabled: bool = True,
        control: TrainingControl | None = None,
    ) -> None:
        """Registers nothing yet.

        Args:
            model: Whose layers are looked at; None where a loop passes in its tensors.
            inspector: Takes what ``INSPECT_TENSOR`` inspects.
            gradients: Takes what ``RECORD_GRADIENT`` records.
            isolation: Counts what fails.
            emitter: Takes alerts, tables and pages.
            scaler: The loop's GradScaler: gradients are looked at without its scale.
            output_dir: Where ``SAVE_TENSOR`` saves, in ``hooks/<name>``, unless the hook names a folder.
            stopwatch: Adds up the time that measuring takes.
            enabled: Whether any hook acts.
            control: Takes what actions ask of the loop.
        """
        self.scaler = scaler
        self.on_registered: Callable[[ConditionalHook], None] = lambda hook: None
        self._model, self._isolation, self._enabled = model, isolation, enabled
        folder = None if output_dir is None else Path(output_dir)
        self._acting = HookActing(
            model,
            isolation,
            inspector=inspector,
            gradients=gradients,
            emitter=emitter,
            output_dir=folder,
            control=control or TrainingControl(),
        )
        self._layers = None if model is None else HookedLayers(model, self._look, isolation)
        self._loss_spikes = LossSpikes(self._see_loss_spike)
        self._deciding = HookDeciding(self._acting, Stopwatch() if stopwatch is None else stopwatch)
        self._entries: dict[int, RegisteredHook] = {}
        self._registered = 0
        self._step: int | None = None
        self._calls: dict[tuple[str, bool], int] = {}
        self._observing = False

    def register_hook(self, hook: ConditionalHook) -> int:
        """Registers a hook, and returns its id.

        Raises:
            DebuggerConfigError: For what is no hook, and where something is missing that its actions need.
            LayerNotFoundError: When one of its patterns matches no layer of the model; the message lists near matches.
        """
        if not isinstance(hook, ConditionalHook):
            hint = "; call build()" if type(hook).__name__ == "HookBuilder" else ""
            raise DebuggerConfigError(f"hook is a {type(hook).__name__}; expected what HookBuilder.build returns{hint}")
        entry = RegisteredHook(self._registered + 1, hook)
        self._acting.check(entry)
        if self._layers is not None and hook.looks_at_tensors:
            self._layers.check(entry)
        self._registered += 1
        self._entries[entry.id] = entry
        self.on_registered(hook)
        self._attach()
        return entry.id

    def execute_hooks(
        self,
        layer: str,
        values: Any,
        shape: Sequence[int] | None = None,
        is_forward: bool = True,
        step: int | None = None,
    ) -> list[HookResult]:
        """Lets the hooks act on a tensor that the caller has.

        Args:
            layer: What it belongs to; hooks whose patterns match the name look at it.
            values: A tensor, an array, or numbers in a list.
            shape: Its shape; that of ``values`` by default.
            is_forward: Whether it is an output, and not a gradient.
            step: Its step. By default the session's; in a session without a model and without ``session.step``, each
                call for the same layer and pass is its next step.

        Returns:
            One result for each action that ran; empty when no hook acted, and while a condition waits for a device.

        Raises:
            ArtifactError: For a wrong name, shape or step, and for what holds no plain numbers.
        """
        layer = check_name("hook: layer", layer)
        given = None if step is None else check_step("hook: layer", layer, step)
        tensor = shaped(layer, as_tensor(layer, values), shape)
        number = self._number(layer, is_forward) if given is None else given
        seen = SeenTensor(layer, tensor.detach(), number, is_forward, given)
        results: list[HookResult] = []
        for entry in self._of_tensors():
            hook = entry.hook
            open_pass = hook.trigger not in (HookTrigger.EVERY_FORWARD, HookTrigger.EVERY_BACKWARD)
            if (open_pass or hook.is_forward is is_forward) and hook.patterns(layer):
                with self._isolation.guard(f"hook {hook.name!r}"):
                    results += self._deciding.consider(entry, seen) if entry.may_act(number) else []
        return results

    def list_hooks(self) -> list[HookStatus]:
        """Returns what is registered, in order, with the numbers of executions and failures."""
        return [entry.status() for entry in self._entries.values()]

    def disable_hook(self, hook_id: int) -> None:
        """Keeps a hook from acting until ``enable_hook``.

        Raises:
            UnknownHookError: When there is no such hook.
        """
        self._entry(hook_id).enable(False)
        self._attach()

    def enable_hook(self, hook_id: int) -> None:
        """Lets a hook act again.

        Raises:
            UnknownHookError: When there is no such hook.
        """
        self._entry(hook_id).enable(True)
        self._attach()

    def remove_hook(self, hook_id: int) -> None:
        """Forgets a hook.

        Raises:
            UnknownHookError: When there is no such hook.
        """
        self._entry(hook_id).enable(False)
        del self._entries[hook_id]
        self._attach()

    def count(self, hook_id: int) -> int:
        """Returns how often a hook has acted.

        Raises:
            UnknownHookError: When there is no such hook.
        """
        return self._entry(hook_id).executions

    @property
    def listens(self) -> bool:
        """Whether a hook waits for findings."""
        return any(entry.active and entry.hook.trigger is HookTrigger.ON_FINDING for entry in self._entries.values())

    def begin(self, step: int) -> None:
        """Says that a step of the session begins."""
        self._step, self._observing = step, True
        self._attach()

    def end_step(self, step: int, loss: torch.Tensor | float | None, findings: Sequence[Finding]) -> None:
        """Says that the gradients of a step are complete, with its loss and the findings that began."""
        if not self._entries:
            return
        with self._isolation.guard("hooks"):
            self._deciding.take_arrived()
        if findings:
            self._see_findings(step, findings)
        if loss is not None and any(self._of(HookTrigger.ON_LOSS_SPIKE)):
            with self._isolation.guard("looking for spikes of the loss"):
                self._loss_spikes.see(step, loss)

    def pause(self) -> None:
        """Observes no layer until the next step begins."""
        self._observing = False
        if self._layers is not None:
            self._layers.detach()

    def close(self) -> None:
        """Observes no layer any more, and ends what is left; waits for devices and disk."""
        self.pause()
        with self._isolation.guard("ending the hooks"):
            self._deciding.drain()
        with self._isolation.guard("ending the hooks"):
            self._loss_spikes.drain()
        self._acting.close()

    def _entry(self, hook_id: int) -> RegisteredHook:
        if hook_id not in self._entries:
            known = ", ".join(map(str, self._entries)) or "none"
            raise UnknownHookError(f"hook id {hook_id!r} is unknown; registered are: {known}")
        return self._entries[hook_id]

    def _of(self, trigger: HookTrigger) -> list[RegisteredHook]:
        entries = list(self._entries.values())
        return [entry for entry in entries if self._enabled and entry.active and entry.hook.trigger is trigger]

    def _of_tensors(self) -> list[RegisteredHook]:
        return [entry for entry in list(self._entries.values()) if self._enabled and entry.hook.looks_at_tensors]

    def _attach(self) -> None:
        if self._layers is None or not self._observing or self._step is None:
            return
        step = self._step
        due = [entry for entry in self._of_tensors() if entry.may_act(step)]
        with self._isolation.guard("attaching hooks"):
            self._layers.attach(due, step)

    def _number(self, layer: str, is_forward: bool) -> int:
        """The step of a tensor whose caller gave none."""
        if self._step is not None and (self._model is not None or self._step > 0):
            return self._step
        calls = self._calls.pop((layer, is_forward), -1) + 1
        self._calls[layer, is_forward] = calls
        if len(self._calls) > _REMEMBERED_LAYERS:
            del self._calls[next(iter(self._calls))]
        return calls

    def _look(self, entry: RegisteredHook, layer: str, tensor: torch.Tensor, is_forward: bool) -> None:
        """Takes a tensor of one of the model's layers."""
        step = self._step
        if step is None or self._acting.is_acting or not entry.may_act(step):
            return
        scale = None if is_forward or self.scaler is None else scale_of(self.scaler)
        with outside_modes():
            tensor = tensor.detach()
            if scale is not None:
                wide = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
                tensor = wide / scale.to(tensor.device, non_blocking=True)
            self._deciding.consider(entry, SeenTensor(layer, tensor, step, is_forward))

    def _see_findings(self, step: int, findings: Sequence[Finding]) -> None:
        for entry in self._of(HookTrigger.ON_FINDING):
            hook = entry.hook
            for finding in merge_findings([one for one in findings if hook.is_about(one)]):
                if entry.may_act(step):
                    executions = entry.executions
                    event = HookEvent(hook.name, finding.name, step, executions=executions, finding=finding)
                    with self._isolation.guard(f"hook {hook.name!r}"):
                        self._acting.act(entry, event)

    def _see_loss_spike(self, step: int, loss: float, limit: float) -> None:
        for entry in self._of(HookTrigger.ON_LOSS_SPIKE):
            if entry.may_act(step):
                event = HookEvent(entry.hook.name, "loss", step, executions=entry.executions)
                with self._isolation.guard(f"hook {entry.hook.name!r}"):
                    self._acting.act(entry, event)
