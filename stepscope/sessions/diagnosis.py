"""The evidence that a session collects, from which a diagnosis argues."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace as with_fields
from tracker_adapters.emitter import Emitter
from tracker_adapters.wording import share_of

from debuggers.detectors import Finding, announce
from debuggers.detectors.finding import name_some
from debuggers.detectors.signals.front import Rule
from debuggers.detectors.signals.plugins import plugin_rules
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts
from debuggers.gradients.parameter_watch import ParameterWatch
from debuggers.gradients.step_probe import PendingReading
from debuggers.instrumentation.isolation import Isolation, describe
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.summary_table import SummaryTable
from debuggers.observed_training.graphs.loss_view import LossView
from debuggers.observed_training.observer import TrainingObserver
from debuggers.ranks.watch import RankWatch
from debuggers.signals.collector import Signals
from debuggers.signals.judge import SignalJudge
from debuggers.torch_import import torch
from stepscope.sessions.evidence_text import EvidenceText

_OFF = "causes were not looked for (diagnosis=False)"


class SessionDiagnosis:
    """Signals and facts of a session; without a model, or with ``diagnosis=False``, nothing is collected.

    Attributes:
        signals: Collects them; None where nothing is collected.
        observer: Learns the loss and the facts; None where nothing is collected.
        probes: Results of ``session.probe``, by the probe's name.
        backward_passes: Those of the model that were seen so far.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        optimizer: torch.optim.Optimizer | None,
        emitter: Emitter | None,
        scaler: torch.amp.GradScaler | None,
        *,
        wanted: bool,
        isolation: Isolation,
        stopwatch: Stopwatch,
        detectors: Sequence[Rule] = (),
        tells_layers: bool = False,
    ) -> None:
        """Sets it up.

        Args:
            model: What is trained.
            optimizer: What trains it.
            emitter: Where signals, facts and findings go; None for nowhere.
            scaler: The loop's GradScaler.
            wanted: Whether anything is to be collected.
            isolation: Catches what fails inside.
            stopwatch: Takes the time.
            detectors: Rules of the user.
            tells_layers: Whether others tell which layers' outputs were never seen.
        """
        self.probes: dict[str, dict[str, Any]] = {}
        self.backward_passes = 0
        self._isolation = isolation
        self._emitter = emitter
        self._text = EvidenceText(emitter)
        self._announced: set[str] = set()
        self._watch: ParameterWatch | None = None
        self._gaps: Callable[[Facts], tuple[str, ...]] = lambda facts: ()
        observes = wanted and model is not None
        self._is_off, self._tells_layers = not wanted and model is not None, tells_layers
        self._judge = SignalJudge([*(plugin_rules() if observes else ()), *detectors], emitter, isolation)
        self.signals: Signals | None = None
        self.observer: TrainingObserver | None = None
        self._ranks: RankWatch | None = None
        if wanted and model is not None:
            self._ranks = RankWatch(model, emitter, isolation=isolation, stopwatch=stopwatch)
            signals = self.signals = Signals(
                model, optimizer, emitter, scaler, isolation=isolation, stopwatch=stopwatch, judge=self._judge
            )
            self.observer = TrainingObserver(
                model,
                optimizer,
                scaler,
                isolation=isolation,
                stopwatch=stopwatch,
                on_loss=self._see_loss,
                on_backward_end=self._backward_ended,
                on_step_end=self._step_ended,
                on_broken_batch=self.signals.broken_batch,
                on_evaluation=self.signals.evaluation,
                on_evaluation_loss=lambda step, loss: signals.evaluation_loss(
                    step, loss.kind, loss.mean, loss.rows, loss.numbers
                ),
            )

    def tells_step_end(self) -> None:
        """Says that ``after_step`` will be called, so that no hook of the optimizer is needed."""
        if self.observer is not None:
            self.observer.is_told_step_end = True

    def losses_add_up(self, divisor: Callable[[], int] | None = None) -> None:
        """Says that each pass of a step is divided by their number, or by the divisor where a step may have fewer."""
        if self.observer is not None:
            self.observer.passes.adds_up, self.observer.passes.divisor = True, divisor

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of findings that the rules about signals make."""
        return self._judge.kinds

    def listen(self, on_begun: Callable[[list[Finding]], None]) -> None:
        """Has a function called with what the rules about signals find, when it begins."""
        self._judge.on_begun = on_begun

    def use_watch(self, watch: ParameterWatch | None, gaps: Callable[[Facts], tuple[str, ...]]) -> None:
        """Takes who knows which parameters take part in the training, and what tells the gaps of its coverage."""
        self._watch, self._gaps = watch, gaps

    def expect(self) -> None:
        """Prepares for the forward pass of the coming step."""
        if self.signals is not None:
            self.signals.expect()
        if self.observer is not None:
            self.observer.start()
        if self._ranks is not None:
            self._ranks.begin()

    def _backward_ended(self) -> None:
        self.backward_passes += 1
        if self.signals is not None:
            self.signals.backward_ends()

    def _step_ended(self) -> None:
        if self.signals is not None:
            self.signals.after_step()
        if self._ranks is not None:
            self._ranks.after_step()

    def loss(self, told: torch.Tensor | float | None) -> torch.Tensor | float | None:
        """Returns the loss of the coming step: what the loop told, else what its backward passes showed."""
        if self.observer is None:
            return told
        if told is None:
            return self.observer.loss()
        self.observer.tell(loss=told)
        return told

    @property
    def called_layers(self) -> tuple[str, ...]:
        """The layers in the order in which the first sampled pass called them; empty before."""
        return () if self.signals is None else self.signals.called_layers

    @property
    def sees_passes(self) -> bool:
        """Whether backward passes are observed."""
        return self.observer is not None

    @property
    def were_zeroed(self) -> bool:
        """Whether gradients were zeroed before a backward pass since the optimizer's last step, or nobody looks."""
        return self.observer is None or self.observer.passes.were_zeroed

    @property
    def drops(self) -> int:
        """How often gradients of backward passes were zeroed since the optimizer's last step."""
        return 0 if self.observer is None else self.observer.passes.without_step[1]

    @property
    def rows(self) -> int:
        """The length of the batches since the last step together; 0 where nothing is observed."""
        return 0 if self.observer is None else sum(self.observer.calls.sizes)

    def usual_loss(self, loss: torch.Tensor | float | None) -> float:
        """What a constant output's loss is; before that is known the first loss, if it is on the host, else 1.

        It tells the unit of a loss, which its gradients grow with: targets may be huge numbers. A first loss of a model
        that starts wrong is larger, so that it counts for as long as nothing better is known alone.
        """
        known = None if self.signals is None else self.signals.constant_loss
        if known is not None or self.signals is None or loss is None:
            return known if known is not None and math.isfinite(known) else 1.0
        if isinstance(loss, torch.Tensor) and not loss.is_cpu:
            return 1.0
        with self._isolation.guard("reading the first loss"):
            first = abs(float(loss.detach() if isinstance(loss, torch.Tensor) else loss))
            return first if math.isfinite(first) else 1.0
        return 1.0

    def take_unclipped(self) -> float | PendingReading | None:
        """Returns the norm of all gradients before the loop clipped those of the coming step, once, if it is known."""
        return None if self.observer is None else self.observer.clippings.take_norm()

    def _see_loss(self, view: LossView) -> None:
        if self.signals is not None:
            shape = view.facts.outputs_shape if view.facts.kind in ("cross_entropy", "nll") else ()
            classes = shape[1] if len(shape) > 1 else 0
            pairs = {"order": view.order, "tie": view.tie, "pairs_left_out": view.left_out}
            pairs["picked_meet_all"] = view.meet_all
            if view.gains is not None:
                pairs |= {"gains/of_two_values": view.gains.of_two_values, "gains/high": view.gains.high}
            # A loop may call the model for something else, too: the loss's own call is what its targets belong to.
            outputs = None if view.targets is None else view.outputs
            self.signals.batch(
                outputs=outputs,
                targets=view.targets,
                loss_kind=view.facts.kind,
                loss_limit=view.facts.levels or view.facts.limit,
                loss_classes=classes,
                pairs=pairs,
            )

    def step(
        self,
        step: int,
        loss: torch.Tensor | float | None,
        batch: Mapping[str, Any],
        table: SummaryTable | None,
        *,
        waits: bool = False,
    ) -> None:
        """Takes a step, and what the loop told of its batch; if it ``waits``, ``complete`` comes with the rest."""
        if self.signals is not None:
            if batch:
                self.signals.batch(**batch, told=True)
            self.signals.step(step, loss, table, waits=waits)
        if self.observer is not None:
            if batch:
                with self._isolation.guard("observing a step"):
                    self.observer.tell(**batch)
            if self._ranks is not None:
                calls, passes = self.observer.calls, self.observer.passes
                self._ranks.step(step, calls.given, (calls.begun_s, passes.begun_s, passes.ended_s))
            self.observer.step(step)
            with self._isolation.guard("storing what is known of the training"):
                if self._text.is_due() and self.observer.is_on_host:
                    self._put_out(step)

    def complete(
        self, step: int, loss: torch.Tensor | float | None, batch: Mapping[str, Any], *, has_loss: bool = False
    ) -> None:
        """Ends a step that waited for what the loop would tell of it after it.

        Args:
            step: Its number.
            loss: Its loss, if that is not noted yet.
            batch: What the loop told of its batch.
            has_loss: Whether the loop told a loss.
        """
        if self.signals is not None:
            self.signals.complete(step, loss, batch)
        if self.observer is not None:
            with self._isolation.guard("observing a step"):
                self.observer.tell(loss=True if has_loss else None, **batch)

    def spent_after_step(self, seconds: float) -> None:
        """Says that measuring took so long between the end of a step and the next forward pass."""
        if self.signals is not None:
            self.signals.spent_after_step(seconds)

    def _put_out(self, step: int) -> None:
        """Stores what is known during the training: findings of others are alerts by then."""
        assert self.observer is not None
        found = self.observer.findings(waits=False)
        begun = [finding for finding in found if finding.kind not in self._announced]
        self._announced.update(finding.kind for finding in begun)
        if begun:
            announce(begun, self._emitter)
        known = [] if self._watch is None else self._watch.findings()
        self.judge_noted()
        facts = self.facts(waits=False)
        facts = with_fields(facts, gaps=self._gaps(facts), gaps_after=facts.steps)
        self._text.put(step, facts, [*known, *found, *self._judge.findings()])

    def put_out(self, step: int, findings: list[Finding], gaps: tuple[str, ...]) -> None:
        """Stores everything at the end of the session, with the gaps of its coverage."""
        if self.observer is not None:
            self._text.put(max(0, step), with_fields(self.facts(), gaps=gaps), findings)

    def facts(self, *, waits: bool = True) -> Facts:
        """Returns what is known of the training; ``waits`` for the device, or leaves out what is still on its way."""
        if self.observer is None:
            return Facts(probes=dict(self.probes), not_told=(_OFF,) if self._is_off else ())
        without = () if self.signals is None else tuple(self.signals.without_gradients)
        facts = self.observer.facts(self._watch, waits=waits, probes=dict(self.probes), without_gradients=without)
        called = self.called_layers
        known = frozenset(called)
        called = () if called == tuple(one.name for one in facts.layers if one.name in known) else called
        gaps = (*facts.not_told, *self._unseen_layers(), *self._judge.not_seen())
        return with_fields(facts, called=called, not_told=gaps)

    def _unseen_layers(self) -> list[str]:
        unseen, count = ([], 0) if self.signals is None else self.signals.unseen_layers
        if not unseen or self._tells_layers:
            return []
        return [f"the outputs of {share_of(len(unseen), count, 'layers')} were never seen ({name_some(unseen)})"]

    def findings(self) -> list[Finding]:
        """Returns the findings of broken invariants, and of the rules about signals; waits for the device."""
        if self.signals is not None:
            self.signals.drain()
        invariants = [] if self.observer is None else self.observer.findings()
        return [*invariants, *self._judge.findings()]

    def judge_noted(self) -> None:
        """Has the rules see at once what was noted, as where hooks act on what they find."""
        if self.signals is not None:
            self.signals.judge_noted()

    def note_error(self, error: BaseException) -> None:
        """Takes the exception that ends the training."""
        if self.observer is not None and isinstance(error, Exception):
            self.observer.error = " ".join(describe(error).split())[:500]

    def note(self, step: int, name: str, value: float) -> None:
        """Keeps a number of a step that is emitted elsewhere."""
        if self.signals is not None:
            self.signals.note(step, name, value)

    def note_metrics(self, step: int, metrics: Mapping[str, Any] | None) -> None:
        """Hands the loop's own numbers to the rules that need them."""
        for name, value in (metrics or {}).items():
            if name in self._judge.needs:
                with self._isolation.guard(f"handing {name!r} to detectors"):
                    self.note_later(step, name, value)

    def note_total(self, step: int, norm: float) -> None:
        """Keeps the norm of all gradients of a step."""
        if self.signals is not None:
            self.signals.note(step, "total_norm/gradients", norm)

    def note_later(self, step: int, name: str, value: torch.Tensor | float) -> None:
        """Keeps a number that may still be on a device."""
        if self.signals is not None:
            self.signals.note_later(step, name, value)

    def note_validation(self) -> None:
        """Counts a validation after the last step, once."""
        if self.observer is not None:
            self.observer.calls.validations.tell()

    def begin_validation(self) -> None:
        """Has the modes of layers looked at when the model is first called."""
        if self.observer is not None:
            self.observer.told_validation.begin()

    def end_validation(self) -> None:
        """Looks at modes no more."""
        if self.observer is not None:
            self.observer.told_validation.end()

    def optimizer_begins(self) -> None:
        """Says that one of several optimizers begins its step."""
        if self.observer is not None:
            self.observer.optimizer_begins()

    def after_step(self) -> None:
        """Says that the optimizer has stepped, where ``tells_step_end`` was set."""
        if self.observer is not None:
            self.observer.after_step()

    def pause(self) -> None:
        """Takes the hooks off the model, until ``expect``."""
        if self.signals is not None:
            self.signals.pause()
        if self.observer is not None:
            self.observer.pause()
        if self._ranks is not None:
            self._ranks.pause()

    def start_over(self) -> None:
        """Says that what ran since the last step belongs to none."""
        if self.signals is not None:
            self.signals.start_over()

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        if self.signals is not None:
            self.signals.scaler = scaler
        if self.observer is not None:
            self.observer.use_scaler(scaler)

    def close(self) -> None:
        """Removes every hook; waits for the device."""
        if self.signals is not None:
            self.signals.close()
        if self.observer is not None:
            self.observer.close()
        if self._ranks is not None:
            self._ranks.close()

    def evidence(self, findings: list[Finding]) -> Evidence:
        """Returns what is known so far; waits for the device."""
        ordered = tuple(sorted(findings, key=lambda finding: finding.step))
        if self.signals is None:
            return Evidence(findings=ordered, facts=self.facts())
        series, tensors = self.signals.series(), self.signals.tensors()
        return Evidence(findings=ordered, series=series, tensors=tensors, facts=self.facts())
