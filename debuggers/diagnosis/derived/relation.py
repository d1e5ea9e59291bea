"""Whether outputs have to do with their targets: by their correlation, their size, and the loss of new rows."""

import math

import numpy as np

from debuggers.diagnosis.derived.chance import binomial_deviation
from debuggers.diagnosis.derived.updates import TRIAL, travelled
from debuggers.diagnosis.derived.visits import FEW_VISITS, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES
from debuggers.diagnosis.progress import Progress

FAR = 30.0
"""Times the size of first outputs from which targets are far away: usual ones are of a size of about 1."""
FEWEST = 5
"""Batches or losses from which something is said."""
SETTLED = 1.05
"""Times their magnitude by which outputs may grow in a quarter of a training and have settled all the same."""
HARDLY, UNRELATED = 0.1, 0.2
"""Share of its first value that a divergence fell by, and a correlation, up to which little but rows was learnt."""
CHANCE = 4.0
"""Standard deviations of a binomial share beyond which a result is no chance: one in 30,000 of a normal one."""


def explains(evidence: Evidence) -> bool:
    """Whether outputs, scaled and shifted, would explain a quarter of the variance of the targets: r² of late batches.

    The squared correlation of outputs and targets is what the best line through them explains, whatever the loss is.
    """
    late = evidence["correlation"].finite.late(FEWEST)
    drawn = len(late) * evidence["inputs/batch_size"].finite.median(1.0)
    return len(late) >= FEWEST and late.median() > max(0.5, CHANCE / math.sqrt(drawn))


