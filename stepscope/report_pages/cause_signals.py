"""Which signals show a cause: the pictures beside its evidence."""

from collections.abc import Iterator, Mapping
from typing import Final

from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.pictures.svg_lines import Lines

_MOST = 2
_MOST_TENSORS = 4
SIGNALS: Final[Mapping[str, tuple[str, ...]]] = {
    "learning_rate_too_high": ("update_ratio", "gradient_cosine"),
    "learning_rate_too_low": ("loss", "update_ratio"),
    "vanishing_gradients": ("gradient_rms", "total_norm/gradients"),
    "exploding_gradients": ("total_norm/gradients", "gradient_rms"),
    "dead_units": ("dead_units", "output_zeros"),
    "saturated_units": ("saturated",),
    "poor_initialization": ("output_std", "weight_rms"),
    "unbroken_symmetry": ("unit_similarity",),
    "inputs_not_normalized": ("inputs/mean", "inputs/std"),
    "inputs_constant": ("inputs/batch_std",),
    "non_finite_inputs": ("inputs/non_finite", "loss"),
    "target_out_of_range": ("targets/max", "outputs/max"),
    "labels_unrelated": ("loss", "accuracy"),
    "single_class_labels": ("targets/classes", "targets/top_share"),
    "flipped_loss_sign": ("loss", "accuracy"),
    "over_regularized": ("weight_norm", "decay_cosine"),
    "overfitting": ("loss", "validation/loss", "evaluation/loss"),
    "class_imbalance": ("targets/top_share_so_far", "top_predicted_share"),
    "unshuffled_data": ("targets/between_batches", "targets/mean"),
    "duplicated_data": ("inputs/repeated", "inputs/duplicates"),
    "gradients_not_zeroed": ("total_norm/gradients", "gradient_cosine"),
    "no_update": ("update_ratio", "loss"),
    "fp16_underflow": ("gradient_zeros", "loss_scale"),
    "clipping_ineffective": ("unclipped_norm", "clipped_norm"),
    "clipping_too_strong": ("unclipped_norm", "clipped_norm"),
    "accumulation_not_averaged": ("backward_passes", "total_norm/gradients"),
    "schedule_collapsed": ("learning_rate", "loss"),
    "missing_warmup": ("update_ratio", "learning_rate"),
    "memory_leak": ("process_mb", "device_mb"),
    "data_loading_bound": ("data_share", "step_ms"),
}
"""By code; a cause that is not listed is shown by the loss."""
UNITS: Final = {"step_ms": "ms", "process_mb": "MiB", "device_mb": "MiB"}


def pictures_of(cause: Cause, evidence: Evidence) -> Iterator[tuple[str, Lines]]:
    """Yields the name of each signal that shows a cause, and its series, at most two; of tensors, those named first."""
    shown = 0
    for name in (*SIGNALS.get(cause.code, ()), "loss"):
        if shown == _MOST:
            return
        tensors = evidence.of_tensors(name)
        named = [one for one in tensors if one in cause.where or one.rpartition(".")[0] in cause.where]
        chosen = (named or list(tensors))[:_MOST_TENSORS]
        lines = {one: (tensors[one].steps, tensors[one].values) for one in chosen}
        if not lines and len(evidence[name]):
            lines = {name: (evidence[name].steps, evidence[name].values)}
        if lines:
            shown += 1
            yield name, lines
