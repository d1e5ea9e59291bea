"""What targets are, as far as their numbers tell: labels of a row, or indices of classes."""

import math

import numpy as np

from debuggers.diagnosis.derived.relation import FEWEST
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LossFacts

EVENLY = 0.75
"""Share of the deviation of numbers that are spread evenly from which whole numbers do not crowd about their mean."""


def labels_of_a_row(evidence: Evidence, loss: LossFacts) -> float:
    """How many of a row's labels are 1 on average, over the shortest dimension that a softmax may have; 0 if unknown.

    Rows without a label, such as padding, make it smaller; only what excludes nothing makes it larger than 1.
    """
    mean, labels = evidence["targets/mean"].finite, evidence["targets/classes"]
    sizes = [size for size in loss.outputs_shape[1:] if size > 1]
    if len(mean) < FEWEST or not len(labels) or not sizes or loss.outputs_shape != loss.targets_shape:
        return 0.0
    reached = evidence["targets/max"].finite.values
    # A loop may tell indices of classes where its loss compares one-hot rows; those of two classes look like labels.
    if len(reached) and (float(reached.max()) > 1 or (min(sizes) == 2 and not len(evidence["targets/most_labels"]))):
        return 0.0
    return float(np.mean(mean.values)) * min(sizes)


def are_drawn(evidence: Evidence) -> bool:
    """Whether the loss weighs log-probabilities of classes, as of what a policy has drawn, by gains of either sign.

    A policy may have one state, as a bandit's has, and comes to draw one of all.
    """
    loss = evidence.facts.loss
    picks = loss is not None and any(node.startswith(("Gather", "Index", "Nll")) for node in loss.nodes)
    return loss is not None and not loss.kind and loss.weighted and picks


def targets_of_a_row(evidence: Evidence, loss: LossFacts) -> float:
    """How many cross entropies the loss adds up for a row: its labels, the places of its sequence, or several terms.

    What it is multiplied with counts alike: of a sum over all targets that is divided by the rows, the targets of one.
    """
    inputs, places = evidence.facts.inputs, 1.0
    # Of one-hot rows, a sum is over the classes.
    if any(node.startswith("Sum") for node in loss.nodes) and loss.targets_shape not in ((), loss.outputs_shape):
        rows = loss.targets_shape[0] if inputs is None or not inputs.shape else inputs.shape[0]
        places = math.prod(loss.targets_shape) / max(1, rows)
    return max(places, loss.terms, abs(loss.factor), labels_of_a_row(evidence, loss))


def summed_targets(loss: LossFacts) -> float:
    """How many cross entropies of targets a sum over the batch comes to; 1 of another loss.

    Of one-hot rows each is one target.
    """
    if loss.reduction != "sum" or not loss.targets_shape:
        return 1.0
    ours = loss.targets_shape[:1] if loss.targets_shape == loss.outputs_shape else loss.targets_shape
    return max(1.0, math.prod(ours) * abs(loss.factor))


def index_classes(evidence: Evidence) -> int:
    """How many classes there are, if all targets seem to be the whole numbers from 0 on; 0 if not.

    The indices of C classes of about the same size deviate by √((C² - 1) / 12), as do numbers that are spread evenly.
    Counts and sums are whole numbers, too: they crowd about their mean.
    """
    low, high, mean, size, spread = (
        evidence[name].finite
        for name in ("targets/min", "targets/max", "targets/mean", "inputs/batch_size", "targets/std")
    )
    steps, places, sizes = np.intersect1d(mean.steps, size.steps, return_indices=True)
    if len(steps) < FEWEST or not len(low) or not len(high):
        return 0
    sums = mean.values[places] * size.values[sizes]
    whole = np.concatenate([low.values, high.values])
    top = float(high.values.max())
    is_index = float(low.values.min()) == 0 and 2 <= top < 100 and (whole == np.round(whole)).all()
    if not is_index or spread.median(math.inf) < EVENLY * math.sqrt(((top + 1) ** 2 - 1) / 12):
        return 0
    # A mean in float32 has 24 bits.
    return int(top) + 1 if (np.abs(sums - np.round(sums)) < 1e-5 * np.maximum(1, sums)).all() else 0
