"""Measures the outputs of a model's layers at sampled steps, and the gradients with respect to these outputs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tracker_adapters.emitter import Emitter

from debuggers.activations.coverage import CoverageWarnings
from debuggers.activations.emission import ActivationEmission
from debuggers.activations.monitored_layers import MonitoredLayers
from debuggers.activations.recording import Recording
from debuggers.activations.unit_activity import Activity
from debuggers.detectors import Finding
from debuggers.instrumentation.call_observers import Observer
from debuggers.instrumentation.closing import Closing
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation, OnError, failure_alerts
from debuggers.instrumentation.module_selection import Selection
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.summary_stream import OnTable
from debuggers.torch_import import torch


@methods_between_graphs
class ActivationMonitor(Closing):
    """Measures the outputs of chosen modules while it is attached.

    ::

        monitor = ActivationMonitor(model, emitter=run)
        for number, batch in enumerate(loader):
            with monitor.step(number):
                loss = criterion(model(batch.x), batch.y)
                loss.backward()
            optimizer.step()
        monitor.close()

    Between steps the model carries no hooks. Every tensor in an output (in tuples, lists, mappings and data classes)
    is measured as it is when the module returns it: a later operation that changes it in place, such as
    ``ReLU(inplace=True)`` after a convolution, is not seen in the convolution's series but in its own.

    Names: ``<module>``; its second call in one forward pass of the model is ``<module>:1``, up to 16; several tensors
    are ``<module>.0``, ``<module>.1``. Several forward passes in one step (gradient accumulation) are merged. Emitted
    are histograms ``activations/<name>`` and scalars ``activation_norm/<name>`` and
    ``activation_zero_fraction/<name>``, and with ``gradients`` the same of ``activation_gradients``, without the loss
    scale of the ``scaler``.

    Not recorded: forward passes in the other mode than the model's at ``attach`` (a validation in eval mode), those
    that activation checkpointing repeats, and what runs inside ``torch.compile`` or ``torch.jit``: there only the
    output of the module that ``torch.compile`` returned can be seen. ``uncovered`` names what was not seen. With
    reentrant checkpointing outputs have no gradients; they are counted. ``TransformerEncoderLayer`` on its fused path,
    which it may take in eval mode, calls none of the modules inside of it. Between ``expect`` and ``detach`` a pass
    that raised is dropped, and so is what led to no step: passes in another mode than the step before, or with
    gradients that were thrown away before the next pass began.

    A module that is added or exchanged before a step that is measured is followed from that step on.

    Attributes:
        uncovered: Chosen modules whose forward was not seen in the last step: unused, compiled, or bypassed by code
            that uses their weights alone.
        skipped_calls: Calls of one module beyond 16 in one forward pass, in all steps.
        lost_outputs: Outputs, and gradients with respect to them, that changed in place or were freed before they were
            measured, in all steps: at most one of each for each module that begins to do so in mid-training; see
            ``debuggers.activations.output_rows``.
        without_gradient: Outputs that required no gradient (frozen, ``no_grad``) although ``gradients`` is set.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        emitter: Emitter | None = None,
        modules: Selection | None = None,
        gradients: bool = False,
        unit_activity: bool | Selection = True,
        histogram_every: int | None = 1,
        scaler: torch.amp.GradScaler | None = None,
        on_table: OnTable | None = None,
        on_error: OnError = "isolate",
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Chooses the modules; the model is not touched.

        Args:
            model: The model, or a wrapper of it (DataParallel, DistributedDataParallel, torch.compile): what the
                training loop calls.
            emitter: Where artifacts go.
            modules: Whose outputs are measured: names, patterns, types; by default all leaf modules.
            gradients: Whether gradients with respect to outputs are measured, too.
            unit_activity: Whose units are counted: True for ReLU and ReLU6 among ``modules``, or a selection, which is
                measured as well. Before a functional ``relu``, choose the layer that feeds it.
            histogram_every: How many steps one histogram covers; None for scalars only.
            scaler: The loop's GradScaler: every loss that reaches the outputs went through its ``scale``.
            on_table: Called with step, names and table of the outputs once they are on the host.
            on_error: ``raise`` lets failures inside the hooks pass, for tests.
            stopwatch: Adds up the time that the monitor takes, inside the forward and backward pass, too.

        Raises:
            LayerNotFoundError: When a selector matches nothing.
        """
        self.skipped_calls = 0
        self.without_gradient = 0
        self.lost_outputs = 0
        self.uncovered: list[str] = []
        self._model = model
        self._gradients = gradients
        self._emission = ActivationEmission(emitter, histogram_every=histogram_every, on_table=on_table)
        self._isolation = Isolation(on_error, failure_alerts(emitter, lambda: self._emission.last_step))
        self._stopwatch = Stopwatch() if stopwatch is None else stopwatch
        self._recording = Recording(
            model, self._isolation, self._emission.units, self._stopwatch, gradients=gradients, scaler=scaler
        )
        self._layers = MonitoredLayers(model, modules, unit_activity, self._recording)
        self._ever_fired: set[str] = set()
        self._hooks = Hooks()
        self._begin_observers: list[Observer] = []  # of the layers as they are, for every step
        self._output_observers: list[Observer] = []
        self._step: int | None = None
        self._expected = 0
        self._waiting = self._has_missed = False
        self._mode: bool | None = None  # the model's in the step before
        self._notes = CoverageWarnings()

    @property
    def chosen(self) -> list[str]:
        """The names of the chosen modules, as the model was when the monitor last looked."""
        return self._layers.chosen

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The other names of modules that have several."""
        return self._layers.aliases

    @property
    def failures(self) -> Mapping[tuple[str, str], int]:
        """How often something inside failed, by place and type of exception."""
        return self._isolation.counts

    @property
    def never_seen(self) -> list[str]:
        """Chosen modules whose forward was not seen in any step."""
        return [name for name in self.chosen if name not in self._ever_fired]

    def attach(self, step: int) -> None:
        """Adds the hooks, before the forward pass of a step; a step that is still attached ends first."""
        if self._step is not None:
            self.detach()
        # Those of ``expect`` are removed last: to observe a module that is observed already costs half as much.
        with self._stopwatch, self._isolation.guard("attaching the activation monitor"), self._hooks:
            self._recording.clear()
            self._follow()
            for layer in self._layers.recorders:
                layer.begin_step()
            self._step, self._waiting, self._hooks = step, False, Hooks()
            self._hooks.add_around_forward(self._model, self._begin_pass, lambda _: self._recording.leave_pass())
            if self._output_observers:
                self._hooks.put_back(self._output_observers)
            else:
                hooks = [(layer.module, layer) for layer in self._layers.recorders]
                self._output_observers = self._hooks.add_forward([*hooks, (self._model, self._end_pass)])

    def expect(self, step: int) -> None:
        """Attaches by itself when the next call with gradients enabled begins, of the model or of a chosen module.

        A loop may call parts of a model, such as generator and discriminator, and never the model itself: then a
        module's second call in a step is ``<module>:1``, whichever forward pass it is in. A validation before records
        nothing: it runs without gradients, or in another mode than the step before.
        """
        self.detach()
        self._expected, self._waiting = step, True
        with self._stopwatch, self._isolation.guard("following exchanged layers"):
            self._follow()
        if self._begin_observers:
            self._hooks.put_back(self._begin_observers)
        else:
            modules = (self._model, *(layer.module for layer in self._layers.recorders))
            self._begin_observers = [self._hooks.add_before_forward(one, self._begin_forward) for one in modules]

    def detach(self, step: int | None = None) -> None:
        """Removes all hooks, after the step's backward pass, and emits what is on the host; else does nothing.

        Args:
            step: The actual step, if not the one given to ``attach``.
        """
        if self._step is None:
            self._hooks.remove()
            if step is not None and self._waiting:
                self._waiting = False
                self._mode = None  # it may have changed for good
                self.uncovered = list(self.chosen)
                if self._has_missed:  # of the first one, the forward pass may have been over before
                    self._notes.warn_about_missing(any_output=False)
                self._has_missed = True
            return
        with self._stopwatch:
            step, self._step = self._step if step is None else step, None
            self._hooks.remove()
            recording = self._recording
            recording.drop_unfinished_pass()
            self._mode = recording.training if len(recording.outputs) else None
            self._ever_fired.update(layer.name for layer in self._layers.recorders if layer.fired)
            unseen = (layer.name for layer in self._layers.recorders if not layer.fired)
            self.uncovered = [*unseen, *self._layers.opaque]
            self.skipped_calls += recording.skipped_calls
            self.without_gradient += recording.without_gradient
            with self._isolation.guard("measuring activations"):
                recording.flush()
            self.lost_outputs += recording.outputs.lost + recording.gradients.lost
            outputs, gradients = recording.outputs.joined(), recording.gradients.joined()
            nothing_requires_gradients = recording.without_gradient == len(recording.outputs) > 0
            recording.clear()
            with self._isolation.guard("emitting activations"):
                self._emission.push(step, outputs, gradients)
            if self.uncovered or outputs.names:
                self._notes.warn_about_missing(
                    any_output=bool(outputs.names), no_gradient=self._gradients and nothing_requires_gradients
                )

    def forget(self) -> None:
        """Drops what was recorded of a step that turned out to be none, and expects that step again."""
        if self._step is None:
            return
        with self._stopwatch, self._isolation.guard("leaving out activations"):
            step, self._step = self._step, None
            self._recording.clear()
            self.expect(step)

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on; gradients that were measured with their scale are dropped."""
        self._recording.use_scaler(scaler)

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Attaches for the forward and backward pass of a step, and detaches also after an exception."""
        self.attach(step)
        try:
            yield
        finally:
            self.detach()

    def close(self) -> None:
        """Detaches and emits the rest, waiting for the device; calling it again does nothing."""
        self.detach()
        with self._stopwatch, self._isolation.guard("emitting activations"):
            self._emission.close()
        self._forget_observers()

    def unit_activity(self) -> dict[str, Activity]:
        """Returns how often each unit was active in the last 100 to 200 recorded steps, by layer; waits for the device.

        A unit is active where its output is above zero. See ``UnitActivity.add`` for what is a unit.
        """
        return self._emission.units.read()

    def findings(self) -> list[Finding]:
        """Returns outputs that were not finite, and layers of dead units, judged every 100 recorded steps and at close.

        Each is an alert when it begins. More than half of a layer's units dead: active in less than 1 % of the inputs.
        """
        return self._emission.findings()

    def _follow(self) -> None:
        recorders = self._layers.recorders
        exchanged = self._layers.follow()
        if self._layers.recorders is not recorders:
            self._forget_observers()
        if exchanged:
            self._ever_fired.difference_update(exchanged)
            self._emission.units.forget(exchanged)

    def _forget_observers(self) -> None:
        self._begin_observers = []
        self._output_observers = []

    def _begin_forward(self, module: torch.nn.Module, args: object, kwargs: object) -> None:
        is_expected = self._mode is None or self._model.training is self._mode
        if is_expected and torch.is_grad_enabled():
            with self._isolation.guard("attaching the activation monitor"):
                self.attach(self._expected)
                self._recording.is_guess = True
                if module is self._model:
                    self._recording.begin_pass()

    def _begin_pass(self, module: torch.nn.Module, args: object, kwargs: object) -> None:
        with self._stopwatch, self._isolation.guard("measuring activations"):
            if self._recording.begin_pass():
                for layer in self._layers.recorders:
                    layer.begin_forward()

    def _end_pass(self, module: torch.nn.Module, inputs: object, output: object) -> None:
        with self._stopwatch, self._isolation.guard("measuring activations"):
            self._recording.end_pass(output)
