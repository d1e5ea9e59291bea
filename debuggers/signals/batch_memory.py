"""What is remembered of the batches: which there were, and how their targets are distributed."""

import math
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from debuggers.signals.deferred_values import Floats

Limit = float | tuple[float, ...]
"""The ``limit`` of ``LossFacts``; of a loss of quantiles its ``levels``."""
MOST_BATCHES = 512
MOST_ROWS = 1 << 16
MOST_VALUES = 4096
_BY_CHANCE = 0.02
"""Share of rows that a data set may have twice."""
_CANCELLED = 1e-12
"""Share of the mean square from which a variance is more than rounding errors of float64 sums."""
_ENTROPIES = frozenset({"cross_entropy", "nll"})
_ABSOLUTE = frozenset({"l1", "smooth_l1", "huber"})
_BINARY = frozenset({"bce", "bce_with_logits"})


class BatchMemory:
    """Describes the sampled batches so far, in bounded memory."""

    def __init__(self) -> None:
        self._seen: OrderedDict[float, None] = OrderedDict()
        self._known = np.zeros(0)
        self._share_known = 0.0
        self._values = np.zeros((0, 0))
        self._rows = np.zeros(3)
        self._columns = np.zeros((3, 0))
        self._counts = np.zeros(0)
        self._batches, self._mean, self._m2 = 0, 0.0, 0.0

    def is_repeated(self, fingerprint: float) -> bool:
        """Whether one of the last 512 fingerprints was the same."""
        repeated = fingerprint in self._seen
        self._seen[fingerprint] = None
        self._seen.move_to_end(fingerprint)
        if len(self._seen) > MOST_BATCHES:
            self._seen.popitem(last=False)
        return repeated

    def rows(self, numbers: Floats) -> tuple[float, float]:
        """Returns how many different rows are remembered, at most 65,536, and which share of these was before."""
        before = self._are_known(numbers)
        if len(self._known) < MOST_ROWS:
            # Without the counts NumPy imports its masked arrays, which takes 15 ms of the first step.
            new, _ = np.unique(numbers[~before], return_counts=True)
            self._known = np.insert(self._known, np.searchsorted(self._known, new), new)
        self._share_known = float(before.mean())
        return float(len(self._known)), self._share_known

    def were_trained_on(self, numbers: Floats) -> bool:
        """Whether rows are those of the training: nearly as many of them are remembered as of the last batch's."""
        share = float(self._are_known(numbers).mean())
        return share > _BY_CHANCE and share > self._share_known / 2

    def _are_known(self, numbers: Floats) -> npt.NDArray[np.bool_]:
        """Which numbers are remembered: they lie in order, so that each batch of a validation need not sort them."""
        if not len(self._known):
            return np.zeros(len(numbers), np.bool_)
        places = np.minimum(np.searchsorted(self._known, numbers), len(self._known) - 1)
        are_known: npt.NDArray[np.bool_] = self._known[places] == numbers
        return are_known

    def targets(self, rows: Floats, columns: Floats, counts: Floats) -> dict[str, float]:
        """Takes the targets of a batch, as ``TargetColumns`` describes them, and returns the signals of all so far."""
        self._rows = self._rows + rows
        self._columns = self._columns + columns if self._columns.shape == columns.shape else columns
        known = np.zeros(max(len(counts), len(self._counts)))
        known[: len(self._counts)] += self._counts
        known[: len(counts)] += counts
        self._counts = known
        found = self._between(rows)
        present = known[known > 0]
        if len(present):
            found["targets/classes_so_far"] = float(len(present))
            found["targets/top_share_so_far"] = float(present.max() / present.sum())
            found["targets/rarest_share_so_far"] = float(present.min() / present.sum())
        return found

    def keep(self, values: Floats) -> None:
        """Takes rows of targets that are values; the first 4,096 of all are remembered."""
        if self._values.shape[1] != values.shape[1]:
            self._values = np.zeros((0, values.shape[1]))
        if len(self._values) < MOST_VALUES:
            self._values = np.concatenate([self._values, values[np.isfinite(values).all(1)]])

    def baseline(self, loss_kind: str, limit: Limit = 1.0, *, tie: float = np.nan) -> float:
        """Returns the loss of the best constant output, in nats or squared units of the targets; NaN if unknown.

        For targets that are class indices the entropy of the classes, unless the loss is another one; for binary
        cross-entropy, and for soft margins, the mean of the columns' entropies; for the mean squared error the mean of
        their variances; for absolute, Huber and smooth L1 losses, with the ``limit`` of ``LossFacts``, and for those of
        quantiles, with its ``levels``, the mean of the columns' least losses over the targets remembered; for the hinge
        loss of one score, which is ``tie`` for scores of 0, that or the loss of always the more frequent of 1 and -1;
        for that of several classes, with a margin of 1, that of equal scores, or of one class that is first.
        """
        number, total, squares = self._columns
        with np.errstate(invalid="ignore", divide="ignore"):
            means = total / number
            if loss_kind in _BINARY:
                return float(np.mean(_entropy(means) + _entropy(1 - means)))
            if loss_kind == "hinge":
                return tie * float(np.mean(np.minimum(1.0, 1 - np.abs(means))))
            if loss_kind == "soft_margin":  # of targets of 1 and -1
                return float(np.mean(_entropy((1 + means) / 2) + _entropy((1 - means) / 2)))
            if loss_kind in ("mse", "rmse"):
                variances = squares / number - np.square(means)
                # What cancellation leaves of constant targets is no error.
                error = float(np.mean(np.where(variances > _CANCELLED * squares / number, variances, 0.0)))
                return error if loss_kind == "mse" else float(np.sqrt(error))
            if isinstance(limit, tuple):
                return _of_quantiles(self._values, limit) if loss_kind == "quantile" and len(self._values) else np.nan
            if loss_kind in _ABSOLUTE and len(self._values):
                return float(np.mean([_least(column, loss_kind, limit) for column in self._values.T]))
            if loss_kind == "multi_margin":
                shares = self._counts[self._counts > 0] / max(1.0, self._counts.sum())
                return float(min(1 - 1 / len(shares), 1 - shares.max())) if len(shares) > 1 else np.nan
            if len(self._counts) > 1 and loss_kind in _ENTROPIES | {""}:
                return float(_entropy(self._counts / self._counts.sum()).sum())
            if loss_kind in _ENTROPIES and len(means) > 1:
                return float(_entropy(means / means.sum()).sum())
        return np.nan

    def _between(self, rows: Floats) -> dict[str, float]:
        number, total, _ = rows
        if not number or not np.isfinite(total):
            return {}
        mean = total / number
        self._batches += 1
        step = mean - self._mean
        self._mean += step / self._batches
        self._m2 += step * (mean - self._mean)
        count, everything, squares = self._rows
        spread = squares / count - (everything / count) ** 2
        if self._batches < 2 or not spread > 0:
            return {}
        expected = spread / (count / self._batches)
        return {"targets/between_batches": self._m2 / (self._batches - 1) / expected}


def _entropy(shares: Floats) -> Floats:
    """-p log p of each share."""
    return -shares * np.log(np.where(shares > 0, shares, 1.0))


def _of_quantiles(values: Floats, levels: tuple[float, ...]) -> float:
    """The mean loss of the columns' quantiles; NaN where levels are not one for each of them, or one for all."""
    each = np.broadcast_to(levels, values.shape[1]) if len(levels) in (1, values.shape[1]) else np.full(0, np.nan)
    if not len(each):
        return math.nan
    errors = values - [np.quantile(column, level) for column, level in zip(values.T, each, strict=True)]
    return float(np.maximum(each * errors, (each - 1) * errors).mean())


def _least(values: Floats, loss_kind: str, limit: float) -> float:
    """The mean loss of the best constant: the median, or for Huber's what lies between it and the mean."""
    middle, mean = float(np.median(values)), float(values.mean())
    if loss_kind == "l1" or limit <= 0:
        return float(np.abs(values - middle).mean())
    distances = (np.abs(values - constant) for constant in np.linspace(middle, mean, 9))
    least = min(np.where(one < limit, one**2 / 2, limit * (one - limit / 2)).mean() for one in distances)
    return float(least if loss_kind == "huber" else least / limit)
