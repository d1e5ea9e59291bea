"""Detects steps that a GradScaler skips, in which no hook of the optimizer is called."""

import math
from dataclasses import replace

from debuggers.detectors import Finding
from debuggers.detectors.non_finite import MAX_EXPECTED_OVERFLOWS
from debuggers.gradients.loss_scale import scaler_of_callers
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import first_scale_of, scale_of

_SMALLEST = 2.0**-149
"""The smallest number above zero in float32; a scale that has become zero was there before."""
_LOOK_EVERY = 8
"""Forward passes between two readings of the scale."""


class SkippedSteps:
    """Counts the steps that were skipped since the last one that was made, by what became of the loss scale.

    Each of them multiplies the scale by the scaler's ``backoff_factor``. More than 16 in a row are a finding: as many
    take the first scale of ``torch.amp.GradScaler``, 65536, to 1, which can no longer be the cause. A
    healthy training skips a few at its start, and one now and then.

    Nothing waits for a device but ``count`` and ``findings``.

    Attributes:
        scaler: The loop's GradScaler, once it is known.
    """

    def __init__(self, scaler: torch.amp.GradScaler | None) -> None:
        self.scaler = scaler
        self._scale: torch.Tensor | None = None
        self._step: int | None = None
        self._passes = 0
        self._look: DeferredTensor | None = None
        self._told: Finding | None = None
        self._over: list[Finding] = []

    def made(self, step: int) -> None:
        """Notes that the optimizer makes a step; call it before ``GradScaler.update``."""
        scale = None if self.scaler is None or not self.scaler.is_enabled() else scale_of(self.scaler)
        self._scale, self._step = None if scale is None else scale.detach().clone(), step
        self._passes, self._look = 0, None
        if self._told is not None:
            self._over.append(replace(self._told, ongoing=False))
            self._told = None

    def passed(self) -> list[Finding]:
        """Notes that a forward pass of the training begins, and returns a finding that is due by then.

        A scaler that has skipped every step so far has never called the optimizer, from where it is known else: then it
        is looked for among the variables of the functions that run.
        """
        self._passes += 1
        if self._told is not None or self._passes <= MAX_EXPECTED_OVERFLOWS:
            return []
        if self._look is None and self._passes % _LOOK_EVERY == 0:
            if self.scaler is None and self._step is None:
                self.scaler = scaler_of_callers()
            self._look = self._now()
        if self._look is None or not self._look.ready():
            return []
        now, self._look = float(self._look.resolve()), None
        return self._judge(now)

    def count(self) -> int:
        """How many steps were skipped since the last one that was made, at least; waits for the device."""
        now = self._now()
        return 0 if now is None else self._skipped_to(float(now.resolve()))

    def begun(self) -> list[Finding]:
        """Returns a finding that ``passed`` has not returned; waits for the device."""
        now = self._now()
        return [] if now is None or self._told is not None else self._judge(float(now.resolve()))

    def findings(self) -> list[Finding]:
        """Returns all findings so far; waits for the device."""
        self.begun()
        return [*self._over, *([] if self._told is None else [self._told])]

    def _now(self) -> DeferredTensor | None:
        if self.scaler is None or not self.scaler.is_enabled() or (now := scale_of(self.scaler)) is None:
            return None
        # A step was made before the scaler was known, or steps are never reported.
        if self._scale is None and (self._step is not None or not self._passes):
            return None
        before = self._scale
        # Both in one copy: the share of the old scale that is left.
        scale = now.detach().double().clamp(min=_SMALLEST)
        return DeferredTensor(
            scale / (first_scale_of(self.scaler) if before is None else before.double().clamp(min=_SMALLEST))
        )

    def _skipped_to(self, share: float) -> int:
        assert self.scaler is not None
        factor = self.scaler.get_backoff_factor()
        if not (0 < factor < 1 and 0 < share < math.inf):
            return 0  # the scale was set by hand, or falls to zero at once: it counts nothing
        return max(0, round(math.log(share) / math.log(factor)))

    def _judge(self, share: float) -> list[Finding]:
        skipped = self._skipped_to(share)
        if skipped <= MAX_EXPECTED_OVERFLOWS:
            return []
        since = "since its last step" if self._step is not None else "no step was made yet, first observed"
        step = max(0, self._step or 0)
        self._told = Finding.going_on(
            "skipped_steps",
            "the GradScaler",
            [step],
            value=skipped,
            threshold=MAX_EXPECTED_OVERFLOWS,
            evidence=f"it skips every step, {skipped} or more in a row, because gradients are NaN or infinite; {since}",
            rule=f"more than {MAX_EXPECTED_OVERFLOWS} skipped steps in a row, by the fall of the scale; as many take "
            "the first scale of torch.amp.GradScaler, 65536, to 1",
        )
        return [self._told]
