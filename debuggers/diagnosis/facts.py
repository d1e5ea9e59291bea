"""What is known about a training besides numbers over steps: its model, optimizer, loss, batches, and invariants.

Facts are stored in a run as JSON, so every field has a default: a run of another version still opens.
"""

from typing import Any, Literal

import msgspec
from tracker_adapters.wording import counted

FACTS_NAME = "stepscope/evidence"
"""The name of the text in a run that holds facts and findings; the last one counts."""


OF_ELEMENTS = frozenset({"mse", "rmse", "l1", "smooth_l1", "huber", "quantile", "bce", "bce_with_logits"})
"""Kinds of losses that compare each output by itself."""
OF_VALUES = frozenset({"mse", "rmse", "l1", "smooth_l1", "huber"})
"""Those that compare outputs with values of any size, and are least for outputs that explain their targets."""
OF_NUMBERS = OF_VALUES | {"quantile"}
"""Those that compare outputs with values of any size."""
OF_MARGINS = frozenset({"hinge", "soft_margin", "multi_margin"})
"""Those that want something to be larger than something else, by a margin."""
POSITIVE = ("relu", "softplus", "exp", "square", "abs")
"""Functions whose values are never below zero."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


MOST_ROWS = 128
"""Rows of a table that are compared with each other: see ``ParameterFacts.likeness``."""


class ParameterFacts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """One parameter, as it was at the first step; ``std`` and ``mean`` are of sampled elements, 0 where there are none.

    ``is_sampled`` is False where nothing is known of its elements: on the meta device, of integers, sparse or not yet
    made, and where some are not finite, as after a first step with gradients of NaN of which only the end is seen.
    ``role`` says what happens to it: ``frozen`` requires no gradient, has neither one nor a place in the optimizer that
    trains others, or never moved in a group of the optimizer whose rate is 0; ``without_gradient`` requires one and
    never had it; ``lost_gradient`` had one once; ``outside_optimizer`` is in no group of the optimizer; ``unchanged``
    has gradients and belongs to the optimizer, but its sampled elements never changed. ``moves`` says that it changes
    though it is frozen or has no gradient, as those of a momentum encoder, which are averages of trained ones; of a
    training that was killed it is not known. ``rate``
    is the name of its learning rate's series, if there are several optimizers. ``likeness`` is known of an
    embedding that requires no gradient and has 64 rows or more: the mean square of the cosines between some of its
    rows, at most ``MOST_ROWS``, times their length, which is 1 of rows that are drawn independently.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    rate: str = ""
    mean: float = 0.0
    std: float = 0.0
    is_sampled: bool = True
    role: Literal["trained", "frozen", "without_gradient", "lost_gradient", "outside_optimizer", "unchanged"] = (
        "trained"
    )
    moves: bool = False
    likeness: float | None = None


class LayerFacts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """One leaf module: its name, the name of its class, and ``p`` of a dropout or the momentum of a batch norm."""

    name: str
    kind: str
    value: float | None = None


