"""The signals from which causes are argued: numbers of a training over its steps, with their names in a run.

A *sampled* step is one at which more is looked at than at others: the first ten, then every 11th up to 100, then every
53rd. What a session cannot see has no series: a rule that needs it stays silent, and the report says so.

Values are float64. A signal that is not defined at a step, such as the standard deviation of one value, has no point
there; NaN and infinities are values like others.
"""

from dataclasses import dataclass
from typing import Final

PREFIX: Final = "diagnosis/"
"""How the names of signals begin in a run; those of ``RECORDED_ELSEWHERE`` keep the names that they have anyway."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal.

    Attributes:
        name: Without ``PREFIX``; a signal of many tensors is ``<name>/<tensor>``.
        meaning: What is measured, in which unit.
    """

    name: str
    meaning: str


RECORDED_ELSEWHERE: Final = (
    Signal("loss", "the training loss of each step, without a loss scale, averaged over its backward passes"),
    Signal("total_norm/gradients", "Euclidean norm of all gradients together, at each step"),
    Signal(
        "learning_rate",
        "of the first group, at each measured step and where it changes; with several groups learning_rate/<index>, "
        "with several optimizers learning_rate/<class>",
    ),
    Signal("step_ms", "time of a step in milliseconds, without what the session takes"),
    Signal("validation/loss", "what session.validation was told; metrics are validation/<metric>"),
)

