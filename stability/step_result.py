"""Puts together what a stability step returns."""

from __future__ import annotations

from stability.clipping.base import Clipped
from stability.clipping.config import GradientClippingConfig
from stability.optimizer_check import Strangers
from stability.results.step import ClippingStats, DebugInfo, NaNStats, StabilityResult


def make_result(
    step: int,
    loss: float,
    *,
    nan_stats: NaNStats,
    config: GradientClippingConfig,
    clipped: Clipped,
    strangers: Strangers,
    score: float,
    debug_info: DebugInfo,
) -> StabilityResult:
    """Returns the result of a step from what its parts found."""
    return StabilityResult(
        step=step,
        loss=loss,
        nan_stats=nan_stats,
        clipping_stats=ClippingStats(
            clipping_type=config.clipping_type,
            max_norm=config.max_norm,
            norm_type=config.norm_type,
            total_norm=clipped.total_norm,
            clip_coefficient=clipped.coefficient,
            clipped=clipped.parameters > 0,
            clipped_norm=clipped.clipped_norm,
            threshold=clipped.threshold,
            clipped_parameters=clipped.parameters,
            parameters_outside_optimizer=strangers.outside_optimizer,
            parameters_outside_model=strangers.outside_model,
        ),
        stability_score=score,
        debug_info=debug_info,
    )
