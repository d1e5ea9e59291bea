"""What a first loss says of the weights that made it."""

import numpy as np

from debuggers.diagnosis.argument import MODERATE, Argument
from debuggers.diagnosis.derived.initial_weights import USUAL_GAINS
from debuggers.diagnosis.derived.labels import summed_targets, targets_of_a_row
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, ParameterFacts
from debuggers.diagnosis.progress import progress_of

ABOVE = 4.0
"""Times the loss of a uniform guess that a first loss is above it."""
OFF_WAY = 20.0
"""Times the loss of a constant output from which a first loss says how wrong the first weights are."""
_PRODUCTS = ("Mm", "Matmul", "Bmm", "Einsum")
_SHAPING = ("NllLoss", "LogSoftmax", "View", "UnsafeView", "Reshape")


def add_first_loss(argument: Argument, evidence: Evidence) -> bool:
    """Adds a first cross entropy that is far above that of a guess; returns whether it alone says that weights did it.

    Scores that a table of embeddings makes, which reads the inputs, too (Press & Wolf 2017), are as large as its
    vectors are long: the root of their width for those of deviation 1.
    """
    loss, baseline, known = evidence["loss"].finite, evidence["baseline_loss"].finite, evidence.facts.loss
    if not len(loss) or not len(baseline) or known is None or known.kind != "cross_entropy" or known.penalized:
        return False  # a penalty on weights is no part of what a guess costs
    classes, shape = evidence["targets/classes_so_far"].values, known.outputs_shape
    columns = shape[1] if len(shape) > 1 else 2
    guess = float(np.log(max(columns, float(classes[-1]) if len(classes) else 2.0)))
    floor = guess * max(targets_of_a_row(evidence, known), summed_targets(known))
    if floor <= 0 or loss.first <= ABOVE * floor or int(loss.steps[0]) != int(baseline.steps[0]):
        return False
    text = f"the first loss is {loss.first:.3g}, that of a uniform guess about {floor:.3g}"
    progress, table = progress_of(evidence), _scoring_table(evidence.facts, columns)
    is_far_off = loss.first > OFF_WAY * floor and known.reduction == "mean"
    is_far_off &= progress is not None and not progress.failed
    if table is not None:
        text += f": {table.name}, of deviation {table.std:.2g}, makes the scores, too, of {table.shape[1]} columns"
    argument.add(0.6 if is_far_off or table is not None else MODERATE, text, since=int(loss.steps[0]))
    return is_far_off or table is not None


def _scoring_table(facts: Facts, columns: int) -> ParameterFacts | None:
    """The table of embeddings that a product makes the scores with, of no small deviation; None if there is none."""
    nodes = facts.loss.nodes if facts.loss is not None else ()
    behind = [node for node in nodes if not node.startswith(_SHAPING)]
    if not behind or not behind[0].startswith(_PRODUCTS):
        return None
    tables = {f"{layer.name}.weight" for layer in facts.layers if layer.kind.startswith("Embedding")}
    makers = [one for one in facts.parameters if len(one.shape) == 2 and columns in one.shape]
    is_alone = len(makers) == 1 and makers[0].name in tables and makers[0].shape[0] == columns
    return makers[0] if is_alone and makers[0].std * float(np.sqrt(makers[0].shape[1])) > USUAL_GAINS[1] else None
