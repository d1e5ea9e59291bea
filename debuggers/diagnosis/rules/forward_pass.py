"""Causes in how a model is called: in the wrong mode, or so that the samples of a batch influence each other."""

import numpy as np

from debuggers.diagnosis.argument import Argument
from debuggers.diagnosis.evidence import Evidence

SIZES = 2
"""Lengths of batches: that of all, and that of the last one of an epoch."""
OFTEN = 0.2
"""Share of rows that come again, from which they are samples."""


def wrong_mode(evidence: Evidence) -> Argument:
    """Training steps in eval mode, or validations in training mode, of a model that acts otherwise there."""
    argument = Argument("wrong_mode")
    facts = evidence.facts
    if facts.steps and facts.eval_steps > 0.3 * facts.steps and not facts.keeps_statistics:
        argument.add(
            0.85, f"the model was in eval mode at {facts.eval_steps:,} of {facts.steps:,} training steps", since=0
        )
        argument.advice = "Call model.train() before each epoch: validation has left the model in eval mode."
    if facts.train_validations:
        argument.add(
            0.85,
            f"{facts.train_validations} of {max(facts.validations, facts.train_validations)} "
            f"validations ran in training mode: {' and '.join(_that_act(evidence))}",
        )
        argument.advice = "Call model.eval() before validation and model.train() after it."
    if any(one.name == "no_dropout_in_validation" and one.broken for one in facts.invariants):
        argument.add(
            0.85,
            "the model draws random numbers in evaluation mode, too, and its training has masks of dropout that come "
            "from no module: functional.dropout drops unless it is told self.training",
        )
        argument.advice = "functional.dropout(x, p, training=self.training), or torch.nn.Dropout(p)."
    return argument


def _that_act(evidence: Evidence) -> list[str]:
    """What a model's layers do in training mode; both where none is known."""
    kinds = [layer.kind for layer in evidence.facts.layers]
    drops, learns = ("dropout is on", "batch norm learns from the validation data")
    known = [text for text, kind in ((drops, "Drop"), (learns, "BatchNorm")) if any(kind in one for one in kinds)]
    return known or [drops, learns]


def batch_mixing(evidence: Evidence) -> Argument:
    """What a sample puts out depends on the others of its batch: a probe sees it, or an operator's dimensions tell.

    Sizes may be equal by chance in single batches, but seldom in the smaller one at an epoch's end, too.
    """
    argument = Argument("batch_mixing")
    probe = evidence.facts.probes.get("batch_mixing", {})
    if probe.get("mixed"):
        argument.add(0.9, str(probe.get("evidence", "an output depends on another sample of its batch")))
    for invariant in evidence.facts.invariants:
        if invariant.name == "samples_are_apart" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(0.85, invariant.where, since=invariant.first_step)
        elif invariant.name == "first_is_batch" and invariant.broken >= max(3, 0.8 * invariant.checked):
            again = _rows_that_come_again(evidence)
            if again > OFTEN:
                argument.add(
                    0.85,
                    f"{invariant.where}; it is the batch: {again:.0%} of what stands along it comes again in later "
                    "batches as it was",
                    since=invariant.first_step,
                )
                argument.advice = "Pass batch_first=True to the layer, or transpose its inputs."
    argument.advice = argument.advice or "Look for view, reshape, transpose, softmax or mean over the first dimension."
    return argument


def _rows_that_come_again(evidence: Evidence) -> float:
    """The share of a late batch's rows that earlier batches had, without those that are equal within one, as padding.

    Along time, other samples stand side by side in each batch that is drawn. Not where a whole batch comes again, as
    pieces of long series do in each epoch, nor where their length changes from piece to piece.
    """
    again, equal, whole, size = (
        evidence[f"inputs/{name}"].finite for name in ("repeated_rows", "duplicates", "repeated", "batch_size")
    )
    of_new = ~np.isin(again.steps, whole.steps[whole.values > 0])
    late = again.values[of_new][-max(3, int(of_new.sum()) // 3) :]
    if len(late) < 3 or len(np.unique(size.values)) > SIZES:
        return 0.0
    return float(np.median(late)) - equal.late(3).median(0.0)
