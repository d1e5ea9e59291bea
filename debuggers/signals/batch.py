"""The batch of one sampled step: inputs, outputs and targets, as a loop tells them or as they are found."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from debuggers.host_arrays.graph_capture import is_capturing
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.signals.agreement import Aligned, agreement, align
from debuggers.signals.batch_memory import BatchMemory, Limit
from debuggers.signals.batch_statistics import (
    Statistics,
    TargetColumns,
    input_statistics,
    output_statistics,
    target_statistics,
)
from debuggers.signals.deferred_values import DeferredValues
from debuggers.signals.duplicate_rows import compare_duplicates
from debuggers.signals.evaluations import EvaluationSignals
from debuggers.signals.sampling import usable, with_sign
from debuggers.signals.signal_log import SignalLog
from debuggers.signals.single_values import SingleValues
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

NON_FINITE_INPUTS = "inputs/non_finite"
MOST_COMPARED = 16
"""Targets of a step's passes that are held until its end, for what a loop may tell of the last of them."""
MOST_HELD = 1 << 22
"""Elements of an output that are held until its targets are known: of larger ones, some rows."""


class BatchSignals:
    """Describes one batch of each sampled step; of tensors only statistics leave the step.

    Of what is found by itself the first counts, of what a loop tells the last, which takes the place of what was found.
    But of as many values, those that the loss itself compares count: a loop may tell them in another unit.

    Attributes:
        constant_loss: What a constant output's loss is, as far as that is known; None before the first batch.
        evaluations: Takes the calls without gradients.
    """

    def __init__(self, log: SignalLog, arrivals: ArrivalQueue) -> None:
        self._log, self._arrivals = log, arrivals
        self._memory = BatchMemory()
        self.constant_loss: float | None = None
        self._loss_kind, self._loss_classes = "", 0
        self._loss_limit: Limit = 1.0
        self.evaluations = EvaluationSignals(log, arrivals, self._memory)
        self._seen = _Seen()
        self._non_finite = 0
        """Values of other calls than that which was looked at."""
        self._waiting: tuple[int, _Seen] | None = None

    def forget(self) -> None:
        """Drops what was seen since the last step."""
        self._seen = _Seen()

    def see(
        self,
        *,
        inputs: Any = None,
        outputs: Any = None,
        targets: Any = None,
        loss_kind: str = "",
        loss_limit: Limit = 1.0,
        loss_classes: int = 0,
        pairs: Mapping[str, torch.Tensor | None] | None = None,
        told: bool = False,
    ) -> None:
        """Takes tensors or nests of them; what holds no plain real values is left out.

        Args:
            inputs: What the model was given.
            outputs: What it returned, or what its loss compares with the targets.
            targets: What the loss compares with the outputs.
            loss_kind: A kind of ``LossFacts``; ``""`` if it is not known; then that of the steps before.
            loss_limit: The ``limit`` of ``LossFacts``, or its ``levels``, of a kind that is known.
            loss_classes: How many classes the loss chooses from; 0 if it is not known; then as at the steps before.
            pairs: Signals of a loss of pairs, 0-d, and as ``tie`` what it is where all outputs are equal, if that is
                its baseline.
            told: Whether the loop itself tells them.
        """
        if is_capturing():
            return
        self._seen.ordering |= {name: value for name, value in (pairs or {}).items() if value is not None}
        if loss_kind:
            self._loss_kind, self._loss_limit = loss_kind, loss_limit
            self.evaluations.loss_kind = loss_kind
        self._loss_classes = loss_classes or self._loss_classes
        if inputs is not None and (told or not self._seen.inputs):
            self._see_inputs([value for tensor in tensors_in(inputs) if (value := usable(tensor)) is not None])
        goals = next((with_sign(one) for tensor in tensors_in(targets) if (one := usable(tensor)) is not None), None)
        if told and goals is not None and self._seen.compared and _are_values(goals, self._seen.compared[0]):
            return
        if goals is not None and not told:
            self._seen.compared = [*self._seen.compared, goals][:MOST_COMPARED]
            if self._seen.columns is not None:  # of a later pass of the step, as of a micro-batch
                return
        self._seen.singles.see_outputs(outputs)
        if outputs is not None and (output := _first_output(outputs)) is not None:
            if told or not self._seen.outputs:
                with quiet_computation(output.device.type):
                    self._seen.outputs = output_statistics(output)
            # What is given together with targets is aligned with them, and what a model returns need not be.
            if targets is not None or self._seen.held is None or told:
                self._seen.held = self._hold(output)
                self._seen.agreement = {}
        if goals is not None and (told or self._seen.columns is None):
            self._see_targets(goals)

    def drop(self, *, inputs: bool = False, outputs: bool = False) -> None:
        """Drops inputs or outputs of the coming step that were found by themselves and are not the batch's."""
        if inputs:
            self._seen.inputs, self._seen.batch_size, self._seen.singles = {}, None, SingleValues()
        if outputs:
            self._seen.outputs, self._seen.held, self._seen.agreement = {}, None, {}

    def see_further(self, inputs: Any) -> None:
        """Takes what a further pass of the step is given: an input may be one number in the first alone."""
        self._seen.singles.see_further(inputs)

    def add_non_finite(self, count: int) -> None:
        """Adds NaN and infinite values of another call since the last step, of which nothing else was looked at."""
        self._non_finite += count

    def end_step(self, step: int) -> None:
        """Ends a sampled step: keeps and emits what was seen, as soon as it is on the host."""
        self._compare()
        values = (
            self._seen.inputs | self._seen.outputs | self._seen.targets | self._seen.agreement | self._seen.ordering
        )
        values |= self._seen.singles.statistics()
        self._add_others(values)
        if self._seen.columns is not None:
            values |= {"rows": self._seen.columns.rows, "columns": self._seen.columns.sums}
            if self._seen.columns.counts is not None:
                values["counts"] = self._seen.columns.counts
            if self._seen.columns.values is not None:
                values["values"] = self._seen.columns.values
        loss = (self._loss_kind if self._compares_classes() else "contrast"), self._loss_limit
        self.forget()
        if values:
            deferred = DeferredValues(values)
            self._arrivals.push(deferred, partial(self._take, step, time.time_ns(), loss, deferred))

    def end_without_step(self, step: int) -> None:
        """Keeps of a batch that led to no step whether it is finite, if its inputs are not: that may have ended it."""
        seen = self._seen.inputs | self._seen.outputs
        self._add_others(seen)
        self.forget()
        values = {name: seen[name] for name in (NON_FINITE_INPUTS, "outputs/non_finite") if name in seen}
        if values:
            deferred = DeferredValues(values)
            self._arrivals.push(deferred, partial(self._take_broken, step, time.time_ns(), deferred))

    def wait(self, step: int) -> None:
        """Ends a sampled step of which the loop may tell more: what was seen is kept until ``complete``."""
        self._compare()
        self._waiting, self._seen = (step, self._seen), _Seen()

    def complete(self, told: Mapping[str, Any]) -> None:
        """Ends the step that waits, if one does, with what the loop told of it: inputs, outputs, targets."""
        if self._waiting is None:
            return
        coming, (step, self._seen), self._waiting = self._seen, self._waiting, None
        try:
            if told:
                self.see(**told, told=True)
            self.end_step(step)
        finally:
            self._seen = coming

    def _add_others(self, values: Statistics) -> None:
        if self._non_finite:
            values[NON_FINITE_INPUTS] = values.get(NON_FINITE_INPUTS, 0.0) + self._non_finite
            self._non_finite = 0

    def _see_inputs(self, tensors: list[torch.Tensor]) -> None:
        # Those on another device, such as lengths on the host, say little, and would have to be copied.
        device = next((tensor.device for tensor in tensors if tensor.ndim), None)
        tensors = [tensor for tensor in tensors if tensor.device == device]
        if tensors:
            with quiet_computation(tensors[0].device.type):
                self._seen.inputs = input_statistics(tensors)
                self._seen.singles = SingleValues(tensors)
            size = self._seen.inputs.get("inputs/batch_size")
            self._seen.batch_size = int(size) if isinstance(size, float) else None

    def _see_targets(self, tensor: torch.Tensor) -> None:
        self._seen.goals = tensor
        with quiet_computation(tensor.device.type):
            classes = None if self._seen.held is None else _classes(self._seen.held[0], tensor)
            if classes is not None and self._loss_classes:  # similarities, say, of which a batch has as many as rows
                classes = self._loss_classes
            self._seen.targets, self._seen.columns = target_statistics(tensor, self._seen.batch_size, classes)
            rows = self._seen.inputs.get("inputs/rows")
            if isinstance(rows, torch.Tensor) and len(rows) == tensor.numel() and rows.device == tensor.device:
                self._seen.targets |= compare_duplicates(rows, tensor.reshape(-1))
            self._seen.agreement = {}
        # Outputs that were told, or come with their loss, are there by now.
        self._compare()

    def _compare(self) -> None:
        if self._seen.held is None or self._seen.goals is None or self._seen.agreement:
            return
        outputs, stride = self._seen.held
        goals = self._seen.goals[::stride] if stride > 1 and self._seen.goals.ndim else self._seen.goals
        with quiet_computation(outputs.device.type):
            aligned = align(outputs, goals, soft=self._loss_kind == "cross_entropy")
            if aligned is not None and self._has_classes(aligned):
                self._seen.agreement = agreement(aligned, self._loss_kind)
                if (others := self._differ()) is not None:
                    self._seen.agreement = {
                        name: torch.where(others, torch.nan, value) for name, value in self._seen.agreement.items()
                    }

    def _differ(self) -> torch.Tensor | None:
        """Whether the classes that a loop tells are others than those that its losses compare, as before a shift.

        None where that is not known.
        """
        told, compared = self._seen.goals, self._seen.compared
        if told is None or not compared or any(told is one for one in compared):
            return None
        others = [one for one in compared if one.device == told.device and one.numel() == told.numel()]
        if told.is_floating_point() or not others or any(one.is_floating_point() for one in others):
            return None
        differ = [(told.reshape(-1) != one.reshape(-1)).any() for one in others]
        return differ[0] if len(differ) == 1 else torch.stack(differ).all()

    def _has_classes(self, aligned: Aligned) -> bool:
        """Whether outputs are what the loss chooses from: a contrastive loss has made similarities of embeddings."""
        return not aligned.by_class or self._loss_classes in (0, aligned.outputs.shape[1])

    def _compares_classes(self) -> bool:
        """Whether what is told of a loss of classes are its classes: labels may say which rows are alike instead."""
        held, goals = self._seen.held, self._seen.goals
        if held is None or goals is None or not self._loss_classes or goals.is_floating_point():
            return True
        shape = held[0].shape  # of sequences, classes may stand last
        return goals.ndim >= len(shape) or len(shape) < 2 or self._loss_classes in (shape[1], shape[-1])

    def _hold(self, output: torch.Tensor) -> tuple[torch.Tensor, int] | None:
        if output.numel() <= MOST_HELD:
            return output, 1
        stride = min(-(-output.numel() // MOST_HELD), output.shape[0])
        if output.numel() // output.shape[0] > 4 * MOST_HELD:
            return None
        with quiet_computation(output.device.type):
            return output[::stride].clone(), stride  # a view would keep all of it

    def _take_broken(self, step: int, time_ns: int, deferred: DeferredValues) -> None:
        counts = {name: float(count) for name, count in deferred.resolve().items()}
        if counts.get(NON_FINITE_INPUTS):
            self._log.put(step, counts, time_ns)

    def _take(self, step: int, time_ns: int, loss: tuple[str, Limit], deferred: DeferredValues) -> None:
        arrays = deferred.resolve()
        rows, columns, counts, goals = (arrays.pop(name, None) for name in ("rows", "columns", "counts", "values"))
        numbers = arrays.pop("inputs/rows", None)
        values = {name: float(value) for name, value in arrays.items()}
        fingerprint = values.pop("inputs/fingerprint", None)
        if numbers is not None:
            values["inputs/rows_so_far"], values["inputs/repeated_rows"] = self._memory.rows(numbers)
        if fingerprint is not None:
            values["inputs/repeated"] = float(self._memory.is_repeated(fingerprint))
        if rows is not None and columns is not None:
            if goals is not None:
                self._memory.keep(goals)
            values |= self._memory.targets(rows, columns, np.zeros(0) if counts is None else counts)
            values["baseline_loss"] = self._memory.baseline(*loss, tie=values.pop("tie", np.nan))
        elif "tie" in values:
            values["baseline_loss"] = values.pop("tie")
        self.constant_loss = values.get("baseline_loss", self.constant_loss or np.nan)
        self._log.put(step, values, time_ns)


@dataclass(slots=True)
class _Seen:
    """What was seen of the batch of one step."""

    inputs: Statistics = field(default_factory=dict)
    singles: SingleValues = field(default_factory=SingleValues)
    outputs: Statistics = field(default_factory=dict)
    targets: Statistics = field(default_factory=dict)
    columns: TargetColumns | None = None
    agreement: Statistics = field(default_factory=dict)
    ordering: Statistics = field(default_factory=dict)
    batch_size: int | None = None
    held: tuple[torch.Tensor, int] | None = None
    goals: torch.Tensor | None = None
    compared: list[torch.Tensor] = field(default_factory=list)


def _are_values(goals: torch.Tensor, others: torch.Tensor) -> bool:
    """Whether two are as many values, and no classes: of one and the same rows."""
    if goals.device != others.device or goals.numel() != others.numel():
        return False
    return goals.is_floating_point() and others.is_floating_point()


def _first_output(outputs: Any) -> torch.Tensor | None:
    """The first floating-point tensor; one without dimensions, as a loss beside logits, only if there is no other."""
    found = [value for tensor in tensors_in(outputs) if (value := usable(tensor)) is not None]
    floats = [value for value in found if value.is_floating_point()]
    return next((value for value in floats if value.ndim), floats[0] if floats else None)


def _classes(output: torch.Tensor, targets: torch.Tensor) -> int | None:
    """How many classes an output has, if targets are their indices."""
    if targets.is_floating_point() or output.numel() <= targets.numel() or not targets.numel():
        return None
    return output.numel() // targets.numel() if output.numel() % targets.numel() == 0 else None
