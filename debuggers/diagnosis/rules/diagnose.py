"""From evidence to causes: runs the rules, ranks consequences below their causes, and drops what is too uncertain."""

import logging
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from debuggers.diagnosis.cause import LIKELY, Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.rules import RULES

EXPLAINED = 0.5
"""What is left of the confidence in a cause that may be the consequence of a surer one."""
POSSIBLE = LIKELY * EXPLAINED
"""Causes are reported above this beside a likely one: also what would be likely, had it not followed from another."""

_TOO_LARGE = (
    "exploding_gradients",
    "dead_units",
    "saturated_units",
    "non_finite_forward",
    "non_finite_backward",
    "clipping_ineffective",
    "missing_warmup",
)
_OF_THE_START = frozenset(
    (
        "exploding_gradients",
        "vanishing_gradients",
        "dead_units",
        "saturated_units",
        "non_finite_forward",
        "non_finite_backward",
    )
)
"""What shows at the first step, if it does, before any update: then it follows from none."""
_BY_UPDATES = frozenset(
    (
        "learning_rate_too_high",
        "missing_warmup",
        "gradients_not_zeroed",
        "loss_sum_not_mean",
        "accumulation_not_averaged",
        "flipped_loss_sign",
        "labels_unrelated",
        "over_regularized",
    )
)
"""Causes that do their harm by what updates make of the weights."""
_STUCK = (
    "learning_rate_too_low",
    "labels_unrelated",
    "stopped_too_early",
    "vanishing_gradients",
    "over_regularized",
    "no_update",
    "class_imbalance",
)
_LEADS_TO: Mapping[str, tuple[str, ...]] = {
    "learning_rate_too_high": (
        *(code for code in _TOO_LARGE if code != "clipping_ineffective"),  # whatever the steps, a limit is a setting
        "labels_unrelated",
        "vanishing_gradients",
    ),
    "loss_sum_not_mean": (*_TOO_LARGE, "learning_rate_too_high", "class_imbalance"),
    "accumulation_not_averaged": (*_TOO_LARGE, "learning_rate_too_high", "class_imbalance"),
    "gradients_not_zeroed": (
        *_TOO_LARGE,
        "learning_rate_too_high",
        "labels_unrelated",
        "accumulation_not_averaged",
        "class_imbalance",  # after steps that are far too large a model answers the same to all
    ),
    "inputs_not_normalized": (
        *_TOO_LARGE,
        "learning_rate_too_high",
        *(code for code in _STUCK if code != "no_update"),  # however large they are, a step changes weights
    ),
    "non_finite_inputs": (*_TOO_LARGE, *_STUCK, "learning_rate_too_high"),
    "inputs_constant": (*_STUCK, "duplicated_data", "inputs_not_normalized", "dead_units"),
    "single_class_labels": (*_STUCK, "unshuffled_data", "duplicated_data", "wrong_output_or_loss"),
    "class_imbalance": ("labels_unrelated", "learning_rate_too_low", "stopped_too_early", "overfitting"),
    "unshuffled_data": (
        "learning_rate_too_high",
        "labels_unrelated",
        "class_imbalance",
        "stopped_too_early",
        "overfitting",
        "flipped_loss_sign",
    ),
    "duplicated_data": ("overfitting", "unshuffled_data"),  # batches of few different rows differ more
    "wrong_output_or_loss": (
        *_STUCK,
        "saturated_units",
        "learning_rate_too_high",
        "flipped_loss_sign",
        "target_out_of_range",
    ),
    "target_out_of_range": (*_STUCK, "dead_units", "saturated_units", "wrong_output_or_loss"),
    "shape_broadcast": (*_STUCK, "wrong_output_or_loss"),
    "flipped_loss_sign": ("learning_rate_too_high", *_TOO_LARGE, *_STUCK, "wrong_output_or_loss", "loss_sum_not_mean"),
    "poor_initialization": (*_TOO_LARGE, "learning_rate_too_high", "vanishing_gradients", *_STUCK, "unbroken_symmetry"),
    "unbroken_symmetry": (
        *_STUCK,
        "poor_initialization",
        "dead_units",
        "learning_rate_too_high",  # beside equal weights, which are mostly small, no update is
    ),
    "vanishing_gradients": (
        "learning_rate_too_low",
        "labels_unrelated",
        "no_update",
        "stopped_too_early",
        "dead_units",  # the last layers are all that moves
        "poor_initialization",  # outputs that shrink with depth
    ),
    "exploding_gradients": (
        "non_finite_forward",
        "non_finite_backward",
        "learning_rate_too_high",
        "clipping_ineffective",
    ),
    "dead_units": (
        "detached_parameters",  # gradients that are exactly zero
        "labels_unrelated",
        "no_update",
        "vanishing_gradients",
        "learning_rate_too_low",
        "stopped_too_early",
    ),
    "saturated_units": (
        "detached_parameters",  # a function at its bounds has no slope left
        "labels_unrelated",
        "vanishing_gradients",
        "learning_rate_too_low",
        "stopped_too_early",
        "poor_initialization",  # what is wrong with weights that are too large before a tanh
    ),
    "parameters_not_in_optimizer": (*_STUCK, "detached_parameters", "gradients_not_zeroed"),
    "detached_parameters": _STUCK,
    "frozen_parameters": (
        "learning_rate_too_low",
        "learning_rate_too_high",  # a head on features that nothing has trained has to grow far
        "labels_unrelated",
        "stopped_too_early",
    ),
    "no_update": (*_STUCK, "unbroken_symmetry", "target_out_of_range", "inputs_not_normalized", "dead_units"),
    "wrong_mode": (
        "overfitting",
        *_TOO_LARGE,
        "learning_rate_too_high",
        "vanishing_gradients",  # batch norms that scale nothing
    ),
    "clipping_too_strong": (
        "learning_rate_too_low",
        "stopped_too_early",
        "labels_unrelated",
        "no_update",
        "over_regularized",  # by a decay that outweighs what is left of the gradients
        "dead_units",
        "class_imbalance",  # what has hardly learnt answers with the most frequent class
    ),
    "clipping_ineffective": (
        "exploding_gradients",
        "learning_rate_too_high",  # a limit is there to keep steps small
        "non_finite_forward",
        "non_finite_backward",
    ),
    "schedule_collapsed": (
        "learning_rate_too_low",
        "no_update",
        "stopped_too_early",
        "labels_unrelated",
        "class_imbalance",
    ),
    "missing_warmup": (
        "learning_rate_too_high",
        "exploding_gradients",
        "dead_units",
        "vanishing_gradients",
        "labels_unrelated",
    ),
    "over_regularized": (
        "learning_rate_too_high",  # what drops nearly all makes gradients of noise
        "learning_rate_too_low",
        "labels_unrelated",
        "vanishing_gradients",
        "stopped_too_early",
        "dead_units",
        "target_out_of_range",  # outputs of weights that are nearly nothing
    ),
    "learning_rate_too_low": (
        "stopped_too_early",
        "labels_unrelated",
        "flipped_loss_sign",
        "dead_units",  # where weights stay, so does how they began
        "vanishing_gradients",  # before branches that begin as nothing
        "unbroken_symmetry",
        "target_out_of_range",
        "inputs_not_normalized",
        "class_imbalance",
    ),
    "stopped_too_early": ("labels_unrelated",),
    "non_finite_rank": (*_TOO_LARGE, "no_update", "learning_rate_too_high"),
    "ranks_configured_differently": ("rank_desync",),
    "rank_desync": ("ranks_configured_differently",),
    "non_finite_forward": ("non_finite_backward", "no_update", "dead_units", "exploding_gradients"),
    "non_finite_backward": ("non_finite_forward", "no_update", "dead_units", "exploding_gradients"),
    "fp16_underflow": (
        "vanishing_gradients",
        "no_update",
        "learning_rate_too_low",
        "stopped_too_early",
        "dead_units",  # gradients that are zero, and single ones that are far too large
        "clipping_ineffective",
    ),
    "batch_mixing": ("labels_unrelated", "learning_rate_too_low", "detached_parameters"),
    "labels_unrelated": (
        "overfitting",
        "stopped_too_early",
        "learning_rate_too_low",
        "dead_units",
        "learning_rate_too_high",  # gradients of chance push units about until they are dead
    ),
}
"""What a cause leads to; a consequence that is older than its cause is none."""

