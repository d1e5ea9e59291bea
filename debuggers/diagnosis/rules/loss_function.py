"""Causes in the loss: what the graph of the loss and the range of its values show."""

import itertools
import re

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, STRONG, Argument
from debuggers.diagnosis.derived.contradiction import contradiction
from debuggers.diagnosis.derived.labels import index_classes, labels_of_a_row
from debuggers.diagnosis.derived.pairs import add_left_out
from debuggers.diagnosis.derived.relation import FEWEST, reconstructs
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES, POSITIVE, LossFacts

_WITHOUT_LOGARITHM = (
    "Add", "Baddbmm", "Bmm", "Convolution", "Div", "Linear", "Mean", "Mm", "Mul", "Native", "Slow", "Sum"
)  # fmt: skip
"""How the names of operators begin that put out no logarithms: products, sums and norms."""
_OF_SHARES = ("sigmoid", "hardsigmoid", "softmax")
MOSTLY = 0.5
"""Share of the batches with a row of several labels from which rows may have several."""
MORE_THAN_ONE = 1.02
"""Labels of a row on average that are more than one each: float32 means of large batches are off by far less."""
_SHAPE_ERRORS = re.compile(
    r"all elements of input should be between 0 and 1|expected scalar type Long|0D or 1D target tensor expected|"
    r"multi-target not supported|must be the same as input size|expected (?:floating|Float|Long)"
)


def wrong_output_or_loss(evidence: Evidence) -> Argument:
    """The activation before the loss is not the one that the loss expects, or its error message says so."""
    argument = Argument("wrong_output_or_loss")
    loss = evidence.facts.loss or LossFacts()
    for part in (loss, *loss.parts):
        _add_activation(argument, evidence, part)
        _add_dimension_of_classes(argument, part)
        _add_competing_labels(argument, evidence, part)
        _add_weight_of_the_sure(argument, evidence, part)
        _add_one_side(argument, part)
    _add_range_signs(argument, evidence, loss)
    _add_contradiction(argument, evidence)
    _add_error(argument, evidence.facts.error)
    return argument


