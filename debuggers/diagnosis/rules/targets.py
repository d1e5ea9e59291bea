"""Targets that outputs cannot reach, or that are of another shape."""

import re

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, STRONG, Argument
from debuggers.diagnosis.derived.relation import reaches, settled_reach
from debuggers.diagnosis.derived.updates import TRIAL, UNDER_WAY, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_NUMBERS, OF_VALUES, POSITIVE, LossFacts
from debuggers.diagnosis.progress import progress_of

RANGES = dict.fromkeys(POSITIVE, (0.0, np.inf)) | {
    "sigmoid": (0.0, 1.0), "hardsigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "tanh": (-1.0, 1.0),
    "hardtanh": (-1.0, 1.0), "relu6": (0.0, 6.0), "elu": (-1.0, np.inf),
    "cosine": (-1.0, 1.0), "unit_vector": (-1.0, 1.0), "recurrent_state": (-1.0, 1.0),
    "standard_score": (-1.0, 1.0), "silu": (-0.279, np.inf),
    "gelu": (-0.17, np.inf), "mish": (-0.309, np.inf), "hardswish": (-0.375, np.inf),
}  # fmt: skip
"""What activations can put out: bounds that they reach, or only approach."""
_WITHOUT_ACTIVATION = {
    "unit_vector": "the division of vectors by their length", "recurrent_state": "the state of a recurrent layer",
    "standard_score": "a norm without weights of its own",
}  # fmt: skip
"""What else bounds outputs, and what it is called."""
_UNBOUNDED = ("Addmm", "Mm", "Linear", "Convolution")
"""How the names of operators begin that put out values of any size, at the model's end."""
_SELECTING = ("SelectBackward", "UnbindBackward", "SplitBackward", "SliceBackward")
"""How the names of operators begin that leave columns out, as of one output for each class."""
BEYOND = 0.05
"""Share of the targets' range, and of their variance, that may lie beyond the bounds."""


def target_out_of_range(evidence: Evidence) -> Argument:
    """Targets lie outside of what the activation at the model's end can reach, or are no index of a class."""
    argument = Argument("target_out_of_range")
    loss = evidence.facts.loss or LossFacts()
    low, high = evidence["targets/min"].finite, evidence["targets/max"].finite
    if len(low) and len(high) and not _stand_for_rows(evidence, loss):
        smallest, largest = float(low.values.min()), float(high.values.max())
        bounds, squashing = _bounds(loss)
        if loss.kind in OF_NUMBERS and bounds is not None:
            width = max(largest - smallest, 1e-12)
            beyond = max(bounds[0] - smallest, largest - bounds[1], 0.0)
            if beyond > BEYOND * width and _lost(evidence, loss, bounds, beyond) > BEYOND:
                argument.add(
                    CERTAIN,
                    f"targets reach from {smallest:.3g} to {largest:.3g}, {squashing} "
                    f"only from {bounds[0]:.3g} to {bounds[1]:.3g}",
                    since=int(low.steps[0]),
                )
                remedy = f"Remove {squashing} from the model's end"
                if loss.bounded_by in ("recurrent_state", "standard_score"):
                    remedy = f"Put a linear layer behind {squashing}"
                argument.advice = f"{remedy}, or scale the targets into its range."
        if loss.kind in ("bce", "bce_with_logits") and (smallest < 0 or largest > 1):
            argument.add(CERTAIN, f"targets reach from {smallest:.3g} to {largest:.3g}; {loss.kind} expects 0 to 1")
            argument.advice = "Bring targets to 0 and 1, such as (targets + 1) / 2 for -1 and 1."
        _add_scale(argument, evidence, loss, smallest, largest)
    if re.search(r"[Tt]arget -?\d+ is out of bounds|index out of range|Assertion `t >= 0", evidence.facts.error):
        argument.add(CERTAIN, f"the training ended with: {evidence.facts.error}")
        argument.advice = (
            "Class indices go from 0 to the number of outputs minus 1; unknown words need an index of their own."
        )
    return argument


def _bounds(loss: LossFacts) -> tuple[tuple[float, float] | None, str]:
    """Between which values outputs lie, and by what; None where that is not known."""
    known = RANGES.get(loss.bounded_by or loss.before)
    squashing = _WITHOUT_ACTIVATION.get(loss.bounded_by, loss.bounded_by or loss.before)
    if loss.bounded_by in _WITHOUT_ACTIVATION and loss.terms > 1:  # the targets may be those of another head
        return None, ""
    if known is None or not loss.times or loss.times == 1:
        return known, squashing
    ends = sorted(loss.times * end for end in known)
    if loss.bounded_by != "standard_score":
        squashing += f" times {loss.times:.3g}"
    return (ends[0], ends[1]), squashing