def late_correlation(evidence: Evidence, name: str = "correlation") -> tuple[float, float] | None:
    """Returns the mean correlation of late batches, and up to which it may be chance; None where it is not known."""
    known, rows = evidence[name].finite.values, evidence["inputs/batch_size"].finite.values
    late = known[-max(FEWEST, len(known) // 3) :]
    if len(late) < FEWEST or not len(rows):
        return None
    return float(np.mean(late)), 2 / math.sqrt(len(late) * max(1.0, float(np.median(rows)) - 3))


def hits(evidence: Evidence) -> tuple[float, float] | None:
    """Returns the accuracy of late batches and the share of the most frequent class, if it is above that by no chance.

    None otherwise, and where they are not known.
    """
    accuracy, top = evidence["accuracy"].finite, evidence["targets/top_share_so_far"]
    if not len(accuracy) or not len(top):
        return None
    last, share = accuracy.late().values, top.last
    late = float(np.mean(last))
    return (late, share) if late > share + CHANCE * binomial_deviation(evidence, share, len(last)) else None


def ordered_classes(evidence: Evidence) -> float | None:
    """Returns the correlation of two classes with their outputs in late batches, if it is no chance; else None."""
    related = late_correlation(evidence, "binary_correlation")
    return related[0] if related is not None and related[0] > CHANCE / 2 * related[1] else None


def is_by_chance(evidence: Evidence) -> bool | None:
    """Whether outputs tell their targets no better than chance: by their accuracy, or by their correlation.

    The best outputs are constant then, by any loss. Those of two classes may tell much of a rare one that is never the
    likelier of the two.

    Returns:
        None where neither is known. The accuracy of a single step is that of an untrained model.
    """
    if len(evidence["accuracy"].finite) >= FEWEST and len(evidence["targets/top_share_so_far"]):
        return hits(evidence) is None and ordered_classes(evidence) is None
    related = late_correlation(evidence)
    return None if related is None else abs(related[0]) < related[1]


def learnt_of_each(evidence: Evidence, progress: Progress) -> float:
    """The part of what there is to learn that was learnt, no more than what outputs explain of their targets' variance.

    Where a row has several targets, the mean of each has a lower loss than the mean of all, which ``learnt`` is
    compared with.
    """
    loss, explained = evidence.facts.loss, evidence["r2"].finite.late(FEWEST)
    is_known = loss is not None and loss.kind in OF_VALUES and len(explained) >= FEWEST
    return min(progress.learnt, explained.median()) if is_known else progress.learnt


def reconstructs(evidence: Evidence) -> bool:
    """Whether the targets are the inputs: at each sampled step they have one mean, deviation, and range."""
    pairs = [(evidence[f"inputs/{name}"], evidence[f"targets/{name}"]) for name in ("mean", "std", "min", "max")]
    return all(
        len(ours) >= FEWEST
        and np.array_equal(ours.steps, theirs.steps)
        and np.allclose(ours.values, theirs.values, rtol=1e-5, atol=1e-7)
        for ours, theirs in pairs
    )


def learnt_of_new_rows(evidence: Evidence) -> float | None:
    """The loss of rows that were new to the model, if it is below that of a constant output by more than chance.

    What is learnt by heart of some rows says nothing of new ones, so only targets that have to do with the inputs can
    bring this loss down. Rows are new up to the first epoch's end, and for good where hardly any comes again.

    Returns:
        The mean loss in the second half of those steps; None if it is not below, or where rows are not known.
    """
    loss, baseline = evidence["loss"].finite.values, evidence["baseline_loss"].finite.values
    again, size = evidence["inputs/repeated_rows"], evidence["inputs/batch_size"]
    if not len(again) or not len(size) or not len(baseline):
        return None
    seen = visits(evidence)
    if seen is not None:
        loss = loss[: int(seen.rows / size.median())]
    fresh = loss[len(loss) // 2 :]
    if len(fresh) < FEWEST:
        return None
    error = float(fresh.std(ddof=1)) * math.sqrt(1 / len(fresh) + 1 / len(baseline))
    level = float(fresh.mean())
    return level if level < float(baseline[-1]) - CHANCE * error else None


def reaches(evidence: Evidence) -> bool:
    """Whether outputs are as large as what they can explain of the targets: their mean, and r times their deviation.

    A least-squares fit has just that deviation. Few targets that are far off, as those of a robust loss, do not count.
    """
    (centre, spread), (mean, deviation) = (
        [evidence[f"{side}/{name}"].finite.late(3).median() for name in ("mean", "std")]
        for side in ("targets", "outputs")
    )
    correlation = evidence["correlation"].finite.late(3)
    share = float(np.median(np.abs(correlation.values))) if len(correlation) else 1.0
    return bool(np.hypot(mean, deviation) >= 0.3 * np.hypot(centre, share * spread))


def has_far_to_go(evidence: Evidence) -> bool:
    """Whether targets are far larger than first outputs, so that weights have to grow, and outputs not beyond them."""
    (mean, deviation), (centre, spread) = (
        [evidence[f"{side}/{name}"].finite for name in ("mean", "std")] for side in ("outputs", "targets")
    )
    if not all(map(len, (mean, deviation, centre, spread))):
        return False
    size = float(np.hypot(centre.late(3).median(), spread.late(3).median()))
    first = np.hypot(mean.first, deviation.first)
    last = np.hypot(mean.late(3).median(), deviation.late(3).median())
    return bool(size > FAR * first and last < 2 * size)


def settled_reach(evidence: Evidence) -> float | None:
    """The magnitude at which outputs have settled that is far too small for what they explain; None if there is none.

    A least-squares fit with the correlation r has a deviation of r times that of the targets. Outputs that go with
    their targets, have less than a third of it, and do not grow any more cannot: scaling them is what a last layer does
    first. Those of a state or a tanh come near 1, and no further.
    """
    low, high, deviation = (evidence[f"outputs/{name}"].finite for name in ("min", "max", "std"))
    correlation, spread = evidence["correlation"].finite, evidence["targets/std"].finite
    if min(map(len, (low, high, deviation, correlation, spread))) < 2 * FEWEST:
        return None
    reach = np.maximum(np.abs(low.values), np.abs(high.values))
    half = len(reach) // 4
    before, now = float(reach[-2 * half : -half].max()), float(reach[-half:].max())
    explained = correlation.late(3).median()
    too_small = explained > 0.4 and deviation.late(3).median() < explained * spread.late(3).median() / 3
    stops = now < SETTLED * before or 1 / SETTLED**2 < now <= 1
    return now if too_small and stops else None


def answers_others(evidence: Evidence, progress: Progress) -> str:
    """What to say of a divergence from shares that hardly falls, in outputs that hardly go with them; "" of others.

    As of a teacher's scores for other rows. What its best constant output leaves is not known; what rows have in common
    with their own shares comes long before they are learnt by heart.
    """
    loss, seen, related = evidence.facts.loss, visits(evidence), late_correlation(evidence)
    if loss is None or loss.kind != "kl_div" or loss.terms > 1 or seen is None or related is None:
        return ""
    was_tried = seen.each > FEW_VISITS and progress.points >= TRIAL and travelled(evidence) > 1
    if not was_tried or progress.failed or progress.fell > HARDLY or abs(related[0]) > UNRELATED:
        return ""
    return (
        f"the divergence went from {progress.first:.3g} to {progress.last:.3g} only, while each row came "
        f"{seen.each:.0f} times and all updates together came to {travelled(evidence):.1f} times the weights' size, "
        f"and the correlation of outputs and targets is {related[0]:.2f}"
    )