class GroupFacts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one group of the optimizer that are numbers or flags, such as lr, momentum, weight_decay.

    ``initial_rate`` is the one that a scheduler multiplies, if there is a scheduler.
    """

    parameters: int = 0
    settings: dict[str, float | bool | tuple[float, ...] | None] = {}
    initial_rate: float | None = None


class LossFacts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """What the graph of the loss shows.

    Attributes:
        kind: ``cross_entropy``, ``nll``, ``mse``, ``rmse``, ``l1``, ``smooth_l1``, ``huber``, ``bce``,
            ``bce_with_logits``, ``kl_div``, ``cosine`` (the negative of the cosine similarity), ``log_mse`` (a
            logarithm of squared errors, as in decibels), ``hinge`` and ``soft_margin`` (of scores with targets of 1 and
            -1, or of differences of two sides that are trained, as of triplets and ranks), ``multi_margin``,
            ``quantile`` (the larger of an error times q and times q - 1), ``contrast`` (draws some pairs together and
            others apart), ``overlap`` (the negative of a share of what overlaps, as in dice); ``""`` for others, or if
            there are several.
        reduction: ``mean`` or ``sum``, also where the loop reduces the elements itself; ``mean`` for a sum that is
            divided by the number of its summands or of the batch's rows, with the summands of a row as ``factor``;
            ``none`` where nothing was reduced.
        nodes: Names of the graph's nodes from the loss back to the model's output, at most 64, such as
            ``("DivBackward0", "NllLossBackward0", "LogSoftmaxBackward0")``.
        factor: What the loss is multiplied with after its reduction, where that is a constant; 0.25 for ``/ 4``.
        negated: Whether the loss is the negative of what ``kind`` says.
        before: The last activation between output and loss, or inside of the model's end: ``softmax``,
            ``log_softmax``, ``sigmoid``, ``log_sigmoid``, ``tanh``, ``relu``, ``softplus``, ``exp``, ``silu``,
            ``gelu``, ``mish``, ``hardswish``, ``hardsigmoid``, ``hardtanh``, ``relu6``, ``elu``,
            ``square``, ``abs``; ``""`` for none.
        bounded_by: Of a loss of ``OF_VALUES``, or of quantiles, the activation that bounds what it compares, also if
            constants multiply it afterwards: as ``before``, or ``cosine`` for cosine similarities of trained vectors,
            ``unit_vector`` for vectors divided by their lengths, ``recurrent_state`` for states of an LSTM or GRU,
            ``standard_score`` for what a norm without trained weights puts out; ``""`` for none.
        times: The product of these constants; of standard scores also the largest that there can be.
        temperature: What the outputs are divided by before the softmax of a divergence: gradients are 1/T² of what they
            are without it (Hinton et al. 2015, section 2).
        bound: The largest magnitude that what the loss compares can have, where it is cosines of trained vectors times
            a constant; 0 where that is not known.
        distances: Whether a cross entropy takes for scores what are distances of trained vectors.
        differences: Whether a binary cross entropy compares differences of two sides, as of the two of a pair.
        dropped: The share of what the loss compares that a dropout behind the last layer has set to zero.
        softmax_dim: The dimension of ``outputs_shape`` that the softmax goes over, where the loss takes its classes
            along another one; None otherwise.
        scattered: The shape that had the classes in one dimension, of which a reshape made ``outputs_shape``, where
            they stand in another one; ``()`` otherwise.
        outputs_shape: Shape of what the loss compares with the targets.
        targets_shape: Shape of the targets.
        broadcast: Whether one of the two was expanded to the other's shape.
        terms: How many terms that come from the model's outputs are added up; the other attributes are of one of them.
        penalized: Whether there is a term of parameters alone, such as a penalty on weights.
        weighted: Whether classes or single elements have weights of their own.
        positive_weight: What binary cross entropy multiplies the term of a positive target with, where that is one
            number on the host: its ``pos_weight``.
        class_weight_ratio: How many times as much the class with the largest weight of a cross entropy counts as that
            with the smallest; 1 where classes have no weights, or where they are not known.
        class_weights_follow: 1 where these weights rise with how often each class is among a batch's targets, -1 where
            they fall, by a correlation of more than a half; else 0.
        limit: The error from which a Huber or smooth L1 loss grows as the error itself: its ``delta`` or ``beta``.
        levels: The quantiles, from 0 to 1, that a loss of quantiles asks for, one for each output or one for all, as
            far as they lie on the host.
        ignored: The class index that counts for nothing; None for torch's default, -100.
        smoothing: The share of each target that a cross entropy's label smoothing spreads over all classes.
        confidence_penalty: Times the cross entropy that the negative entropy of the same probabilities is added to it
            (Pereyra et al. 2017); 0 for none, and where it is not known.
        weighs_the_sure: Whether what is added up is a power of the probability of what is right, times minus its
            logarithm: ``trained`` for one that has a gradient, ``constant`` for one without, where its exponent is
            above 1; ``""`` for none. A focal loss (Lin et al. 2017) weighs it with a power of 1 minus that probability.
        one_sided: Whether both summands of a binary cross entropy, with targets of t and 1 - t, draw outputs to the
            same side.
        lowers_drawn: Whether a term is log-probabilities of drawn classes times numbers, without a minus sign: those
            with a high one become less likely.
        lowers: Of a loss of margins, ``each`` or ``largest`` where it makes a score that the layer at the model's end
            puts out, and that an index picks, smaller than each other score of its row, or than the largest of them.
        classes_grow: Whether a cross entropy comes to have many more classes than at first, as one over a queue of keys
            that fills (He et al. 2020): it rises with them.
        parts: What it shows of one term of each kind, if there are several kinds.
    """

    kind: str = ""
    reduction: str = ""
    nodes: tuple[str, ...] = ()
    factor: float = 1.0
    negated: bool = False
    before: str = ""
    bounded_by: str = ""
    times: float = 0.0
    temperature: float = 1.0
    distances: bool = False
    differences: bool = False
    dropped: float = 0.0
    bound: float = 0.0
    softmax_dim: int | None = None
    scattered: tuple[int, ...] = ()
    outputs_shape: tuple[int, ...] = ()
    targets_shape: tuple[int, ...] = ()
    broadcast: bool = False
    terms: int = 1
    penalized: bool = False
    weighted: bool = False
    positive_weight: float = 1.0
    class_weight_ratio: float = 1.0
    class_weights_follow: float = 0.0
    limit: float = 1.0
    levels: tuple[float, ...] = ()
    ignored: int | None = None
    smoothing: float = 0.0
    confidence_penalty: float = 0.0
    weighs_the_sure: Literal["", "trained", "constant"] = ""
    one_sided: bool = False
    lowers_drawn: bool = False
    lowers: Literal["", "each", "largest"] = ""
    classes_grow: bool = False
    parts: tuple["LossFacts", ...] = ()


class BatchFacts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """Shape and dtype of a tensor of the first batch.

    Attributes:
        shape, dtype: Its own.
        integer: Whether it holds whole numbers, as targets that are class indices.
        requires_grad: Of inputs, whether the loop asks for their gradients, as at points of a differential equation.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    integer: bool = False
    requires_grad: bool = False


