"""A cause in the rows: they come several times in a batch, or hardly any others come."""

from math import log2, prod

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.input_kinds import are_codes
from debuggers.diagnosis.derived.roles import trained_weights
from debuggers.diagnosis.derived.visits import FAR_ABOVE, MANY_VISITS, MOSTLY_EQUAL, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_MARGINS
from debuggers.diagnosis.progress import constant_level, progress_of

FULL_BATCH_FROM = 64
"""A batch of at least so many rows that comes again and again may be the whole data set."""
BATCH_SIZES = (1, 2, 4, 8, 10, 16, 20, 24, 32, 48, 50, 64, 128, 256, 512)
"""Numbers of rows that batches have, and whole data sets hardly ever."""
ELSEWHERE = 3.0
"""Times that rows of a batch equal others more often than outside of one class, if a sampler draws that class more."""
BY_HEART = 5.0
"""Weights for each target from which a model keeps a few rows one by one: one is enough for any labels of random rows
(Baum 1988)."""
_ALL_ROWS = ("LBFGS", "Rprop")
"""Optimizers that are given all rows at each step: their steps rest on what changed since the last one."""
FEW_AGREEMENTS = 5
"""Measured batches with equal rows from which it counts whether their targets are equal, too."""
COLUMNS = 8
"""Columns from which a handful of rows is no whole data set."""
KNOWN = 0.98
"""Share of a constant output's loss that is learnt where rows are known to the last."""
KNOWN_WITH_NOISE = 0.9
"""The same where dropout leaves some of the loss, however well rows are known."""
HOLDS = 0.3
"""Share of the loss of a constant output below which that of a validation says that what was learnt holds."""
LARGEST_KNOWN = 128
"""Rows of the largest usual batch that is not taken for the whole data set where it is known by heart."""
BY_CHANCE = 0.03
"""Share of a batch's rows by which more are equal where each was repeated equally often, as some are by themselves."""
COPIES = 0.9
"""Share of equal rows with equal targets from which they may be copies, but for wrong labels."""
FEW_BATCHES = 2.5
"""Batches that a data set fills at least, if it is one and not what a sampler or a slice has left of it."""


def duplicated_data(evidence: Evidence) -> Argument:
    """Rows repeat within batches, or small batches come again and again."""
    argument = Argument("duplicated_data")
    if evidence.facts.joins_calls or not _belong_to_outputs(evidence):
        return argument
    same, size = evidence["inputs/duplicates"], evidence["inputs/batch_size"]
    rows, top = size.median(0.0), evidence["inputs/top_row_share"]
    share = same.late(3).median(0.0)  # where a data set grows, fewer rows repeat
    if rows >= 4 and share >= 0.3 + _unavoidable(evidence, rows):
        argument.add(STRONG, f"{share:.0%} of the rows of a batch equal another row of it", since=same.first_step)
        if top.median(0.0) - 1 / rows > MOSTLY_EQUAL * share:
            argument.against(STRONG, "nearly all are one and the same row: see inputs_constant")
        elif share >= 1 - 1.5 / rows:
            argument.against(STRONG, "all rows are equal: see inputs_constant")
        elif (copies := _each_so_often(same.finite.values, rows)) is not None:
            argument.against(STRONG, copies)
        elsewhere = evidence["inputs/duplicates_elsewhere"].finite
        if len(elsewhere) and elsewhere.median() < share / ELSEWHERE:
            argument.against(
                STRONG,
                f"of the rows of other classes than one, {elsewhere.median():.0%} do: a sampler draws that class more "
                "often, as for a rare one",
            )
        if (places := _visited_again(evidence, rows, share)) is not None:
            argument.against(STRONG, places)
        elif (kinds := _same_codes(evidence)) is not None:
            argument.against(STRONG, kinds)
        elif (drawn := _drawn_without_targets(evidence, rows, share)) is not None:
            argument.against(STRONG, drawn)
    _add_repeated_batches(argument, evidence, rows)
    if argument.cause is None and (drawn := _few_rows(evidence, rows)) is not None:
        argument.add(0.55, drawn)
        if _is_learnt_alone(evidence, FAR_ABOVE):
            argument.against(WEAK, "what comes of it is a validation loss far above the training loss: see overfitting")
    for found in evidence.found("same_batch_on_ranks"):
        argument.add(STRONG, f"{found.evidence}: a DistributedSampler is missing", since=found.step, where=[found.name])
    argument.advice = (
        "Check the sampler, the worker's random seed (worker_init_fn) and joins that repeat rows; compare batches with "
        "torch.unique(inputs, dim=0)."
    )
    return argument


def _each_so_often(shares: npt.NDArray[np.float64], rows: float) -> str | None:
    """What to say of rows each of which comes as often as the others, in each batch: it was repeated; else None.

    As for several draws, answers or masks of each. A sampler that is at fault repeats some more than others.
    """
    least = float(shares.min()) if len(shares) >= 3 else 0.0
    times = 1 / (1 - least) if least < 1 else 0.0
    is_whole = abs(times - round(times)) < 1e-6 and 2 <= times <= rows / 2
    if not is_whole or float(np.median(shares)) > least + BY_CHANCE:
        return None
    return f"each row of a batch comes {times:.0f} times: it was repeated on purpose"


