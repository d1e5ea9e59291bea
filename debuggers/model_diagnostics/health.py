"""A score of a training's health with stated weights, and recommendations."""

from collections.abc import Iterator

from debuggers.model_diagnostics.dynamics import TrainingDynamics

WEIGHTS = {"finite": 0.35, "convergence": 0.25, "stability": 0.2, "generalisation": 0.1, "throughput": 0.1}
"""What each part weighs: by how much of a training its failure wastes. Parts that are not known are left out."""
FELL_WELL = 0.5
"""A loss that fell by half has the full score."""
RISEN = 0.5
"""What the score is multiplied with where the loss rose."""
UNSTABLE = 0.8
"""Stability below which advice is given: noise above a quarter of the loss."""
WIDE_GAP = 0.5
"""Validation loss above one and a half times the training loss."""
SLOWER = -0.2
"""Throughput lower by a fifth."""


def health_parts(dynamics: TrainingDynamics) -> dict[str, float]:
    """Returns the score of each part that is known, from 0 to 1.

    ``finite``: 1 if all losses are finite, else 0. ``convergence``: the share by which the loss fell, over 0.5.
    ``stability``: as it is. ``generalisation``: 1 minus the gap. ``throughput``: 1 plus its change. All are cut to
    0 to 1.
    """
    known = {
        "finite": None if dynamics.non_finite is None else float(dynamics.non_finite == 0),
        "convergence": None if dynamics.convergence is None else dynamics.convergence / FELL_WELL,
        "stability": dynamics.stability,
        "generalisation": None if dynamics.generalisation_gap is None else 1 - dynamics.generalisation_gap,
        "throughput": None if dynamics.throughput_change is None else 1 + dynamics.throughput_change,
    }
    return {part: min(1.0, max(0.0, score)) for part, score in known.items() if score is not None}


def health_score(dynamics: TrainingDynamics) -> float | None:
    """Returns the mean of the parts, weighted by ``WEIGHTS``, from 0 to 1; None while convergence is not known.

    It is halved where the loss rose: calm steps in the wrong direction are no sign of health.
    """
    parts = health_parts(dynamics)
    if "convergence" not in parts and parts.get("finite") != 0:
        return None
    mean = sum(WEIGHTS[part] * score for part, score in parts.items()) / sum(WEIGHTS[part] for part in parts)
    return mean * RISEN if dynamics.convergence is not None and dynamics.convergence < 0 else mean


def recommendations_for(dynamics: TrainingDynamics) -> tuple[str, ...]:
    """Returns what to look at, the heaviest first; empty where nothing speaks for it or nothing is known."""
    return tuple(_recommendations(dynamics))


def _recommendations(dynamics: TrainingDynamics) -> Iterator[str]:
    if dynamics.non_finite:
        yield f"{dynamics.non_finite:.1%} of the losses are NaN or infinite: stability.FirstNaNFinder finds the first"
    fell = dynamics.convergence
    if fell is not None and fell < 0:
        yield f"the loss rose by {-fell:.0%}: lower the learning rate, and check the sign of the loss and the gradients"
    elif fell is not None and dynamics.plateau and fell < 0.05:
        yield f"the loss stands still after falling by {fell:.1%}: check learning rate, targets and frozen layers"
    if dynamics.stability is not None and dynamics.stability < UNSTABLE:
        noise = 1 / dynamics.stability - 1 if dynamics.stability else float("inf")
        yield f"the loss jumps by {noise:.0%} of itself between records: lower the learning rate or enlarge the batch"
    gap = dynamics.generalisation_gap
    if gap is not None and gap > WIDE_GAP:
        yield f"the validation loss is {gap:.0%} above the training loss: regularise, stop earlier, or use more data"
    change = dynamics.throughput_change
    if change is not None and change < SLOWER:
        yield f"the throughput fell by {-change:.0%}: look for memory that grows, and for slow data loading"
