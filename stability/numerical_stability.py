"""The stability manager: one call a step measures the gradients, names what is not finite, and clips."""

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tracker_adapters.emitter import Emitter
from tracker_adapters.values.base import check_step

from debuggers.first_nan.finder import FirstNaNFinder
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from stability.clipping.clipper import Clipped, make_clipper
from stability.clipping.config import GradientClippingConfig
from stability.config_checks import check_config
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.manager import PyTorchDebuggingManager
from stability.debugging.tool import StepSeen
from stability.emission import StabilityEmission
from stability.errors import StabilityError
from stability.gradients.measure import Gradients, Norms, check_any_gradient, check_loss, collect_gradients
from stability.handling.config import NaNHandlingConfig
from stability.handling.faults import FaultHandling, find_origin
from stability.handling.non_finite import unscale
from stability.monitoring.anomalies import AnomalyAlerts, find_anomalies
from stability.monitoring.history import History
from stability.monitoring.learned_detector import LearnedDetector
from stability.monitoring.score import StabilityScore
from stability.optimizer_check import OptimizerCheck, check_kinds
from stability.recovery.recovery import Recovery
from stability.recovery.remedies import Fault
from stability.results.step import Anomaly, DebugSummary, NaNStats, StabilityResult


@methods_between_graphs
class NumericalStabilityManager:
    """Watches and clips the gradients of a training loop.

    Call ``step``, or the manager itself, after the last ``backward`` of a step and before ``optimizer.step()``. As a
    context manager it ends its debug session. With nothing to clip, it changes nothing: the run is bit-identical to one
    without it. It draws no random numbers. Hooks are there only while a debug session has a tool that needs them.

    On a step with NaN or infinities in a gradient nothing is clipped, unless handling puts finite numbers in their
    place: the norm is not finite, and scaling by it would spread NaN to every gradient, or set the sound ones to zero,
    and hide where the fault is.

    Attributes:
        history: The last 10,000 steps; ``stability.plots`` draws them.
        debugging: The debug sessions, with what they offer beside the steps: ``check_function``,
            ``save_cuda_snapshot``.
        emission: What is emitted; a session that watches the same training takes some of it over.
        first_nan: What ``find_first_nan`` was.
    """

    def __init__(
        self,
        clipping_config: GradientClippingConfig,
        nan_config: NaNHandlingConfig,
        debug_config: PyTorchDebuggingConfig | None = None,
        *,
        emitter: Emitter | None = None,
        scaler: torch.amp.GradScaler | None = None,
        detector: LearnedDetector | None = None,
        recovery: Recovery | None = None,
        find_first_nan: FirstNaNFinder | None = None,
        parameter_norms_every: int | None = 10,
        histogram_every: int | None = None,
    ) -> None:
        """Makes a manager; ``step`` starts counting at 0.

        Args:
            clipping_config: How gradients are clipped.
            nan_config: What happens when something is not finite.
            debug_config: What a debug session collects; without it none can be started.
            emitter: Where scalars, histograms and alerts go, such as a run.
            scaler: The loop's GradScaler: gradients are unscaled before anything else, unless the loop did so.
            detector: Learns what this run's steps look like, and tells unusual ones (``unusual_step``).
            recovery: Tries remedies after faulty steps.
            find_first_nan: Finds the operator that made the first NaN of a step, by repeating the step.
            parameter_norms_every: The norm of each parameter's gradient is emitted at steps that this divides;
                None for never.
            histogram_every: Likewise for the gradients' histograms, which cost a pass of their own unless ``step`` is
                given summaries.

        Raises:
            StabilityError: When an interval is not positive.
            StabilityConfigError: When an argument is something else than its name says.
        """
        extras = (("detector", detector, LearnedDetector), ("recovery", recovery, Recovery))
        for name, part, kind in (*extras, ("find_first_nan", find_first_nan, FirstNaNFinder)):
            if part is not None:
                check_config(name, part, kind)
        self._scaler = scaler
        self.history = History()
        self.first_nan = None if find_first_nan is None else find_first_nan.bind(emitter, scaler)
        self._clipper = make_clipper(clipping_config)
        self._faults = FaultHandling(nan_config, scaler)
        self.debugging = PyTorchDebuggingManager(debug_config, emitter)
        norm_type = clipping_config.norm_type
        self.emission = StabilityEmission(emitter, parameter_norms_every, histogram_every, norm_type=norm_type)
        self._alerts = AnomalyAlerts(emitter)
        self._detector, self._recovery = detector, recovery
        self._score, self._optimizers = StabilityScore(), OptimizerCheck()
        self._checked: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._next_step = 0

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The loop's GradScaler. Sessions, snapshots and replays depend on it, so that it cannot be replaced.

        Raises:
            StabilityError: When it is set.
        """
        return self._scaler

    @scaler.setter
    def scaler(self, scaler: torch.amp.GradScaler | None) -> None:
        raise StabilityError("scaler cannot be set; expected NumericalStabilityManager(..., scaler=scaler)")

    def step(
        self,
        model: torch.nn.Module,
        loss: torch.Tensor | float,
        optimizer: torch.optim.Optimizer,
        *,
        step: int | None = None,
        summaries: SummaryTable | None = None,
        replay: Callable[[], Any] | None = None,
        finder: FirstNaNFinder | None = None,
    ) -> StabilityResult:
        """Unscales, measures, names what is not finite, and clips the gradients of the model in place.

        Waits for the device once; a second time on a step that is not finite, and where ranks agree over a backend
        that takes only device tensors.

        Args:
            model: The model whose gradients are measured and clipped; tied parameters count once.
            loss: The unscaled loss: a tensor of one element, attached or detached, on any device, or a number.
            optimizer: Whose gradients the scaler unscales.
            step: The number of this step; by default one more than the last one.
            summaries: The gradients of the model, unscaled, as measured already: one row for each parameter that has
                one, in the order of ``model.parameters()``. They save a pass; what norm clipping does stays the
                same to the bit.
            replay: Returns the loss of the same batch, for ``find_first_nan``: without it what happens in the loss
                itself cannot be repeated.
            finder: Looks at this step where the manager has no ``find_first_nan``, before anything is repaired.

        Raises:
            StabilityError: When an argument is of another type, the loss is no scalar, no parameter has a gradient,
                one is sharded or in a layout that cannot be clipped, ``summaries`` are of another number of gradients
                or of other sizes, or a name or pattern of the clipping configuration matches no parameter.
            ArtifactError: When ``step`` is no integer from 0 to 2**63 - 1.
            AutogradAnomalyError: When something is not finite, in a debug session that is to raise.
        """
        number = self._next_step if step is None else check_step("stability", "step", step)
        self.check(model, loss, optimizer)
        self.debugging.begin(model, optimizer)
        self._faults.begin(optimizer)
        scaling = self.unscale(optimizer)
        gradients = collect_gradients(model)
        self._clipper.check(gradients)
        strangers = self._optimizers.compare(
            model, gradients.all_parameters, optimizer, self._scaler if scaling else None
        )
        norms = self._clipper.measure(gradients, loss, summaries)
        nan_stats = self._faults.examine(model, gradients, norms, scaling=scaling)
        finder = self.first_nan or finder
        origin = None if finder is None else find_origin(finder, number, loss, nan_stats, replay)
        self.emission.histograms(gradients, summaries, number)
        finite = self._faults.handle(model, optimizer, gradients, nan_stats, number=number, scaling=scaling)
        if self._recovery is not None:
            self._recovery.look(Fault(number, model, optimizer, self._scaler, nan_stats, origin))
        clipped = self._clip(gradients, norms, nan_stats) if finite else Clipped(norms.total)
        total_norm = clipped.total_norm
        anomalies = find_anomalies(number, norms.loss, nan_stats, total_norm, len(gradients.tensors))
        if self._detector is not None and (reason := self._detector.update(norms.loss, total_norm)):
            anomalies.append(Anomaly(kind="unusual_step", message=reason, step=number))
        seen = StepSeen(number, model, loss, optimizer, anomalies, [fault["name"] for fault in nan_stats["parameters"]])
        debug_info = self.debugging.observe(seen, gradients, norms.each, total_norm)
        self._alerts.tell(debug_info["anomaly_details"], log_level=self.debugging.log_level)
        if (snapshot_mb := self._faults.snapshot_mb()) is not None:
            debug_info["snapshot_mb"] = snapshot_mb
        result = StabilityResult(
            step=number,
            loss=norms.loss,
            nan_stats=nan_stats,
            clipping_stats=self._clipper.stats(clipped, *strangers),
            stability_score=self._score.rate(nan_stats, total_norm),
            debug_info=debug_info,
        )
        self.emission.scalars(result, gradients, norms, memory=self.debugging.tracks_memory)
        self.history.add(result)
        self._next_step = number + 1
        self.debugging.enforce(debug_info)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> StabilityResult:
        """Returns what ``step`` returns for the same arguments."""
        return self.step(*args, **kwargs)

    def check(self, model: torch.nn.Module, loss: torch.Tensor | float, optimizer: torch.optim.Optimizer) -> None:
        """Raises the StabilityError that ``step`` would raise; for those who do something of their own before it."""
        check_kinds(model, optimizer)
        check_loss(loss)
        self._faults.check(optimizer)
        if model in self._checked:
            check_any_gradient(model)
        else:
            self._clipper.check(collect_gradients(model))
            self._checked.add(model)

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Divides the optimizer's gradients by the scale, unless that was done since the last ``scaler.update``.

        ``step`` does this itself; it is for those who measure the gradients before it.

        Returns:
            Whether a GradScaler is at work, which will skip a step with non-finite gradients.
        """
        return unscale(self._scaler, optimizer)

    def keep_buffers(self, model: torch.nn.Module) -> None:
        """Keeps the model's buffers, such as running statistics, for a fault in the step that comes.

        That happens after each good step. Call it before the first one, and when something else than training has
        changed them, such as ``model.load_state_dict``: when the manager sees a step, its forward pass has overwritten
        them. A ``DebugSession`` calls it when it starts and after ``paused()``. With ``"detect"`` it does nothing.
        """
        self._faults.keep_buffers(model)

    def start_debug_session(self, name: str = "debug") -> None:
        """Starts to collect ``debug_info``; see ``PyTorchDebuggingManager.start`` for what it raises."""
        self.debugging.start(name)

    def stop_debug_session(self, error: BaseException | None = None) -> list[Path]:
        """Ends the session and returns the files it wrote; without a session it does nothing.

        ``error`` is what ended the run, if something did: it is told with the last step's state.
        """
        if error is not None:
            self.note_error(error)
        return self.debugging.stop(error)

    def get_debug_summary(self) -> DebugSummary:
        """Returns the sums of the running or the last session, or of all steps when there was none."""
        return self.debugging.summary()

    def close(self) -> None:
        """Ends the debug session, if one runs; a second call does nothing."""
        self.stop_debug_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop_debug_session(error)

    def note_error(self, error: BaseException) -> None:
        """Records the step that an exception ended before ``step`` was called.

        That is one whose backward pass raised, in a debug session that is to raise. Other exceptions, and a second
        call, change nothing. ``stop_debug_session(error)``, leaving the ``with`` block and ``DebugSession`` do it.
        """
        raised = self.debugging.note_error(error, self._next_step)
        if raised is not None:
            self.emission.unfinished(self.history.add_unfinished(self._next_step, raised.loss))
            self._next_step += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs, as plain values: what clipping, handling and detector know."""
        return {
            "next_step": self._next_step,
            "clipping": self._clipper.state_dict(),
            "handling": self._faults.state_dict(),
            "detector": None if self._detector is None else self._detector.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` gave.

        Raises:
            StabilityError: When it is something else, or of a manager that clips in another way.
        """
        if not {"next_step", "clipping", "handling"} <= state.keys():
            raise StabilityError(f"the state has the keys {list(state)}; expected what state_dict() returned")
        self._clipper.load_state_dict(state["clipping"])
        self._faults.load_state_dict(state["handling"])
        if self._detector is not None and state.get("detector") is not None:
            self._detector.load_state_dict(state["detector"])
        self._next_step = state["next_step"]

    def _clip(self, gradients: Gradients, norms: Norms, stats: NaNStats) -> Clipped:
        if stats["action"] in ("replaced", "zeroed", "scaled"):
            norms = self._clipper.measure(gradients, norms.loss)
        return self._clipper.clip(gradients, norms)