def _lost(evidence: Evidence, loss: LossFacts, bounds: tuple[float, float], beyond: float) -> float:
    """At most what share of the targets' variance is out of reach; 1 where that is not known.

    Where only some batches of n targets hold any beyond the bounds, a share q of them, it is 1 - (1 - q)^(1/n) of the
    targets, as of a long tail, and each misses by no more than the furthest.
    """
    low, high = evidence["targets/min"].finite, evidence["targets/max"].finite
    rows, deviation = evidence["inputs/batch_size"].finite.median(0.0), evidence["targets/std"].finite.median(0.0)
    if len(low) != len(high) or rows < 1 or deviation <= 0:
        return 1.0
    held = float(np.mean((low.values < bounds[0]) | (high.values > bounds[1])))
    targets = rows * float(np.prod(loss.targets_shape[1:]))
    return float((1 - (1 - held) ** (1 / targets)) * (beyond / deviation) ** 2)


def _stand_for_rows(evidence: Evidence, loss: LossFacts) -> bool:
    """Whether the targets that were told are indices of which the loop makes rows, such as one-hot ones."""
    return len(evidence["targets/classes"]) > 0 and float(np.prod(loss.outputs_shape[1:])) > 1


def _add_scale(argument: Argument, evidence: Evidence, loss: LossFacts, smallest: float, largest: float) -> None:
    """Targets far larger than what the outputs reach."""
    reached, lowest = evidence["outputs/max"].finite, evidence["outputs/min"].finite
    progress = progress_of(evidence)
    if loss.kind not in OF_NUMBERS or not len(reached) or progress is None:
        return
    size = max(abs(smallest), abs(largest))
    got = max(abs(lowest.last), abs(reached.last)) if len(lowest) else 0.0
    if size > 50 and got < 0.3 * size and progress.last > 0.3 * progress.first and not reaches(evidence):
        argument.add(
            0.6, f"targets reach from {smallest:.3g} to {largest:.3g}, outputs {got:.3g} in magnitude at the end"
        )
        argument.advice = "Standardise the targets and scale the predictions back."
    bound = None if loss.nodes and loss.nodes[-1].startswith(_UNBOUNDED) else settled_reach(evidence)
    if argument.cause is None and bound is not None and progress.points >= TRIAL and travelled(evidence) > UNDER_WAY:
        argument.add(
            0.6,
            f"outputs go with the targets and stay below {bound:.3g} in magnitude, as if they were bounded, while "
            f"targets reach from {smallest:.3g} to {largest:.3g}: scaled alone, they would explain far more",
        )
        argument.advice = (
            "Put a linear layer behind what is bounded, such as the state of a recurrent layer, or scale the targets "
            "into its range."
        )


def shape_broadcast(evidence: Evidence) -> Argument:
    """One of outputs and targets was expanded to the other's shape inside the loss."""
    argument = Argument("shape_broadcast")
    loss = evidence.facts.loss
    shown = None if loss is None else next((part for part in loss.parts if part.broadcast), loss)
    argument.advice = "Give both one shape: outputs.squeeze(-1), or targets.unsqueeze(-1)."
    if shown is not None and shown.broadcast and shown.kind in ("nll", "cross_entropy"):
        argument.add(
            CERTAIN,
            f"the losses of {shown.targets_shape[0] if shown.targets_shape else 'all'} rows and what multiplies them "
            "are broadcast to one another: the loss of every row meets the weight of every row",
        )
        argument.advice = "Give both one shape: weights.squeeze(-1)."
    elif shown is not None and shown.broadcast and not _are_samples(shown) and not _are_levels(shown):
        size = f" of shape {tuple(shown.targets_shape)}" if shown.targets_shape else ""
        argument.add(
            CERTAIN,
            f"outputs of shape {tuple(shown.outputs_shape)} and targets{size} are broadcast "
            "to one another: every output is compared with every target",
        )
    elif loss is not None and loss.kind in OF_VALUES | {"bce", "bce_with_logits"}:
        ours, theirs = tuple(loss.outputs_shape), tuple(loss.targets_shape)
        # What was only put into another shape has as many elements.
        is_meant = _are_samples(loss) or _are_levels(loss) or any(node.startswith(_SELECTING) for node in loss.nodes)
        if ours and theirs and ours != theirs and np.prod(ours) != np.prod(theirs) and not is_meant:
            argument.add(STRONG, f"outputs have shape {ours}, targets {theirs}")
    outputs, targets = evidence.facts.outputs, evidence.facts.targets
    compared = loss is not None and loss.outputs_shape  # else the loop may have squeezed one of them
    if argument.cause is None and outputs is not None and targets is not None and loss is not None and not compared:
        ours, theirs = tuple(outputs.shape), tuple(targets.shape)
        if loss.kind in OF_VALUES and sorted((ours, theirs), key=len) == [ours[:1], (*ours[:1], 1)]:
            argument.add(STRONG, f"the model's output has shape {ours}, the targets {theirs}")
    return argument


def _are_samples(loss: LossFacts) -> bool:
    """Whether there are several outputs for each row of targets, one below the other, as samples of a decoder."""
    return len(loss.targets_shape) > 1 and loss.outputs_shape[1:] == loss.targets_shape


def _are_levels(loss: LossFacts) -> bool:
    """Whether each row's one target is compared with all of its outputs, which have weights of their own.

    As those of quantiles have: what is compared belongs together.
    """
    ours, theirs = loss.outputs_shape, loss.targets_shape
    return loss.weighted and len(ours) == 2 and ours[1] > 1 and theirs == (ours[0], 1)
