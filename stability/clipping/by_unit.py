"""Adaptive gradient clipping (AGC): the gradient of each unit is clipped relative to the unit's weights.

Brock, De, Smith and Simonyan: High-Performance Large-Scale Image Recognition Without Normalization, 2021,
arXiv:2102.06171, and the code that its authors published.
"""

import math

from tracker_adapters.values.tensors import local_part

from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from stability.clipping.base import Clipped, Clipper, refuse_shards
from stability.clipping.config import GradientClippingConfig
from stability.clipping.names import NameTable
from stability.clipping.true_norms import true_total
from stability.errors import StabilityError
from stability.gradients.measure import Gradients, Norms, measure, wide_dtype

_SMALLEST_GRADIENT_NORM = 1e-6  # what the paper's code divides by at least


class UnitClipper(Clipper):
    """Multiplies a unit's gradient G by ``bound / max(|G|, 1e-6)`` where its norm is above ``bound``.

    ``bound`` is ``agc_clip_factor * max(|W|, agc_eps)`` and W the unit's weights; norms are Euclidean. The units are
    the slices along the first dimension, that is rows of a linear layer and output filters of a convolution; a
    parameter with at most one dimension longer than 1, such as a bias, is one unit. Of a sparse gradient, each row that
    it holds is a unit.
    """

    def __init__(self, config: GradientClippingConfig) -> None:
        super().__init__(config)
        self._excluded = NameTable("agc_exclude", dict.fromkeys(config.agc_exclude, True))
        self._factors: dict[int, torch.Tensor] = {}

    def check(self, gradients: Gradients) -> None:
        """Refuses an entry of ``agc_exclude`` that matches no parameter, and what has no whole units.

        That is a sharded gradient, whose units may be cut, and a sparse one with more than one sparse dimension.
        """
        refuse_shards(gradients, "agc")
        self._excluded.check([*gradients.names, *gradients.without_gradient])
        for index, gradient in gradients.coalesced.items():
            if gradient.sparse_dim() != 1 and not self._excluded.find(gradients.names[index]):
                raise StabilityError(
                    f"the sparse gradient of {gradients.names[index]} has {gradient.sparse_dim()} sparse dimensions; "
                    "expected 1 for the clipping type 'agc', as embeddings have, or a name in agc_exclude"
                )

    def measure(self, gradients: Gradients, loss: torch.Tensor | float, summaries: SummaryTable | None = None) -> Norms:
        """Also forms the factor of each unit, on the gradients' devices."""
        del summaries  # they know no units
        self._factors = self._unit_factors(gradients, wide=False)
        smallest = [factors.min() for factors in self._factors.values()]
        return measure(gradients, loss, self._config.norm_type, math.inf, smallest)

    @torch.no_grad()
    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips the units of all parameters that are not excluded."""
        total, smallest = true_total(gradients, norms, self._config.norm_type), norms.extras
        if not math.isfinite(norms.total):
            self._factors = self._unit_factors(gradients, wide=True)
            smallest = [float(factors.min()) for factors in self._factors.values()]
        clipped = 0
        for (index, factors), least in zip(self._factors.items(), smallest, strict=True):
            if least < 1.0:
                gradients.tensors[index].mul_(factors)
                clipped += 1
        if clipped:
            gradients.store()
        self._factors = {}
        clipped_norm = None if clipped else total
        return Clipped(total, min(smallest, default=1.0), self._config.agc_clip_factor, clipped, clipped_norm)

    @torch.no_grad()
    def _unit_factors(self, gradients: Gradients, *, wide: bool) -> dict[int, torch.Tensor]:
        """Factors of at most 1, by the gradient's position; their shape spreads over the gradient's."""
        factors = {}
        for index, name in enumerate(gradients.names):
            gradient = gradients.tensors[index]
            if not gradient.numel() or self._excluded.find(name):
                continue
            weights = _weights(gradients, index)
            whole = index not in gradients.coalesced and sum(size > 1 for size in gradient.shape) <= 1
            weight_norms, gradient_norms = (
                unit_norms(tensor, whole=whole, wide=wide) for tensor in (weights, gradient)
            )
            bounds = weight_norms.clamp_(min=self._config.agc_eps).mul_(self._config.agc_clip_factor)
            ratios = bounds / gradient_norms.clamp(min=_SMALLEST_GRADIENT_NORM)
            factors[index] = torch.where(gradient_norms > bounds, ratios, 1.0)
        return factors


def unit_norms(tensor: torch.Tensor, *, whole: bool, wide: bool) -> torch.Tensor:
    """Returns Euclidean norms, in float32 at least, with as many dimensions as the tensor.

    Args:
        tensor: Weights or gradients.
        whole: One norm for all; else one for each slice along the first dimension.
        wide: In float64.
    """
    dimensions = tuple(range(0 if whole else 1, tensor.ndim))
    dtype = wide_dtype(tensor) if wide else torch.promote_types(tensor.dtype, torch.float32)
    norms: torch.Tensor = torch.linalg.vector_norm(tensor, 2.0, dimensions or None, keepdim=True, dtype=dtype)
    return norms


def _weights(gradients: Gradients, index: int) -> torch.Tensor:
    weights: torch.Tensor = local_part(gradients.parameters[index].detach())
    gradient = gradients.coalesced.get(index)
    if gradient is None:
        return weights
    return weights.index_select(0, gradient.indices()[0])