_log = logging.getLogger(__name__)


def diagnose(evidence: Evidence) -> tuple[Cause, ...]:
    """Returns the causes of what is wrong with a training, most likely first; empty if nothing is.

    One of them is likelier than not; the others may be consequences of it, or what it is otherwise.

    A rule that fails is logged and left out, so that the report of a training is never lost.
    """
    causes = []
    for rule in RULES:
        try:
            with np.errstate(all="ignore"):
                cause = rule(evidence).cause
        except Exception:
            _log.exception("the rule %s failed and was left out", rule.__name__)
            continue
        if cause is not None:
            causes.append(cause)
    causes.sort(key=lambda cause: -cause.confidence)
    if not causes or not causes[0].is_likely:
        return ()
    losses = evidence["loss"].steps
    lowered = _below_their_causes(causes, int(losses[0]) if len(losses) else 0)
    if not any(cause.is_likely for cause in lowered):  # they lead to one another in a circle
        lowered = causes
    ranked = sorted(lowered, key=lambda cause: -cause.confidence)
    began = min((series.first_step for series in evidence.series.values() if len(series)), default=0)
    return tuple(_not_before(cause, began) for cause in ranked if cause.confidence > POSSIBLE)


def _not_before(cause: Cause, began: int) -> Cause:
    """A cause that shows from the start of a training that was watched, or resumed, later than at step 0."""
    return replace(cause, since_step=began) if cause.since_step is not None and cause.since_step < began else cause


def _below_their_causes(causes: list[Cause], first: int) -> list[Cause]:
    """Lowers the confidence in what follows from another likely cause; ``first`` is the first step.

    Where two may lead to each other, the surer one is the cause.
    """
    found = []
    for cause in causes:
        origins = [one for one in causes if one.is_likely and one is not cause and _explains(one, cause, first)]
        origin = next(
            (one for one in origins if not (_explains(cause, one, first) and _is_surer(causes, cause, one))), None
        )
        if origin is not None:
            against = (*cause.against, f"it follows from {origin.code}")
            cause = replace(cause, confidence=cause.confidence * EXPLAINED, against=against)
        found.append(cause)
    return found


def _is_surer(causes: list[Cause], cause: Cause, other: Cause) -> bool:
    return causes.index(cause) < causes.index(other)


def _explains(cause: Cause, other: Cause, first: int) -> bool:
    if other.code not in _LEADS_TO.get(cause.code, ()):
        return False
    began_before = other.since_step is not None and other.since_step <= first and other.code in _OF_THE_START
    came_later = cause.code in _OF_THE_START and (cause.since_step or 0) > first
    if began_before and (cause.code in _BY_UPDATES or came_later):
        return False
    return cause.since_step is None or other.since_step is None or cause.since_step <= other.since_step + 1
