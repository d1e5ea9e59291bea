"""What becomes an anomaly, and which anomalies are told: the first step of each episode."""

import logging
import math

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter

from stability.handling.non_finite import describe_faults, describe_handling
from stability.results.step import Anomaly, AnomalyKind, NaNStats

_LEVELS: dict[AnomalyKind, AlertLevel] = {
    "nan_loss": "error",
    "inf_loss": "error",
    "nan_gradient": "error",
    "inf_gradient": "error",
    "gradient_norm_overflow": "warning",
    "unusual_step": "warning",
    "rank_fault": "error",
    "nothing_to_restore": "error",
    "gradient_check_failed": "error",
    "memory_leak": "warning",
}
_SEVERITIES: dict[AlertLevel, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)


def find_anomalies(step: int, loss: float, stats: NaNStats, total_norm: float, gradients: int) -> list[Anomaly]:
    """Returns what is wrong with a step; a GradScaler's own overflow is not.

    Args:
        step: The step.
        loss: Its loss.
        stats: What is not finite.
        total_norm: The norm before clipping.
        gradients: The number of gradients.
    """
    found = []
    done = describe_handling(stats)
    if not math.isfinite(loss):
        kind: AnomalyKind = "nan_loss" if math.isnan(loss) else "inf_loss"
        found.append(Anomaly(kind=kind, message=f"the loss is {loss}{done}", step=step))
    if not stats["gradients_finite"] and not stats["scaler_step"]:
        kind = "nan_gradient" if stats["nan_count"] else "inf_gradient"
        message = describe_faults(stats["parameters"], gradients) + done
        found.append(Anomaly(kind=kind, message=message, step=step))
    if stats["ranks"] and stats["action"] != "none" and not stats["scaler_step"] and not found:
        message = f"the loss or a gradient of another rank is not finite{done}"
        found.append(Anomaly(kind="rank_fault", message=message, step=step))
    if stats["exhausted"]:
        message = "there is no good snapshot left to restore"
        found.append(Anomaly(kind="nothing_to_restore", message=message, step=step))
    if stats["norm_overflow"]:
        message = (
            f"all gradients are finite, but the sum for their norm, which is {total_norm:g}, overflows in their dtype"
        )
        found.append(Anomaly(kind="gradient_norm_overflow", message=message, step=step))
    return found


class AnomalyAlerts:
    """Emits and logs anomalies, one for each episode: consecutive steps with the same kind count as one.

    A run that has gone to NaN stays there, and thousands of equal alerts would hide the first.
    """

    def __init__(self, emitter: Emitter | None) -> None:
        self._emitter = emitter
        self._ongoing: set[AnomalyKind] = set()

    def tell(self, anomalies: list[Anomaly], *, log_level: AlertLevel) -> None:
        """Takes all anomalies of a step, none included. ``log_level`` is the least severity to log."""
        for anomaly in anomalies:
            if anomaly["kind"] not in self._ongoing:
                self._tell(anomaly, log_level)
        self._ongoing = {anomaly["kind"] for anomaly in anomalies}

    def _tell(self, anomaly: Anomaly, log_level: AlertLevel) -> None:
        level = _LEVELS[anomaly["kind"]]
        is_logged = _SEVERITIES[level] >= _SEVERITIES[log_level]
        if self._emitter is not None:
            self._emitter.alert(anomaly["kind"], anomaly["message"], step=anomaly["step"], level=level, told=is_logged)
        if is_logged:
            _log.log(
                _SEVERITIES[level],
                "step %d: %s: %s",
                anomaly["step"],
                anomaly["kind"],
                anomaly["message"],
                extra={"stepscope": {"event": anomaly["kind"], "step": anomaly["step"]}},
            )
