"""Clipping by norms: one factor for all gradients, or one for each parameter."""

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from debuggers.torch_import import torch
from stability.clipping.base import Clipped, Clipper, multiply
from stability.clipping.config import GradientClippingConfig
from stability.clipping.names import NameTable
from stability.clipping.true_norms import true_total, wide_norm
from stability.gradients.measure import CLIP_EPSILON, Gradients, Norms, measure, scale

NORMS_IN_MEAN = 10


class NoClipper(Clipper):
    """Only measures."""

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Changes nothing."""
        total = true_total(gradients, norms, self._config.norm_type)
        return Clipped(total, clipped_norm=total)


class _TotalNormClipper(Clipper):
    """Scales all gradients by ``min(1, threshold / (total_norm + 1e-6))``."""

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        threshold = self._threshold()
        total = true_total(gradients, norms, self._config.norm_type)
        coefficient = 1.0 if threshold is None else min(1.0, threshold / (total + CLIP_EPSILON))
        parameters = 0
        if coefficient != 1.0:
            parameters = len(gradients.tensors)
            multiply(gradients, dict.fromkeys(range(parameters), coefficient))
        if 0.0 < total * coefficient < math.inf:
            self._remember(total * coefficient)
        return Clipped(total, coefficient, threshold, parameters, total * coefficient)

    @abstractmethod
    def _threshold(self) -> float | None:
        """The largest total norm of this step; None while there is none."""

    def _remember(self, norm: float) -> None:
        """Takes the norm of a step as clipped, if it is finite and not zero."""

    def _exact_from(self) -> float:
        threshold = self._threshold()
        return math.inf if threshold is None else threshold


class NormClipper(_TotalNormClipper):
    """Clips bit for bit as ``torch.nn.utils.clip_grad_norm_``.

    Gradients below the bound are not touched, where ``clip_grad_norm_`` multiplies them by 1. Where the norm of finite
    gradients is beyond the range of their dtype, ``clip_grad_norm_`` divides by infinity and sets every gradient to
    zero; here they are scaled by their true norm, in float64. Where the squares of gradients are too small for their
    dtype, so that ``clip_grad_norm_`` has 0 or an inexact norm, the factor is the same and the norm told the true one.
    """

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips to ``max_norm``."""
        if not math.isfinite(norms.total):
            return super().clip(gradients, norms)
        total = true_total(gradients, norms, self._config.norm_type)
        if norms.coefficient == 1.0:
            return Clipped(total, threshold=self._config.max_norm, clipped_norm=total)
        scale(gradients.tensors, norms.coefficient_tensor)
        gradients.store()
        clipped_norm = total * norms.coefficient
        return Clipped(total, norms.coefficient, self._config.max_norm, len(gradients.tensors), clipped_norm)

    def _threshold(self) -> float:
        return self._config.max_norm


class GlobalNormClipper(Clipper):
    """Clips as TensorFlow's ``clip_by_global_norm``: by ``max_norm / max(total_norm, max_norm)``.

    The norm is Euclidean and its sum is formed in float64, whatever the dtype of the gradients.
    """

    def _measure_exactly(self, gradients: Gradients, loss: torch.Tensor | float) -> Norms:
        return measure(gradients, loss, 2.0, self._config.max_norm, wide=True)

    def _exact_from(self) -> float:
        return self._config.max_norm

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips to ``max_norm``."""
        threshold = self._config.max_norm
        total = true_total(gradients, norms, 2.0)
        if total <= threshold:
            return Clipped(total, threshold=threshold, clipped_norm=total)
        parameters = len(gradients.tensors)
        multiply(gradients, dict.fromkeys(range(parameters), threshold / total))
        return Clipped(total, threshold / total, threshold, parameters, threshold)


class AdaptiveClipper(_TotalNormClipper):
    """Clips to ``adaptive_factor`` times the mean of the last 10 norms; the first step is not clipped.

    Norms enter as clipped, so that a single spike widens the bound of the next steps by a tenth of what it would
    otherwise; a lasting rise is followed at up to ``(adaptive_factor - 1) / 10`` a step. Norms that are zero or not
    finite stay out.
    """

    def __init__(self, config: GradientClippingConfig) -> None:
        super().__init__(config)
        self._norms: deque[float] = deque(maxlen=NORMS_IN_MEAN)

    def state_dict(self) -> dict[str, Any]:
        """Returns the norms, oldest first."""
        return {"norms": list(self._norms)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` gave."""
        super().load_state_dict(state)
        self._norms = deque(state["norms"], maxlen=NORMS_IN_MEAN)

    def _threshold(self) -> float | None:
        return self._config.adaptive_factor * sum(self._norms) / len(self._norms) if self._norms else None

    def _remember(self, norm: float) -> None:
        self._norms.append(norm)

    def _exact_from(self) -> float:
        return 0.0  # the norm of each step is in the thresholds of later ones, to the last digit


class ExponentialClipper(_TotalNormClipper):
    """Clips to ``max(exponential_floor, exponential_factor * average)``; the first step is not clipped.

    The average is ``m / (1 - decay ** n)`` after ``n`` norms, with ``m = decay * m + (1 - decay) * norm`` from 0 on:
    the bias correction of Adam (Kingma and Ba 2015, arXiv:1412.6980). Norms enter as clipped; zero and what is not
    finite stay out.
    """

    def __init__(self, config: GradientClippingConfig) -> None:
        super().__init__(config)
        self._sum = 0.0
        self._count = 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the uncorrected average and how many norms are in it."""
        return {"sum": self._sum, "count": self._count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` gave."""
        super().load_state_dict(state)
        self._sum, self._count = float(state["sum"]), int(state["count"])

    def _threshold(self) -> float | None:
        if not self._count:
            return None
        average = self._sum / (1.0 - self._config.exponential_decay**self._count)
        return max(self._config.exponential_floor, self._config.exponential_factor * average)

    def _remember(self, norm: float) -> None:
        decay = self._config.exponential_decay
        self._sum = decay * self._sum + (1.0 - decay) * norm
        self._count += 1

    def _exact_from(self) -> float:
        return 0.0  # the norm of each step is in the thresholds of later ones, to the last digit


class LayerWiseClipper(Clipper):
    """Clips the gradient of each parameter to its own threshold: by ``min(1, threshold / (norm + 1e-6))``."""

    def __init__(self, config: GradientClippingConfig) -> None:
        super().__init__(config)
        self._thresholds = NameTable("layer_thresholds", config.layer_thresholds)

    def check(self, gradients: Gradients) -> None:
        """Refuses at the first step an entry of ``layer_thresholds`` that matches no parameter."""
        self._thresholds.check([*gradients.names, *gradients.without_gradient])

    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips each parameter that has a threshold."""
        norm_type = self._config.norm_type
        factors, after = {}, []
        for index, (name, norm) in enumerate(zip(gradients.names, norms.each, strict=True)):
            threshold = self._thresholds.find(name) or math.inf
            if not math.isfinite(norm):
                norm = wide_norm(gradients, norm_type, [index])
            factor = min(1.0, threshold / (norm + CLIP_EPSILON))
            if factor < 1.0:
                factors[index] = factor
            after.append(norm * factor)
        total = true_total(gradients, norms, norm_type)
        if factors:
            multiply(gradients, factors)
        clipped_norm = float(np.linalg.norm(after, norm_type))
        return Clipped(total, min(factors.values(), default=1.0), None, len(factors), clipped_norm)

    def _exact_from(self) -> float:
        return min(self._config.layer_thresholds.values())
