"""What a loss curve says: from where to where it went, whether it still falls, stands, swings or has blown up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from tracker_adapters.wording import counted

from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_ELEMENTS, LossFacts
from debuggers.diagnosis.series import Series

FEWEST = 8
"""Points of a loss from which its course is judged."""
EARLY = 10
"""Points that show between which values a loss of both signs begins."""
STANDS = 0.05
"""A loss that fell by less than this share of its range to zero, or to its baseline, has not fallen."""
ONE_SIDED = 1.28
"""Standard errors that a tenth of normal values lie above."""
LITTLE = 0.3
"""Share of what there is to learn, below which little of it was."""
_NOTHING, _MANY = 0.02, 100
"""Share of a constant output's loss below which nothing was learnt, and steps that are enough for more."""
_UNLEARNT = "nothing was learnt:"
BLOWN_UP = 2.0
"""A loss of more than this many times its first value has blown up."""
_OF_ROOTS = frozenset({"l1", "rmse"})
"""Losses in the unit of the targets."""
_COMPARES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", "Pow", "Abs", "Norm")
"""Operators that compare outputs with targets."""
BLOWN_UP_SIGNED = 10.0
"""The same of a loss that is ever negative: its first value may be near zero by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The course of a loss.

    Attributes:
        points: Number of points that it was read from.
        first: Median of the first points (at most 3), before training has done much.
        last: Median of the last fifth.
        lowest: Lowest running median of five.
        highest: Largest finite value.
        noise: Typical distance of neighbouring values from each other in the last half, from their median.
        fell: ``(first - last) / |first|``; negative if it rose.
        learnt: ``1 - last / baseline``, where the loss of the best constant output is known, else ``fell``: a first
            loss that was far too high falls without anything being learnt. Of losses in the unit of the targets,
            their squares, so that it is near the share of the variance that is explained. Of targets with label
            smoothing, both without the entropy of a target, which is the least that the loss can be.
        fell_at_end, learnt_at_end: The same of the median of the last tenth (at least 3): more, where the loss still
            falls fast.
        late_fall: The part of the whole fall that came in the last third of the steps: 1/3 for a straight line.
        late_error: Its standard error, by the noise.
        became_non_finite: The first step with NaN or infinity; None if there is none.
        blew_up: The first of five steps whose median is more than twice the first loss (ten times if the loss is ever
            negative), if it ended above the first loss by more than its noise, and one that is ever negative above all
            of its first ten values; else None.
        swings: Share of steps at which the loss turns, up after down or down after up; 2/3 for noise.
    """

    points: int
    first: float
    last: float
    lowest: float
    highest: float
    noise: float
    fell: float
    learnt: float
    fell_at_end: float
    learnt_at_end: float
    late_fall: float
    late_error: float
    became_non_finite: int | None
    blew_up: int | None
    swings: float

    @property
    def stands(self) -> bool:
        """Whether the loss has not fallen."""
        return abs(self.fell) < STANDS

    @property
    def falls_late(self) -> bool:
        """Whether the loss fell in the last third of the steps by more than nine tenths of those that stand would."""
        return self.late_fall > ONE_SIDED * self.late_error

    @property
    def rose(self) -> bool:
        """Whether the loss ends above where it began, by more than its noise."""
        return self.fell < -STANDS and self.last - self.first > self.noise

    @property
    def failed(self) -> bool:
        """Whether the loss has blown up, or is not finite any more."""
        return self.became_non_finite is not None or self.blew_up is not None


_KNOWN: WeakKeyDictionary[Evidence, dict[str, Progress | None]] = WeakKeyDictionary()
"""The courses of losses, as long as their evidence is there: half of the rules ask for the same one."""


def progress_of(evidence: Evidence, name: str = "loss") -> Progress | None:
    """Returns the course of the training loss; None if it has fewer than 8 points.

    None also for a model that is trained against another one, as how its loss goes depends on both, and for a cross
    entropy over ever more classes.
    """
    known = _KNOWN.setdefault(evidence, {})
    if name not in known:
        known[name] = _progress_of(evidence, name)
    return known[name]


def _progress_of(evidence: Evidence, name: str) -> Progress | None:
    series = evidence[name]
    if len(series) < FEWEST or evidence.facts.trained_with_others:
        return None
    loss = evidence.facts.loss
    if loss is not None and loss.classes_grow:
        return None
    power = 2 if loss is not None and loss.kind in _OF_ROOTS else 1
    return _course(series, known_baseline(evidence), power, least_loss(evidence))


def least_loss(evidence: Evidence) -> float:
    """Returns the loss of the best outputs under label smoothing, the entropy of one of its targets; else 0."""
    loss = evidence.facts.loss
    if loss is None or loss.kind != "cross_entropy" or not 0 < loss.smoothing < 1 or len(loss.outputs_shape) < 2:
        return 0.0
    classes = loss.outputs_shape[1]
    if classes < 2 or loss.terms > 1 or loss.weighted or loss.penalized or loss.reduction != "mean":
        return 0.0
    right, wrong = smoothed(classes, loss.smoothing)
    return -(right * math.log(right) + (classes - 1) * wrong * math.log(wrong)) * abs(loss.factor)


def adds_up_features(loss: LossFacts) -> bool:
    """Whether errors are added up over the outputs of a row, as in ``square().sum(1).mean()``: no mean of them all."""
    several = math.prod(loss.outputs_shape[1:]) > 1
    behind = takewhile(lambda node: not node.startswith(_COMPARES), loss.nodes)  # a model may end in a sum itself
    return several and loss.kind in OF_ELEMENTS and any(node.startswith("Sum") for node in behind)


