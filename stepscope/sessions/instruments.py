"""The debuggers of a session: made from its configuration, and told what to do step by step."""

from collections.abc import Mapping
from functools import partial

from tracker_adapters.emitter import Emitter

from debuggers.activations.monitor import ActivationMonitor
from debuggers.detectors import Finding, announce
from debuggers.gradients.debugger import GradientDebugger
from debuggers.gradients.loss_watch import LossWatch
from debuggers.gradients.skipped_steps import SkippedSteps
from debuggers.gradients.step_probe import GradientReading
from debuggers.instrumentation.isolation import Isolation, OnError
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.measure import prepare
from debuggers.measurement.summary_table import SummaryTable
from debuggers.tensors.inspector import TensorInspector
from debuggers.torch_import import torch
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.tools import SessionTools


class Instruments:
    """What a session measures with.

    Attributes:
        gradients: Measures parameters and analyses their gradients.
        activations: Measures layers; None unless configured.
        tensors: Takes single tensors.
        tools: What is made when it is asked for, such as conditional hooks.
        skipped: Knows of the steps that a GradScaler skips, where those that it makes are told to it.
        summaries: The gradients of the last step, if it was measured in full and they are on the host, else None.
        reading: What a probe saw of the last step, likewise.
        unseen_losses: Steps without a loss, though they have one.
        expects_loss: Whether the coming step has one.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        optimizer: torch.optim.Optimizer | None,
        emitter: Emitter | None,
        scaler: torch.amp.GradScaler | None,
        config: DebugConfig,
        *,
        stopwatch: Stopwatch,
        on_error: OnError,
        tells_loss: bool = True,
        disabled: bool = False,
    ) -> None:
        """Makes them.

        ``stopwatch`` adds up the time that they take inside the loop's own calls; ``tells_loss`` is off where a
        stability manager tells of losses.
        """
        histogram_every = config.histogram_every if config.enable_visualization else None
        watched = model if config.enable_gradient_debugging else None
        self._measures_parameters = watched is not None
        self.gradients = GradientDebugger(
            watched,
            optimizer if watched is not None else None,
            emitter=emitter,
            scaler=scaler,
            max_gradient_history=config.max_gradient_history,
            histogram_every=histogram_every,
            gradients=config.gradients,
            weights=config.weights,
            updates=config.updates,
            optimizer_state=config.optimizer_state,
            stopwatch=stopwatch,
            on_error=on_error,
        )
        self.activations: ActivationMonitor | None = None
        if model is not None and config.activations:
            self.activations = ActivationMonitor(
                model,
                emitter=emitter,
                modules=None if config.activations is True else config.activations,
                gradients=config.activation_gradients,
                scaler=scaler,
                histogram_every=histogram_every,
                stopwatch=stopwatch,
                on_error=on_error,
            )
        self.tensors = TensorInspector(
            max_tracked_tensors=config.max_tracked_tensors,
            sampling_rate=config.sampling_rate,
            emitter=emitter,
            enabled=config.enable_tensor_inspection,
            counts_rounds=model is None and optimizer is None,  # nothing else tells where a step of such a loop ends
        )
        self.tools = SessionTools(
            model,
            inspector=self.tensors,
            gradients=self.gradients,
            emitter=emitter,
            scaler=scaler,
            config=config,
            stopwatch=stopwatch,
            on_error=on_error,
            enabled=not disabled,
        )
        self._announce = partial(announce, emitter=emitter)
        self._loss = LossWatch(self._announce if tells_loss else None)
        self.skipped = SkippedSteps(scaler)
        self.summaries: SummaryTable | None = None
        self.reading: GradientReading | None = None
        self.unseen_losses = 0
        self._is_unseen = False
        self.expects_loss = True

    @property
    def failures(self) -> Mapping[tuple[str, str], int]:
        """How often something inside failed, by place and type of exception."""
        activations = {} if self.activations is None else self.activations.failures
        return {**self.gradients.failures, **activations, **self.tools.failures}

    def findings(self, isolation: Isolation) -> list[Finding]:
        """Returns all findings so far; waits for the device."""
        found = self.gradients.findings()
        for findings in (self._loss.findings, self.skipped.findings):
            with isolation.guard("waiting for the device"):
                found += findings()
        return found if self.activations is None else found + self.activations.findings()

    def prepare(self) -> None:
        """Loads the measuring kernel."""
        prepare()

    def expect(self, step: int) -> None:
        """Prepares for the forward pass of a step that will be measured."""
        self.gradients.expect(measures=True)
        if self.activations is not None:
            self.activations.expect(step)

    def pause(self) -> None:
        """Expects nothing any more."""
        self.tools.pause()
        if self.activations is not None:
            self.activations.forget()
            self.activations.detach()

    def pass_begins(self) -> None:
        """Says that a forward pass of the training begins, in a loop whose skipped steps are not told."""
        found = self.skipped.passed()
        if found:
            self._announce(found)

    def start_over(self) -> None:
        """Says that what ran since the last step belongs to none: it was skipped, or a closure's later calls."""
        if self.activations is not None:
            self.activations.forget()

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self.skipped.scaler = scaler
        self.gradients.use_scaler(scaler)
        self.tools.use_scaler(scaler)
        if self.activations is not None:
            self.activations.use_scaler(scaler)

    def begin(self, step: int) -> None:
        """Says that a step begins, measured or not."""
        self.summaries = self.reading = None  # those of an earlier step must not pass for this one's
        self.tensors.start_step(step)
        self.gradients.expect(measures=False)
        self.tools.begin(step)

    @property
    def gradients_finite(self) -> bool | None:
        """Whether all gradients of the last step were finite; None where that is not known on the host."""
        if self.summaries is not None:
            return not self.summaries.non_finite.any()
        return None if self.reading is None else self.reading.finite

    def look(self, step: int, loss: torch.Tensor | float | None, isolation: Isolation, *, measured: bool) -> bool:
        """Looks at what is checked in every step, and returns whether the step is to be measured in full."""
        self.tools.look(loss)
        with isolation.guard("looking at the loss"):
            measured |= self._see_loss(step, loss)
        if not measured:
            with isolation.guard("probing a step"):
                measured = self._probe(step)
        return measured

    def _see_loss(self, step: int, loss: torch.Tensor | float | None) -> bool:
        """Looks at the loss of a step; returns whether something begins that a full measurement may explain."""
        self._is_unseen = loss is None and self.expects_loss
        self.unseen_losses += self._is_unseen
        return False if loss is None else self._loss.see(step, loss)

    def complete(self, step: int, loss: torch.Tensor | float) -> None:
        """Takes the loss of the last step that the loop told after it."""
        self.unseen_losses -= self._is_unseen
        self._is_unseen = False
        self._loss.see(step, loss)

    def _probe(self, step: int) -> bool:
        """Looks at the gradients of a step that is not to be measured; returns whether it should be after all.

        After it comes ``measure`` or ``leave_out``.
        """
        probe = self.gradients.probe(step) if self._measures_parameters else None
        if probe is None:
            return False
        self.reading = probe.reading
        return probe.asks_for_more

    def measure(self, step: int) -> None:
        """Measures a step, after its backward pass and before the optimizer's step."""
        if self.activations is not None:
            self.activations.detach(step)
        if self._measures_parameters:
            self.summaries = self.gradients.step(step)
        self.tools.end_step(step)

    def leave_out(self, step: int) -> None:
        """Says that this step is not measured; call it where ``measure`` would be."""
        self.gradients.leave_out()
        self.tools.end_step(step)

    def close(self) -> None:
        """Removes every hook and emits what is left; waits for the device."""
        self.tools.close()
        if self.activations is not None:
            self.activations.forget()  # forward passes that no step followed
            self.activations.close()
        self.gradients.close()
        self.tensors.drain()
        self._announce(self.skipped.begun())
