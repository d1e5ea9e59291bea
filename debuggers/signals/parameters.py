"""Signals of parameters: a few elements of weights, gradients and updates, and what is computed of them on the host."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from debuggers.gradients.element_samples import SAMPLES, sample_all, sample_elements
from debuggers.gradients.parameters import Gradients
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.signals.deferred_values import DeferredElements, Floats, cosine
from debuggers.signals.signal_log import SignalLog
from debuggers.signals.weight_norm import WeightNorm
from debuggers.torch_import import torch

_NARROW = frozenset([torch.bfloat16, torch.float16])


def _elements_of(
    found: Gradients, early: Mapping[int, torch.Tensor | None], *, sampled: bool
) -> tuple[Sequence[int], Sequence[torch.Tensor] | Floats, Sequence[torch.Tensor] | Floats]:
    """The places of the parameters that have samples, those of their gradients, and if ``sampled`` of their weights.

    ``early`` has those of weights that have moved already, by the parameter's identity.
    """
    slopes = sample_all(found.tensors)
    if slopes is not None and not sampled:
        return range(len(found.names)), slopes, []
    before = None if slopes is None or early else sample_all(found.parameters)
    if slopes is not None and before is not None:
        return range(len(found.names)), slopes, before
    places, gradients, weights = [], [], []
    for place, (parameter, gradient) in enumerate(zip(found.parameters, found.tensors, strict=True)):
        weight, slope = None, sample_elements(gradient)
        if sampled:
            weight = early[id(parameter)] if id(parameter) in early else sample_elements(parameter)
        if slope is not None and (weight is not None or not sampled):
            places.append(place)
            gradients.append(slope)
            if weight is not None:
                weights.append(weight)
    return places, gradients, weights


@dataclass(slots=True, eq=False)
class _Moment:
    """What was taken at one step."""

    step: int
    count: int
    time_ns: int
    sampled: bool
    names: tuple[str, ...]
    parameters: list[torch.Tensor]
    starts: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.intp]
    factors: Floats  # how many elements of the tensor one of the sample stands for
    narrow: npt.NDArray[np.bool_] | None  # which tensors are of 16 bits; None for none
    gradients: DeferredElements
    before: DeferredElements | None
    scale: DeferredTensor | None
    zeros: dict[str, float] | None
    after: DeferredElements | None = None

    def ready(self) -> bool:
        parts = (self.gradients, self.before, self.scale, self.after)
        return all(part is None or part.ready() for part in parts)


class ParameterSignals:
    """Takes at most 64 elements of each parameter and gradient at sampled steps, and of gradients at the ones after.

    All totals weigh an element by how many it stands for.
    """

    def __init__(self, log: SignalLog, arrivals: ArrivalQueue) -> None:
        self._log, self._arrivals = log, arrivals
        self._current: _Moment | None = None
        self._last: tuple[int, tuple[str, ...], Floats] | None = None
        self._early: dict[int, torch.Tensor | None] = {}
        self._norm = WeightNorm()

    def see_before(self, parameters: Iterable[torch.Tensor]) -> None:
        """Takes weights that the step changes before ``see`` is called, as one of several optimizers does."""
        with quiet_computation("cpu"):
            self._early |= {id(parameter): sample_elements(parameter) for parameter in parameters}

    def see(
        self,
        step: int,
        count: int,
        found: Gradients,
        scale: torch.Tensor | None,
        zeros: dict[str, float] | None,
        *,
        sampled: bool,
    ) -> None:
        """Takes a step, before the optimizer changes the weights.

        Args:
            step: The training step.
            count: How many came before it.
            found: The gradients.
            scale: The loss scale that is still in them.
            zeros: The exact share of zeros of each gradient, where they were measured.
            sampled: Whether all of it is wanted; else only what the cosine with the step before needs.
        """
        self.end_step()
        with quiet_computation("cpu"):
            early, self._early = self._early, {}
            places, gradients, weights = _elements_of(found, early, sampled=sampled)
            if not len(gradients):
                return
            whole = len(places) == len(found.names)
            names = found.names if whole else tuple(found.names[place] for place in places)
            parameters = [found.parameters[place] for place in places]
            numels = np.array([parameter.numel() for parameter in parameters])
            is_gathered = isinstance(gradients, np.ndarray)
            sizes = np.minimum(numels, SAMPLES) if is_gathered else np.array([one.numel() for one in gradients])
            self._current = _Moment(
                step,
                count,
                time.time_ns(),
                sampled,
                names,
                parameters,
                np.cumsum(sizes) - sizes,
                sizes,
                numels / sizes,
                _narrow(parameters) if sampled else None,
                DeferredElements(gradients),
                DeferredElements(weights) if sampled else None,
                None if scale is None else DeferredTensor(scale),
                zeros,
            )
        if not sampled:
            self.end_step()

    def see_update(self) -> None:
        """Says that the optimizer has changed the weights."""
        moment = self._current
        if moment is None:
            return
        with quiet_computation("cpu"):
            gathered = sample_all(moment.parameters)
            if gathered is None:
                samples = [sample_elements(parameter) for parameter in moment.parameters]
                values = [sample for sample in samples if sample is not None]
                moment.after = DeferredElements(values) if len(values) == len(moment.names) else None
            elif gathered.size == moment.sizes.sum():
                moment.after = DeferredElements(gathered)
        self.end_step()

    def end_step(self) -> None:
        """Says that what was taken of the last step is all there is of it."""
        moment, self._current = self._current, None
        if moment is not None:
            moment.parameters = []
            self._arrivals.push(moment, partial(self._take, moment))

    def forget(self) -> None:
        """Drops a step that turned out to be none."""
        self._current = None

    def _take(self, moment: _Moment) -> None:
        gradients = moment.gradients.resolve()
        if moment.scale is not None:
            gradients = gradients / float(moment.scale.resolve())
        factors = np.repeat(moment.factors, moment.sizes)
        totals: dict[str, float] = {}
        last, self._last = self._last, (moment.count, moment.names, gradients)
        with np.errstate(all="ignore"):
            if last is not None and last[:2] == (moment.count - 1, moment.names) and len(last[2]) == len(gradients):
                totals["gradient_cosine"] = cosine(gradients, last[2], factors)
            if moment.sampled and moment.before is not None:
                before = moment.before.resolve()
                after = None if moment.after is None else moment.after.resolve()
                self._take_tensors(moment, gradients, before, after)
                squares = np.add.reduceat(np.square(before) * factors, moment.starts)
                moved = None if after is None else np.add.reduceat(np.square(after) * factors, moment.starts)
                totals["weight_norm"] = self._norm.take(moment.names, squares, moved)
                totals |= _totals(gradients, before, after, factors)
                if after is not None and moment.narrow is not None:
                    counted = factors * np.repeat(moment.narrow, moment.sizes) * (gradients != 0)
                    totals["rounded_away"] = _mean(after == before, counted)
        self._log.put(moment.step, totals, moment.time_ns)

    def _take_tensors(self, moment: _Moment, gradients: Floats, before: Floats, after: Floats | None) -> None:
        def means(values: Floats) -> Floats:
            return np.add.reduceat(values, moment.starts) / moment.sizes

        def put(signal: str, values: Floats) -> None:
            self._log.put_tensors(moment.step, signal, moment.names, values, moment.time_ns)

        norms = means(np.square(before))
        put("weight_rms", np.sqrt(norms))
        put("gradient_rms", np.sqrt(means(np.square(gradients))))
        zeros = means((gradients == 0).astype(np.float64))
        if moment.zeros is not None:
            zeros = np.array([moment.zeros.get(name, zero) for name, zero in zip(moment.names, zeros, strict=True)])
        put("gradient_zeros", zeros)
        if after is not None:
            # Weights that are all zero make no ratio.
            ratios = np.sqrt(means(np.square(after - before)) / norms)
            known = norms > 0
            names = tuple(name for name, one in zip(moment.names, known.tolist(), strict=True) if one)
            names = moment.names if len(names) == len(moment.names) else names
            self._log.put_tensors(moment.step, "parameter_update_ratio", names, ratios[known], moment.time_ns)


def _totals(gradients: Floats, before: Floats, after: Floats | None, factors: Floats) -> dict[str, float]:
    totals: dict[str, float] = {}
    if after is not None:
        norm = math.sqrt(float(np.sum(np.square(before) * factors)))
        change = after - before
        if norm:
            totals["update_ratio"] = math.sqrt(float(np.sum(np.square(change) * factors))) / norm
        totals["descent_cosine"] = -cosine(change, gradients, factors)
        totals["decay_cosine"] = -cosine(change, before, factors)
    return totals


def _narrow(parameters: Iterable[torch.Tensor]) -> npt.NDArray[np.bool_] | None:
    narrow = np.array([one.dtype in _NARROW for one in parameters])
    return narrow if narrow.any() else None


def _mean(values: npt.NDArray[np.bool_], weights: Floats) -> float:
    """NaN where all weights are zero."""
    total = float(weights.sum())
    return float(values @ weights) / total if total else math.nan