def known_baseline(evidence: Evidence) -> float | None:
    """Returns the loss of the best constant output; None where it cannot be compared with the loss."""
    known, loss = evidence["baseline_loss"].finite, evidence.facts.loss
    if not len(known) or loss is None or loss.reduction != "mean" or loss.penalized or loss.weighted or loss.terms > 1:
        return None
    if adds_up_features(loss):
        return None
    # Of passes that are divided by their number, the recorded loss is the sum.
    is_divided = abs(abs(loss.factor) * evidence.facts.backward_passes - 1) < 1e-6
    level = known.late(3).median() * (1.0 if is_divided else abs(loss.factor))
    return level if level > 0 and not loss.negated else None


def smoothed(classes: int, smoothing: float) -> tuple[float, float]:
    """Returns what label smoothing leaves of a target's class, and what it gives each other one."""
    wrong = smoothing / classes
    return 1 - smoothing + wrong, wrong


def _course(series: Series, baseline: float | None, power: int, least: float) -> Progress:
    finite = series.finite
    broken = np.flatnonzero(~np.isfinite(series.values))
    non_finite = int(series.steps[broken[0]]) if len(broken) else None
    values = finite.values
    if len(values) < 3:
        known = float(values[0]) if len(values) else math.nan
        return Progress(
            points=len(series),
            first=known,
            last=math.nan,
            lowest=known,
            highest=known,
            noise=0.0,
            fell=-math.inf,
            learnt=-math.inf,
            fell_at_end=-math.inf,
            learnt_at_end=-math.inf,
            late_fall=0.0,
            late_error=0.0,
            became_non_finite=non_finite,
            blew_up=None,
            swings=0.0,
        )
    first = float(np.median(values[: min(3, max(1, len(values) // 8))]))
    last = float(np.median(values[-max(3, len(values) // 5) :]))
    end = float(np.median(values[-max(3, len(values) // 10) :]))
    changes = np.diff(values)
    noise = float(np.median(np.abs(changes[len(changes) // 2 :])))
    scale = max(abs(first), 1e-12)

    def learnt(level: float) -> float:
        if baseline is None or baseline <= least:
            return (first - level) / scale
        return 1 - ((level - least) / (baseline - least)) ** power

    typical = _running_median(values)
    late_fall, late_error = _late_fall(values, noise)
    times = BLOWN_UP if typical.min() >= 0 else BLOWN_UP_SIGNED
    # One of both signs may begin near zero by chance: it ends above what it began with by more than that.
    ends_above = last - first > noise and (times == BLOWN_UP or last > float(values[:EARLY].max()))
    above = np.flatnonzero(typical > first + (times - 1) * scale)
    return Progress(
        points=len(series),
        first=first,
        last=last,
        lowest=float(typical.min()),
        highest=float(values.max()),
        noise=noise,
        fell=(first - last) / scale,
        learnt=learnt(last),
        fell_at_end=(first - end) / scale,
        learnt_at_end=learnt(end),
        late_fall=late_fall,
        late_error=late_error,
        became_non_finite=non_finite,
        blew_up=int(finite.steps[above[0]]) if len(above) and ends_above else None,
        swings=float(np.mean(changes[1:] * changes[:-1] < 0)) if len(changes) > 1 else 0.0,
    )


def _running_median(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    width = min(5, len(values))
    return np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)


def _late_fall(values: npt.NDArray[np.float64], noise: float) -> tuple[float, float]:
    """The share of the fall that came in the last third, and its standard error; 0 where it did not fall.

    It is the difference of the medians of two ninths. That of n normal values has the standard error 1.25 σ / √n, and
    neighbours differ by 0.95 σ in the median.
    """
    parts = np.array_split(values, 9)
    medians = [float(np.median(part)) for part in parts if len(part)]
    whole = medians[0] - medians[-1]
    if len(medians) < 9 or whole <= 0:
        return 0.0, 0.0
    return (medians[-4] - medians[-1]) / whole, 1.31 * noise * math.sqrt(2 / len(parts[-1])) / whole


def is_of_whole_loss(evidence: Evidence) -> bool:
    """Whether the loss of a constant output is known, and no further term of the loss comes on top of it."""
    loss = evidence.facts.loss
    return len(evidence["baseline_loss"]) > 0 and (loss is None or (loss.terms < 2 and not loss.penalized))


def constant_level(evidence: Evidence, progress: Progress) -> float:
    """Returns the loss of a constant output; the first loss where that is not known, or of one term alone."""
    level = evidence["baseline_loss"].finite.median(0.0)
    return level if level > 0 and is_of_whole_loss(evidence) else progress.first


def nothing_learnt(evidence: Evidence, causes: Sequence[Cause]) -> tuple[str, ...]:
    """Returns a phrase of a training that has learnt nothing, if no cause says why, and its session has not said so.

    It is what nobody has an answer to yet, and no sign of health.
    """
    progress, baseline = progress_of(evidence), known_baseline(evidence)
    if causes or progress is None or baseline is None or progress.failed or evidence.facts.trained_with_others:
        return ()
    learns = progress.learnt >= _NOTHING or progress.learnt_at_end >= _NOTHING
    if progress.points < _MANY or learns or not is_of_whole_loss(evidence):
        return ()
    if any(gap.startswith(_UNLEARNT) for gap in evidence.facts.gaps):
        return ()
    return (
        f"{_UNLEARNT} after {counted(progress.points, 'steps')} the loss is {progress.last:.4g}, that of a constant "
        f"output is {baseline:.4g}",
    )
