"""A cause in the modes of modules: evaluation mode in training steps, or training mode in a validation."""

from debuggers.diagnosis.argument import Argument
from debuggers.diagnosis.evidence import Evidence


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