def _add_repeated_batches(argument: Argument, evidence: Evidence, rows: float) -> None:
    """Adds that nearly all sampled batches had come before, unless such a batch may be the whole data set."""
    again = evidence["inputs/repeated"]
    if len(again) < 8:
        return
    repeated = float(np.mean(again.values[1:]))
    if repeated <= 0.9:
        return
    weights, wanted = trained_weights(evidence), rows * _of_a_row(evidence)
    is_meant = _is_meant(evidence, rows) or _is_a_table(evidence, rows)
    may_be_all = rows not in BATCH_SIZES or is_meant
    if rows < FULL_BATCH_FROM and not may_be_all:
        argument.add(
            STRONG, f"{repeated:.0%} of the sampled batches had come before, value by value", since=again.first_step
        )
        if 0 < weights < wanted:
            argument.against(
                MODERATE,
                f"{weights:,} weights cannot learn the {wanted:,.0f} targets of a batch by heart: it may be the "
                "whole data set",
            )
    elif _may_be_known(evidence, rows) and not is_meant and _is_known(evidence) and weights > BY_HEART * wanted:
        argument.add(
            0.6,
            f"every batch is the same {rows:.0f} rows, and {weights:,} weights have learnt them by heart",
            since=again.first_step,
        )
    elif not may_be_all and _are_learnt(evidence):
        argument.add(
            STRONG,
            f"{repeated:.0%} of the sampled batches are the same {rows:.0f} rows, and the validation loss is far "
            "above what came of them",
            since=again.first_step,
        )
    elif len(evidence.validation) == 0:
        argument.add(0.1, f"every batch is the same {rows:.0f} rows")


def _is_a_table(evidence: Evidence, rows: float) -> bool:
    """Whether a batch has room for all codes that its columns can have, as a truth table."""
    inputs = evidence.facts.inputs
    return inputs is not None and are_codes(evidence) and rows >= 1 and log2(rows) >= prod(inputs.shape[1:])


def _of_a_row(evidence: Evidence) -> int:
    """How many targets a row has; a class is one."""
    targets = evidence.facts.targets or evidence.facts.outputs
    return prod(targets.shape[1:]) if targets is not None else 1


def _is_learnt_alone(evidence: Evidence, times: float) -> bool:
    """Whether a validation shows that what was learnt does not hold for others: it is so many times the loss."""
    validation, progress = evidence.validation.finite.values, progress_of(evidence)
    return progress is not None and len(validation) >= 3 and float(np.median(validation[-2:])) > times * progress.last


def _holds_for_others(evidence: Evidence) -> bool:
    """Whether a validation shows that most of what there is to learn holds for other rows."""
    validation, progress = evidence.validation.finite, progress_of(evidence)
    return progress is not None and len(validation) > 0 and validation.last < HOLDS * constant_level(evidence, progress)


def _are_learnt(evidence: Evidence) -> bool:
    """Whether rows are learnt that a validation's are not."""
    progress = progress_of(evidence)
    is_alone = _is_learnt_alone(evidence, 3.0) and not _holds_for_others(evidence)
    return progress is not None and progress.learnt > 0.5 and is_alone


def _is_known(evidence: Evidence) -> bool:
    """Whether hardly anything of the loss of a constant output is left, of rows of many columns.

    A few points of a curve or a surface may be all that there are.
    """
    progress, inputs = progress_of(evidence), evidence.facts.inputs
    if inputs is None or prod(inputs.shape[1:]) < COLUMNS:
        return False
    drops = any("Drop" in layer.kind for layer in evidence.facts.layers)
    enough = KNOWN_WITH_NOISE if drops else KNOWN
    return progress is not None and len(evidence["baseline_loss"]) > 0 and progress.learnt > enough


def _may_be_known(evidence: Evidence, rows: float) -> bool:
    """Whether so many rows that are known by heart are hardly a whole data set: few, or as many as batches have.

    Of a larger batch, a validation may show that what was learnt holds for others.
    """
    if rows < FULL_BATCH_FROM:
        return True
    return rows <= LARGEST_KNOWN and rows in BATCH_SIZES and not _holds_for_others(evidence)


def _is_meant(evidence: Evidence, rows: float) -> bool:
    """Whether a loop trains on the same rows on purpose: one picture, points of an equation, all rows for LBFGS."""
    facts = evidence.facts
    has_points = facts.inputs is not None and facts.inputs.requires_grad
    return has_points or facts.optimizer in _ALL_ROWS or _is_one_picture(evidence, rows)


