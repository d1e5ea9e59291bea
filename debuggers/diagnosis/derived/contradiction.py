"""Outputs that are right no more often than chance, although their loss is far below what chance would leave."""

import math
from dataclasses import dataclass

import numpy as np

from debuggers.diagnosis.derived.chance import binomial_deviation, is_below
from debuggers.diagnosis.derived.relation import CHANCE, FEWEST
from debuggers.diagnosis.evidence import Evidence

FAR = 2.0
"""Times the most frequent class's share from which an accuracy is far above it."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A mean cross entropy, and what goes with it.

    Attributes:
        level: The loss, in nats.
        expected: The accuracy that goes with it, from 0 to 1.
        found: The accuracy of the outputs.
        is_reversed: Whether that is below chance, too, by more than chance explains: the right one is the smallest.
    """

    level: float
    expected: float
    found: float
    is_reversed: bool


def contradiction(evidence: Evidence) -> Contradiction | None:
    """Returns how loss and accuracy contradict each other; None if they do not, or cannot be compared.

    Of probabilities p that are as sure as they are right, the largest is right with the mean of max p, which by
    Jensen's inequality is at least exp(-L) for a mean cross entropy of L; of others L is only larger.
    """
    accuracy, losses, outputs = evidence["accuracy"].finite, evidence["loss"].finite, evidence.facts.outputs
    loss, chances = evidence.facts.loss, evidence["targets/top_share_so_far"].values[-1:]
    if loss is None or outputs is None or not len(chances) or np.prod(outputs.shape) != np.prod(loss.outputs_shape):
        return None
    is_plain = loss.kind == "cross_entropy" and loss.terms == 1 and not loss.parts and not loss.penalized
    is_mean = loss.reduction == "mean" and loss.factor == 1 and not loss.weighted and loss.ignored is None
    steps, ours, theirs = np.intersect1d(accuracy.steps, losses.steps, return_indices=True)
    if not (is_plain and is_mean) or len(steps) < FEWEST:
        return None
    late = slice(-max(FEWEST, len(steps) // 3), None)
    level, found = float(np.mean(losses.values[theirs][late])), float(np.mean(accuracy.values[ours][late]))
    if level < 0:  # no cross entropy is
        return None
    expected, chance = math.exp(-level), float(chances[0])
    if expected < FAR * chance:
        return None
    count = len(steps[late])
    by_chance = chance + CHANCE * binomial_deviation(evidence, chance, count)
    # Of a few rows, as in batches of one, either accuracy is possible.
    too_few = expected - CHANCE * binomial_deviation(evidence, expected, count)
    if found >= min(by_chance, too_few):
        return None
    most = slice(len(steps) // 3, None)
    right = float(np.mean(accuracy.values[ours][most]))
    is_reversed = is_below(evidence, right, chance, len(steps[most]), deviations=CHANCE)
    if is_reversed and any(node.startswith("Neg") for node in loss.nodes) and _are_distances(evidence):
        return None
    return Contradiction(level, expected, found, is_reversed)


def _are_distances(evidence: Evidence) -> bool:
    """Whether outputs are never below zero, as distances and energies are, of which the smallest is the answer."""
    lowest = evidence["outputs/min"].finite.values
    return len(lowest) >= FEWEST and bool((lowest >= 0).all())
