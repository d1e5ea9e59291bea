"""The rules from which causes are derived, one function for each cause, by subject."""

from collections.abc import Callable

from debuggers.diagnosis.argument import Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.rules.batches import batch_mixing, unshuffled_data
from debuggers.diagnosis.rules.classes import class_imbalance, single_class_labels
from debuggers.diagnosis.rules.duplicated_data import duplicated_data
from debuggers.diagnosis.rules.gradient_handling import (
    accumulation_not_averaged,
    clipping_ineffective,
    clipping_too_strong,
    gradients_not_zeroed,
)
from debuggers.diagnosis.rules.initialization import poor_initialization
from debuggers.diagnosis.rules.inputs import inputs_constant, inputs_not_normalized, non_finite_inputs
from debuggers.diagnosis.rules.labels_unrelated import labels_unrelated
from debuggers.diagnosis.rules.learning_rate_too_high import learning_rate_too_high
from debuggers.diagnosis.rules.learning_rate_too_low import learning_rate_too_low
from debuggers.diagnosis.rules.loss_form import flipped_loss_sign, loss_sum_not_mean
from debuggers.diagnosis.rules.loss_function import wrong_output_or_loss
from debuggers.diagnosis.rules.model_state import frozen_parameters, wrong_mode
from debuggers.diagnosis.rules.no_update import no_update
from debuggers.diagnosis.rules.over_regularized import over_regularized
from debuggers.diagnosis.rules.overfitting import overfitting
from debuggers.diagnosis.rules.participation import detached_parameters, parameters_not_in_optimizer
from debuggers.diagnosis.rules.precision import fp16_underflow, non_finite_backward, non_finite_forward
from debuggers.diagnosis.rules.processes import (
    data_loading_bound,
    hung_rank,
    memory_leak,
    non_finite_rank,
    rank_desync,
    ranks_configured_differently,
    straggling_rank,
)
from debuggers.diagnosis.rules.schedule import missing_warmup, schedule_collapsed
from debuggers.diagnosis.rules.signal_flow import exploding_gradients, vanishing_gradients
from debuggers.diagnosis.rules.stopped_too_early import stopped_too_early
from debuggers.diagnosis.rules.symmetry import unbroken_symmetry
from debuggers.diagnosis.rules.targets import shape_broadcast, target_out_of_range
from debuggers.diagnosis.rules.units import dead_units, saturated_units

RULES: tuple[Callable[[Evidence], Argument], ...] = (
    non_finite_inputs,
    inputs_constant,
    inputs_not_normalized,
    duplicated_data,
    single_class_labels,
    class_imbalance,
    unshuffled_data,
    labels_unrelated,
    wrong_output_or_loss,
    target_out_of_range,
    shape_broadcast,
    flipped_loss_sign,
    loss_sum_not_mean,
    poor_initialization,
    unbroken_symmetry,
    vanishing_gradients,
    exploding_gradients,
    dead_units,
    saturated_units,
    parameters_not_in_optimizer,
    detached_parameters,
    frozen_parameters,
    no_update,
    wrong_mode,
    gradients_not_zeroed,
    clipping_too_strong,
    clipping_ineffective,
    accumulation_not_averaged,
    learning_rate_too_high,
    learning_rate_too_low,
    schedule_collapsed,
    missing_warmup,
    stopped_too_early,
    over_regularized,
    overfitting,
    non_finite_forward,
    non_finite_backward,
    fp16_underflow,
    batch_mixing,
    memory_leak,
    data_loading_bound,
    rank_desync,
    non_finite_rank,
    hung_rank,
    straggling_rank,
    ranks_configured_differently,
)