def _is_one_picture(evidence: Evidence, rows: float) -> bool:
    """Whether a batch is one row with a field of targets: a picture whose places are the data.

    A deep image prior is fitted to it (Ulyanov et al. 2018), and so is a single volume or film.
    """
    targets = evidence.facts.targets or evidence.facts.outputs
    return rows == 1 and targets is not None and len(targets.shape) > 2 and prod(targets.shape) >= FULL_BATCH_FROM


def _few_rows(evidence: Evidence, rows: float) -> str | None:
    """What to say of batches that are drawn again and again from hardly more rows than one has; None if they are not.

    Such a data set is what a slice or a sampler has left of one. Codes may be all that there are.
    """
    seen = visits(evidence)
    if seen is None or seen.each < 2 * MANY_VISITS or are_codes(evidence):
        return None
    is_little = rows < seen.rows < min(FEW_BATCHES * rows, FULL_BATCH_FROM)
    text = f"batches of {rows:.0f} rows are drawn from about {seen.rows:.0f}, each of which came {seen.each:.0f} times"
    again = evidence["inputs/repeated"]
    are_same = len(again) > 0 and again.late().median() == 1 and rows < seen.rows < FULL_BATCH_FROM
    if are_same and _is_known(evidence) and trained_weights(evidence) > BY_HEART * seen.rows * _of_a_row(evidence):
        return f"{text}, in the same batches, until they are known by heart"
    return text if is_little else None


def _unavoidable(evidence: Evidence, rows: float) -> float:
    """The share of a batch's rows that equal another one by chance, where inputs are of few kinds.

    Numbers of users, words, the places of a small world; measurements are equal only if they are one and the same.
    """
    kinds = _kinds(evidence) if rows >= 1 and are_codes(evidence) else 0.0
    return _drawn_again(kinds, rows)


def _visited_again(evidence: Evidence, rows: float, share: float) -> str | None:
    """What to say of rows that are the few places of a small world; None if they may be copies.

    Random draws from so few would repeat as many, and equal rows come with other targets, which copies do not.
    """
    agree, seen = evidence["inputs/duplicates_agree"].finite, visits(evidence)
    if seen is None or len(agree) < FEW_AGREEMENTS or agree.median() > MOSTLY_EQUAL:
        return None
    if share > _drawn_again(seen.rows, rows) + 2 / np.sqrt(rows):
        return None
    return (
        f"equal rows have the same target in {agree.median():.0%} only, and random draws from about {seen.rows:.0f} "
        "repeat as many: they are places that are visited again"
    )


def _drawn_without_targets(evidence: Evidence, rows: float, share: float) -> str | None:
    """What to say of few rows that a loss of pairs draws again and again; None where it has targets, or of others.

    Partners are drawn with replacement, and each from a class alone, so from no more than half of the rows.
    """
    seen, loss = visits(evidence), evidence.facts.loss
    if seen is None or loss is None or loss.kind not in OF_MARGINS or evidence.facts.targets is not None:
        return None
    if seen.each < MANY_VISITS or rows < seen.rows / 4 or share > _drawn_again(max(1.0, seen.rows / 2), rows):
        return None
    return (
        f"the loss draws pairs from about {seen.rows:.0f} rows, {rows:.0f} of them for a batch, in which some come "
        "several times"
    )


def _same_codes(evidence: Evidence) -> str | None:
    """What to say of equal rows of whole numbers with several targets, as of short or cut texts; None of copies.

    Some kinds come far more often than others, so that a batch repeats more than draws from as many kinds would.
    """
    agree, inputs = evidence["inputs/duplicates_agree"].finite, evidence.facts.inputs
    if inputs is None or not inputs.integer or len(agree) < FEW_AGREEMENTS or agree.median() > COPIES:
        return None
    return f"equal rows of whole numbers have the same target in {agree.median():.0%} only: they are no copies"


def _drawn_again(kinds: float, rows: float) -> float:
    """The share of n random draws from m kinds that equal another one: m (1 - (1 - 1/m)^n) are different."""
    return 1 - kinds * (1 - (1 - 1 / kinds) ** rows) / rows if kinds >= 1 else 0.0


def _kinds(evidence: Evidence) -> float:
    """How many different rows there are: as many as columns if they are one-hot and none came again; 0 if unknown."""
    seen, mean, inputs = visits(evidence), evidence["inputs/mean"].finite.values, evidence.facts.inputs
    if seen is not None:
        return seen.rows
    if inputs is None or inputs.integer or len(inputs.shape) != 2 or not len(mean):
        return 0.0
    return float(inputs.shape[1]) if np.allclose(mean, 1 / inputs.shape[1], rtol=1e-3) else 0.0


def _belong_to_outputs(evidence: Evidence) -> bool:
    """Whether inputs may be the rows that the loss compares: not, say, all items that each query is compared with."""
    inputs, loss = evidence.facts.inputs, evidence.facts.loss
    if inputs is None or loss is None or not inputs.shape or not loss.outputs_shape:
        return True
    ours, theirs = inputs.shape[0], loss.outputs_shape[0]
    return ours == 0 or theirs == 0 or ours % theirs == 0 or theirs % ours == 0
