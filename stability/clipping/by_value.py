"""Clipping of single elements: to a fixed magnitude, or to a percentile of all magnitudes."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tracker_adapters.histograms.layout import SIGN_BIN, left_edges

from debuggers.measurement import measure as measurement
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from stability.clipping.base import Clipped, Clipper, clamp_magnitudes, refuse_shards
from stability.clipping.true_norms import true_total
from stability.gradients.measure import Gradients, Norms, measure


class ValueClipper(Clipper):
    """Clips each element to [-clip_value, clip_value], as ``torch.nn.utils.clip_grad_value_``.

    A complex element keeps its direction and gets a modulus of at most ``clip_value``.
    """

    def measure(self, gradients: Gradients, loss: torch.Tensor | float, summaries: SummaryTable | None = None) -> Norms:
        """Also measures the largest magnitude of each gradient."""
        if summaries is not None:
            norms = super().measure(gradients, loss, summaries)
            return replace(norms, extras=_largest(summaries))
        largest = [_largest_magnitude(tensor) for tensor in gradients.tensors]
        return measure(gradients, loss, self._config.norm_type, math.inf, largest)

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips to ``clip_value``."""
        return _clip_elements(gradients, norms, self._config.clip_value, norms.extras, self._config.norm_type)


class PercentileClipper(Clipper):
    """Clips each element to a percentile of the magnitudes of all elements, zeros included.

    The percentile comes from the histogram of fixed bins, with no sorting: it is within 6.25 % of the exact one, where
    float32 is normal (1.2e-38 to 3.4e38). Where it is zero, nothing is clipped: more zeros than ``percentile`` are no
    reason to wipe out the rest. Of sparse gradients the stored values count, of complex ones the modulus.
    """

    def check(self, gradients: Gradients) -> None:
        """Refuses a sharded gradient: each rank would have a percentile of its own."""
        refuse_shards(gradients, "percentile")

    def measure(self, gradients: Gradients, loss: torch.Tensor | float, summaries: SummaryTable | None = None) -> Norms:
        """Takes norms and the percentile from one pass; a second one where a value is not finite."""
        if summaries is None:
            summaries = measurement.measure(gradients.tensors).resolve()
        norms = super().measure(gradients, loss, summaries)
        threshold = magnitude_percentile(summaries, self._config.percentile)
        return replace(norms, extras=[threshold, *_largest(summaries)])

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips to the percentile of this step."""
        threshold, *largest = norms.extras
        bound = threshold if threshold > 0.0 else math.inf
        clipped = _clip_elements(gradients, norms, bound, largest, self._config.norm_type)
        return replace(clipped, threshold=threshold)


def magnitude_percentile(summaries: SummaryTable, percentile: float) -> float:
    """Returns a percentile of the magnitudes of all finite elements together; 0 where there is none.

    Between two elements it lies on a straight line, as in ``numpy.percentile``; each of them is known within 6.25 %,
    where float32 is normal. Smaller ones count as zero when they are of float64, larger ones as the largest.

    Args:
        summaries: Of tensors of any dtypes.
        percentile: From 0 to 100.
    """
    columns = summaries.columns
    zeros = sum(int(summaries.tally(name).sum()) for name in ("zero", "pos_underflow", "neg_underflow"))
    counts = np.zeros(SIGN_BIN + 2, np.int64)
    counts[0] = zeros
    counts[-1] = summaries.finite_count.sum() - zeros - columns.counts.sum()
    np.add.at(counts, columns.bins.astype(np.int64) % SIGN_BIN + 1, columns.counts)
    passed = np.cumsum(counts)
    if not passed[-1]:
        return 0.0
    rank = percentile / 100.0 * float(passed[-1] - 1)
    low, high = np.searchsorted(passed, [math.floor(rank), math.ceil(rank)], side="right").tolist()
    largest = float(np.nanmax(summaries.largest_magnitude))
    share = rank - math.floor(rank)
    return (1.0 - share) * _middle(low, largest) + share * _middle(high, largest)


def _middle(position: int, largest: float) -> float:
    """The middle of a bin of magnitudes; the first position is zero, the last one beyond float32."""
    if position == 0:
        return 0.0
    if position > SIGN_BIN:
        return largest
    left, right = left_edges([position - 1, position]).tolist()
    return float(min((left + right) / 2.0, largest))


def _clip_elements(
    gradients: Gradients, norms: Norms, bound: float, largest: Sequence[float], norm_type: float
) -> Clipped:
    total = true_total(gradients, norms, norm_type)
    above = [index for index, magnitude in enumerate(largest) if magnitude > bound]
    if not above:
        return Clipped(total, threshold=bound, clipped_norm=total)
    clamp_magnitudes(gradients, bound, above)
    return Clipped(total, bound / max(largest), bound, len(above))


def _largest(summaries: SummaryTable) -> list[float]:
    return np.nan_to_num(summaries.largest_magnitude).tolist()  # type: ignore[no-any-return]


@torch.no_grad()
def _largest_magnitude(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return torch.zeros((), device=tensor.device)
    if tensor.is_complex():
        return torch.linalg.vector_norm(tensor, math.inf)  # type: ignore[no-any-return]
    # Ten times as fast as the norm, which is not vectorised.
    low, high = torch.aminmax(tensor)
    return torch.maximum(-low, high)