OF_A_STEP: Final = (
    Signal("inputs/mean", "mean of all floating-point inputs of the model"),
    Signal("inputs/std", "their standard deviation"),
    Signal("inputs/min", "their smallest finite value"),
    Signal("inputs/max", "their largest finite value"),
    Signal("inputs/non_finite", "how many are NaN or infinite"),
    Signal("inputs/batch_std", "mean over the features of the standard deviation over the batch"),
    Signal(
        "inputs/unit_columns",
        "share of the features, of those with several values other than 0, whose Euclidean length over the batch is 1",
    ),
    Signal("inputs/scale_ratio", "largest over smallest non-zero standard deviation of a feature over the batch"),
    Signal("inputs/duplicates", "share of the batch's rows that equal an earlier row of it"),
    Signal("inputs/repeated", "1 if an earlier sampled batch was equal, value by value, else 0"),
    Signal("inputs/repeated_rows", "share of the batch's rows, of at most 256, that an earlier sampled batch had"),
    Signal("inputs/rows_so_far", "how many different rows all sampled batches had, of at most 256 each, up to 65,536"),
    Signal("inputs/batch_size", "length of the first dimension"),
    Signal("inputs/length", "length of the second dimension, as of sequences"),
    Signal("outputs/mean", "mean of the model's first floating-point output"),
    Signal("outputs/std", "its standard deviation over all elements"),
    Signal("outputs/min", "its smallest finite value"),
    Signal("outputs/max", "its largest finite value"),
    Signal("outputs/non_finite", "how many elements are NaN or infinite"),
    Signal("outputs/batch_std", "mean over the output's features of the standard deviation over the batch"),
    Signal(
        "outputs/row_sum_error", "largest distance of a row's sum from 1, if no element is negative: 0 after softmax"
    ),
    Signal("targets/mean", "mean of the targets, class indices too"),
    Signal("targets/std", "their standard deviation over all elements"),
    Signal("targets/min", "smallest"),
    Signal("targets/max", "largest"),
    Signal("targets/non_finite", "how many are NaN or infinite"),
    Signal(
        "targets/classes",
        "how many classes a batch of two targets or more has, where they are class indices or one of 0 and 1",
    ),
    Signal("targets/most_labels", "how many ones the row with the most has, where each row has several of 0 and 1"),
    Signal("targets/top_share", "share of the batch's most frequent class"),
    Signal("targets/between_batches", "variance of the batches' means so far, over what random batches would have"),
    Signal("targets/classes_so_far", "how many classes all sampled batches had"),
    Signal("targets/top_share_so_far", "share of the most frequent class in all sampled batches"),
    Signal("targets/rarest_share_so_far", "share of the rarest class in all sampled batches"),
    Signal(
        "accuracy", "share of the batch whose largest output is at the target, or whose sign fits a target of 0 or 1"
    ),
    Signal("top_predicted_share", "share of the batch whose largest output is the most frequent one"),
    Signal("minority_accuracy", "the accuracy over targets that are not of the batch's most frequent class"),
    Signal("order", "share of the batch's pairs or triplets that are in the order that a loss of margins asks for"),
    Signal(
        "pairs_left_out", "share of the batch's pairs or scores that a loss with targets of 1 and -1 takes for neither"
    ),
    Signal(
        "gains/of_two_values", "share of what log-probabilities of drawn classes are multiplied with at its two ends"
    ),
    Signal("gains/high", "share of it that is nearer to the largest than to the smallest"),
    Signal("picked_meet_all", "share of the batch's rows whose score at an index a loss compares with all others"),
    Signal(
        "inputs/duplicates_elsewhere",
        "share of the rows of a batch of at most 256 that equal an earlier one, outside of the class with most of them",
    ),
    Signal(
        "inputs/duplicates_agree",
        "share, of the rows that equal an earlier one of at most 256, that have the target of such a one",
    ),
    Signal("inputs/top_row_share", "share of the batch's rows that equal the most frequent one of it"),
    Signal("inputs/one_value", "the number that all of one of several inputs are; NaN where none is but one number"),
    Signal("inputs/one_value_at", "which of the inputs that is, from 0"),
    Signal("inputs/one_value_width", "length of its last dimension"),
    Signal("inputs/one_value_apart", "1 where that input is as long as no other one, in any dimension but the batch's"),
    Signal(
        "evaluation/entropy",
        "mean entropy of the classes' probabilities, in nats, in the first call after a step that needs no gradients",
    ),
    Signal(
        "evaluation/loss",
        "mean of torch's own losses over the rows of calls without gradients after a step, for losses of the "
        "training's kind and rows that were not trained on",
    ),
    Signal("baseline_loss", "loss of the best constant output, for a loss that is known: entropy, variance or margin"),
    Signal("correlation", "Pearson's correlation of outputs and targets over the batch, for a regression"),
    Signal(
        "binary_correlation", "the same of targets of 0 and 1, or of two classes with the difference of their outputs"
    ),
    Signal("r2", "coefficient of determination (R²) of outputs over the batch, all columns together, for a regression"),
    Signal("gradient_cosine", "cosine between sampled elements of this step's gradients and those of the step before"),
    Signal("descent_cosine", "cosine between sampled elements of the update and of the negative gradient"),
    Signal("decay_cosine", "cosine between sampled elements of the update and of the negative weights"),
    Signal("update_ratio", "|Δw| / |w| over sampled elements of all parameters"),
    Signal(
        "rounded_away",
        "share of the sampled elements of bfloat16 and float16 parameters with a gradient that the step left as they "
        "were, as their dtype does with small updates",
    ),
    Signal(
        "weight_norm",
        "Euclidean norm of all parameters that have had a gradient so far, estimated from sampled elements",
    ),
    Signal("clipped_norm", "total norm right after the loop clips, where it does"),
    Signal("unclipped_norm", "total norm right before the loop clips"),
    Signal(
        "turned_cosine",
        "cosine between sampled elements of gradients after the backward pass and when the step begins, where the loop "
        "has changed their direction",
    ),
    Signal("loss_scale", "scale of the GradScaler"),
    Signal("backward_passes", "backward passes since the last step"),
    Signal("data_share", "share of the step's time between the end of a step and the next forward pass"),
    Signal("process_mb", "resident memory of the process in 2**20 bytes"),
    Signal("device_mb", "allocated memory of the model's CUDA device in 2**20 bytes"),
)

OF_PARAMETERS: Final = (
    Signal("weight_rms", "root of the mean square of sampled elements"),
    Signal("gradient_rms", "root of the mean square of sampled elements of the gradient"),
    Signal("gradient_zeros", "share of the gradient's elements that are exactly zero"),
    Signal("parameter_update_ratio", "|Δw| / |w| over sampled elements"),
)

OF_LAYERS: Final = (
    Signal("output_mean", "mean of a leaf module's output"),
    Signal("output_std", "its standard deviation over all elements"),
    Signal("output_batch_std", "mean over its features of the standard deviation over the batch"),
    Signal("output_zeros", "share of elements that are exactly zero"),
    Signal(
        "dead_units",
        "share of units without a positive output in the batch: of ReLU-like modules, and of modules "
        "whose output is read by a functional relu",
    ),
    Signal("saturated", "share of elements within 0.01 of a bound: of sigmoid, tanh, hardsigmoid, hardtanh, softmax"),
    Signal("phase_std", "standard deviation, in radians, of what a sine reads: a layer's output times a constant"),
    Signal("unit_similarity", "share of a weight's rows that equal another row of it: units that compute the same"),
)