class InvariantFacts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """How often an invariant was checked and broken, the first step at which it was, and an example."""

    name: str
    checked: int = 0
    broken: int = 0
    first_step: int | None = None
    where: str = ""


class Facts(_Facts, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a training.

    Attributes:
        steps: Steps taken.
        last_step: The number of the last.
        model: The name of its class.
        parameters: At most 1,000.
        layers: The leaf modules, at most 1,000.
        called: The layers that put out values in the order in which they were called first, if it is not theirs there.
        optimizer: The name of its class.
        groups: Its groups, as they were at the first step.
        scheduler: The name of the scheduler's class, if it was given or found.
        without_gradients: The layers that were called in nearly each sampled step, and always without gradients.
        loss: What the loss's graph shows; None if it was not seen.
        inputs, outputs, targets: The first batch's; None if not seen.
        backward_passes: The most frequent number of backward passes a step.
        joins_calls: Whether most backward passes go through more than two calls of the model, as where a loop acts on
            each output, or calls it for each part of a sequence: the first call's inputs are not the batch.
        trained_with_others: Whether backward passes of other models come between its steps, as in a GAN.
        trained_in_parts: Whether another session of the process trained parameters that are frozen here.
        eval_steps: Training steps in eval mode, though the model has layers that act otherwise there.
        keeps_statistics: Whether the model was never in training mode and has batch norms that were trained before,
            whose statistics are kept on purpose then, as where batches are small (He et al. 2017).
        train_validations: Validations in training mode, though the model has such layers.
        validations: Validations that were seen.
        mixed_precision: ``float16`` or ``bfloat16`` under autocast or in the parameters, ``float16`` also where a model
            casts what its layers multiply, else ``""``.
        clips: Whether the loop clips gradients.
        farthest: The largest change of a few elements of each parameter since the first step beside their size, of all
            times that it was looked, as after 25 steps and at the end; None if that is not known.
        weights_replaced: Whether the loop has changed weights after the last step, as where it ends with a checkpoint
            that it restores.
        trained_on: Whether something else has trained the weights on after the last step, as another optimizer.
        invariants: See ``debuggers.diagnosis.invariants``.
        not_told: What the session did not see, with the argument that would tell it.
        gaps: The gaps of the session's coverage.
        gaps_after: The number of steps after which these were stored, of a training that goes on or was killed; 0 for
            those of the session's end.
        first_nans: Where the first NaN came from, one sentence for each answer of a replayed step.
        error: The exception that ended the training, in one line.
        world_size: Number of ranks.
        probes: Results of ``session.probe``, by the probe's name.
    """

    steps: int = 0
    last_step: int = -1
    model: str = ""
    parameters: tuple[ParameterFacts, ...] = ()
    layers: tuple[LayerFacts, ...] = ()
    called: tuple[str, ...] = ()
    optimizer: str = ""
    groups: tuple[GroupFacts, ...] = ()
    scheduler: str = ""
    without_gradients: tuple[str, ...] = ()
    loss: LossFacts | None = None
    inputs: BatchFacts | None = None
    outputs: BatchFacts | None = None
    targets: BatchFacts | None = None
    backward_passes: int = 1
    joins_calls: bool = False
    trained_with_others: bool = False
    trained_in_parts: bool = False
    eval_steps: int = 0
    keeps_statistics: bool = False
    train_validations: int = 0
    validations: int = 0
    mixed_precision: str = ""
    clips: bool = False
    farthest: float | None = None
    weights_replaced: bool = False
    trained_on: bool = False
    invariants: tuple[InvariantFacts, ...] = ()
    not_told: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    gaps_after: int = 0
    first_nans: tuple[str, ...] = ()
    error: str = ""
    world_size: int = 1
    probes: dict[str, dict[str, Any]] = {}

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What was not checked: the gaps of the session's coverage, and what it neither saw nor was told."""
        when = f"after {counted(self.gaps_after, 'steps')}, " if self.gaps_after else ""
        since = [gap for gap in self.not_told if gap not in self.gaps]
        return (*(f"{when}{gap}" for gap in self.gaps), *since)
