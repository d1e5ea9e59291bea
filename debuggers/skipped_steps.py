"""Tells of steps that a GradScaler skips: nothing that belongs to the optimizer is called in them."""

from __future__ import annotations

import math

from debuggers.detectors import Finding
from debuggers.detectors.non_finite import MAX_EXPECTED_OVERFLOWS
from debuggers.torch_import import torch

_SMALLEST = 2.0**-149
"""The smallest number above zero in float32; a scale that has become zero was there before."""


class SkippedSteps:
    """Counts the steps that were skipped since the last one that was made, by what became of the loss scale.

    Each of them multiplies the scale by the scaler's ``backoff_factor``. Nothing waits for a device before ``count``.

    Attributes:
        scaler: The loop's GradScaler, once it is known.
    """

    def __init__(self, scaler: torch.amp.GradScaler | None) -> None:
        self.scaler = scaler
        self._scale: torch.Tensor | None = None
        self._step = -1

    @torch.no_grad()
    def made(self, step: int) -> None:
        """Says that the optimizer makes a step; call it before ``GradScaler.update``."""
        scale = None if self.scaler is None or not self.scaler.is_enabled() else self.scaler._scale
        self._scale, self._step = None if scale is None else scale.clone(), step

    def count(self) -> int:
        """How many steps were skipped since the last one that was made, at least; waits for the device."""
        if self.scaler is None or self._scale is None:
            return 0
        before, now = (max(value, _SMALLEST) for value in (float(self._scale), self.scaler.get_scale()))
        factor = self.scaler.get_backoff_factor()
        if not (0 < factor < 1 and math.isfinite(before) and math.isfinite(now)):
            return 0  # the scale was set by hand, or falls to zero at once: it counts nothing
        return max(0, round(math.log(now / before) / math.log(factor)))

    def findings(self) -> list[Finding]:
        """Returns a finding when more were skipped in a row than it takes to find the scale; waits for the device."""
        skipped = self.count()
        if skipped <= MAX_EXPECTED_OVERFLOWS:
            return []
        return [
            Finding(
                kind="skipped_steps",
                name="the GradScaler",
                level="error",
                step=self._step,
                last_step=self._step,
                steps=1,
                ongoing=True,
                value=skipped,
                threshold=MAX_EXPECTED_OVERFLOWS,
                evidence=f"it has skipped every step, {skipped} or more, for gradients that are NaN or infinite, "
                "since the one",
                rule=f"more than {MAX_EXPECTED_OVERFLOWS} skipped steps in a row at the end, by the fall of the scale; "
                "as many take the first scale of torch.amp.GradScaler, 65536, to 1",
            )
        ]