def _add_activation(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """The activation before a loss, or before one of its terms."""
    whole = evidence.facts.outputs  # the loop may squeeze what the loss compares
    shape = loss.outputs_shape if len(loss.outputs_shape) > 1 or whole is None else whole.shape
    width = shape[1] if len(shape) > 1 else 0
    if loss.kind == "cross_entropy" and loss.before in ("softmax", "sigmoid", "hardsigmoid", "tanh", "hardtanh"):
        range_of_logits = 2 if "tanh" in loss.before else 1
        argument.add(
            CERTAIN,
            f"cross_entropy expects logits but gets the output of {loss.before}: its lowest value is "
            f"{np.log1p((max(width, 2) - 1) / np.e**range_of_logits):.2f}, not 0",
        )
        argument.advice = f"Remove {loss.before} from the model's end; apply it where probabilities are read."
    elif loss.kind in ("cross_entropy", "bce_with_logits") and loss.before in ("relu", "relu6", "softplus", "exp"):
        what = "a class has no gradient where its logit would be below 0"
        if loss.kind == "bce_with_logits":
            what = "no probability is below 1/2"
        elif loss.before in ("softplus", "exp"):
            what = "a class can only be likelier than the others, by logits above 0"
        name = loss.kind.replace("bce", "binary_cross_entropy")
        weight = STRONG if loss.before.startswith("relu") or loss.kind == "bce_with_logits" else 0.45
        argument.add(weight, f"{name} expects logits but gets the output of {loss.before}: {what}")
        argument.advice = f"Remove {loss.before} from the model's end."
    elif loss.kind == "cross_entropy" and 0 < loss.bound <= 1 and width > 1:
        argument.add(
            CERTAIN,
            f"cross_entropy gets cosines times {loss.bound:g} as logits: with {width} of them its lowest value is "
            f"{np.log1p((width - 1) * np.exp(-2 * loss.bound)):.2f}, not 0, and chance is {np.log(width):.2f}",
        )
        argument.advice = "Multiply cosines by a scale of 10 to 30, that is, divide them by a temperature, or train it."
    elif loss.kind == "cross_entropy" and width == 1:
        argument.add(CERTAIN, "cross_entropy gets one output a sample: its softmax is always 1 and the loss 0")
        argument.advice = "Use two outputs, or BCEWithLogitsLoss with the one."
    elif loss.kind == "bce_with_logits" and loss.before in ("sigmoid", "hardsigmoid", "softmax", "tanh", "hardtanh"):
        argument.add(CERTAIN, f"binary_cross_entropy_with_logits expects logits but gets the output of {loss.before}")
        argument.advice = f"Remove {loss.before} from the model's end, or use BCELoss."
    elif loss.kind == "nll" and loss.before not in ("log_softmax", "log_sigmoid") and _has_no_logarithm(loss):
        argument.add(STRONG, f"nll_loss expects log-probabilities but gets {loss.before or 'plain'} outputs")
        argument.advice = "Use cross_entropy, or apply log_softmax before nll_loss."
    elif loss.kind == "kl_div" and "log" not in loss.before and _has_no_logarithm(loss):
        argument.add(STRONG, f"kl_div expects log-probabilities but gets {loss.before or 'plain'} outputs")
        argument.advice = "Apply log_softmax to the first argument of kl_div."
    elif (taken := _exponentiated(loss)) is not None:
        argument.add(
            0.7,
            f"the loss takes the exponential of the output of {taken}, which is never negative: what it compares "
            "with the targets is never below 1",
        )
        argument.advice = f"Remove {taken} from the model's end, or tell the loss that it gets no logarithms."
    elif loss.kind in ("hinge", "soft_margin") and loss.targets_shape and loss.before in (*POSITIVE, *_OF_SHARES):
        argument.add(
            STRONG,
            f"the {loss.kind.replace('_', ' ')} loss expects scores of both signs but gets the output of "
            f"{loss.before}, which is never negative: a target of -1 is out of its reach",
        )
        argument.advice = f"Remove {loss.before} from the model's end; compare scores with 0 where classes are read."
    elif loss.before == "softmax" and width == 1:
        argument.add(CERTAIN, "softmax over one output is always 1")
        argument.advice = "Use sigmoid, or no activation, for one output."


def _add_dimension_of_classes(argument: Argument, loss: LossFacts) -> None:
    """A softmax over another dimension than that of the classes, or a reshape in the place of a permutation."""
    if loss.softmax_dim is not None:
        argument.add(
            CERTAIN,
            f"the softmax goes over dimension {loss.softmax_dim} of {loss.outputs_shape}, and the loss takes its "
            "classes along another dimension: the shares of the classes do not add up to 1",
        )
        argument.advice = "Take the softmax over the dimension of the classes, such as log_softmax(dim=-1)."
    elif loss.scattered:
        argument.add(
            CERTAIN,
            f"a reshape of {loss.scattered} makes the {loss.outputs_shape} of which the loss takes its classes: the "
            "scores of one place are parts of those of others",
        )
        argument.advice = "Move the dimension of the classes by permute or transpose, not by view or reshape."


def _add_competing_labels(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """Several labels of a row, of which a softmax can reach only one."""
    softmax = {
        "cross_entropy": "cross_entropy takes a softmax",
        "bce": "binary_cross_entropy gets the output of softmax",
    }
    takes_one = loss.kind == "cross_entropy" or (loss.kind == "bce" and loss.before == "softmax")
    # Of a row's own counts, as words of a text or clicks of a user, a softmax is a model: the multinomial likelihood.
    takes_one = takes_one and not _are_pairs(evidence, loss) and not reconstructs(evidence)
    most = evidence["targets/most_labels"].finite.values
    together = float(np.mean(most >= 2)) if len(most) >= FEWEST else 0.0
    alike = loss.outputs_shape == loss.targets_shape
    if takes_one and alike and together > MOSTLY and labels_of_a_row(evidence, loss) <= MORE_THAN_ONE:
        argument.add(
            CERTAIN,
            f"{softmax[loss.kind]}, which adds up to 1, and in {together:.0%} of the batches a sample has up to "
            f"{most.max():.0f} labels",
        )
        argument.advice = "Use BCEWithLogitsLoss without a softmax for labels that do not exclude one another."
    elif takes_one and (count := labels_of_a_row(evidence, loss)) > MORE_THAN_ONE:
        argument.add(
            CERTAIN,
            f"{softmax[loss.kind]}, which adds up to 1, and the labels of a sample add up to {count:.2f} on average",
        )
        argument.advice = "Use BCEWithLogitsLoss without a softmax for labels that do not exclude one another."


def _add_weight_of_the_sure(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """A focal loss with the wrong weight: minus pᵍ log p is 0 for p = 0, too, and falls on the way there.

    With a weight that has no gradient it is the descent of 1 - pᵍ, which is robust to wrong labels for exponents of up
    to 1 (Zhang and Sabuncu 2018), and with larger ones as long as most is found.
    """
    accuracy = evidence["accuracy"].finite
    is_lost = len(accuracy) >= FEWEST and accuracy.late(3).median() < MOSTLY
    if loss.weighs_the_sure == "trained" or (loss.weighs_the_sure == "constant" and is_lost):
        argument.add(
            0.85 if loss.weighs_the_sure == "trained" else STRONG,
            "the loss weighs the logarithm of the probability p of what is right with a power of p itself: it counts "
            "for nothing what is wrong, and most what is right already",
        )
        argument.advice = "Weigh it with (1 - p) ** gamma, as a focal loss does."


def _add_one_side(argument: Argument, loss: LossFacts) -> None:
    """A binary cross entropy written down with a slip: what is added up is the same for either target, or falls."""
    if loss.one_sided:
        argument.add(
            CERTAIN,
            "both summands of the binary cross entropy, that of the targets and that of 1 minus them, draw outputs to "
            "the same side: its lowest value says nothing of the targets",
        )
        argument.advice = "Use binary_cross_entropy_with_logits: -(y log p + (1 - y) log(1 - p)) is what it takes."


def _are_pairs(evidence: Evidence, loss: LossFacts) -> bool:
    """Whether the batch's rows are compared with one another: those of a kind are several, as in contrastive losses."""
    shape, outputs = loss.outputs_shape, evidence.facts.outputs
    return len(shape) == 2 and shape[0] == shape[1] and outputs is not None and outputs.shape != shape


def _has_no_logarithm(loss: LossFacts) -> bool:
    """Whether no logarithm stands between the model's end and the loss, and that end is none.

    Of the last operator that was seen it must be known: compiled code, or what joins several results, may hold one.
    """
    is_known = bool(loss.before) or any(node.startswith(_WITHOUT_LOGARITHM) for node in loss.nodes[-1:])
    return is_known and not any(node.startswith("Log") for node in loss.nodes)


def _exponentiated(loss: LossFacts) -> str | None:
    """The activation of which the loss takes the exponential, of those that are never negative; None if of none.

    That of the model's end stands behind all nodes where these end at the output, as of one that is squeezed.
    """
    operators = [node for node in loss.nodes if not node.startswith(("View", "Squeeze", "Reshape", "Select", "ToCopy"))]
    if loss.before in POSITIVE and not any(node.lower().startswith(loss.before) for node in operators):
        operators.append(loss.before)
    for outer, inner in itertools.pairwise(operators):
        if outer == "ExpBackward0":
            return next((name for name in POSITIVE if inner.lower().startswith(name)), None)
    return None


def _add_range_signs(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    series = evidence["loss"].finite
    sums = evidence["outputs/row_sum_error"].finite
    if (
        loss.kind == "cross_entropy"
        and not loss.before
        and "LogBackward0" not in loss.nodes  # of probabilities, which the loop takes itself
        and len(sums) >= 3
        and float(sums.values.max()) < 1e-3
        and (not loss.outputs_shape or loss.outputs_shape[-1] > 1)
    ):
        argument.add(
            STRONG, "cross_entropy expects logits, but the rows of the model's output are probabilities (they sum to 1)"
        )
        argument.advice = "Remove the softmax from the model's end."
    add_left_out(argument, evidence, loss)
    if loss.kind == "nll" and len(series) and float(series.values.min()) < 0:
        argument.add(STRONG, f"the loss is negative ({series.values.min():.3g}): its input cannot be a log-probability")
    count = index_classes(evidence)
    if (
        loss.kind in OF_VALUES
        and loss.terms == 1
        and count
        and (not loss.outputs_shape or 1 in (len(loss.outputs_shape), loss.outputs_shape[-1]))
    ):
        argument.add(0.6, f"{loss.kind} fits one number to what look like the indices of {count} classes")
        argument.advice = f"Use {count} outputs and cross_entropy, unless the order of the classes means something."


def _add_contradiction(argument: Argument, evidence: Evidence) -> None:
    """Outputs that are right no more often than chance, although their loss is far below it: it has them otherwise."""
    found = contradiction(evidence)
    if found is not None and not found.is_reversed:  # see flipped_loss_sign
        argument.add(
            0.85,
            f"a loss of {found.level:.3g} goes with an accuracy of about {found.expected:.0%}, and that of the outputs "
            f"is {found.found:.0%}, no more than chance: the loss compares them in another order",
        )
        argument.advice = "Move dimensions with transpose or permute, not with view or reshape, before cross_entropy."


def _add_error(argument: Argument, error: str) -> None:
    if _SHAPE_ERRORS.search(error):
        argument.add(0.85, f"the training ended with: {error}")
        argument.advice = (
            argument.advice or "Compare the loss's documentation with shape and dtype of outputs and targets."
        )
