"""Causes in the state in which a loop leaves a model: with frozen parameters, or in the wrong mode."""

from collections.abc import Sequence

from tracker_adapters.wording import some_of

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.batch_norms import ENOUGH, idle_norms, late_norm, put_out_little
from debuggers.diagnosis.derived.initial_weights import (
    drawn_alike,
    fresh_weights,
    new_behind_trained,
    unrelated_rows,
    untouched,
)
from debuggers.diagnosis.derived.roles import ALL, share_of, with_role
from debuggers.diagnosis.derived.updates import SMALL_RATIO, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import LITTLE, Progress, progress_of

FEWEST_STEPS = 100
"""Steps after which a loss that has hardly fallen says that training gets nowhere."""
FEWEST_SAMPLED = 10
"""Sampled steps from which gradients that have ended do not come back."""
STOOD = 0.03
"""Share of their size that all updates of weights come to, below which they have stood still."""
HALF = 0.5
"""Share of what there is to learn, above which tables of random vectors may be enough."""
SOME = 0.2
"""Share of a model from which it matters that it is not trained."""
SLIGHT_DROPOUT = 0.1
"""Share that a dropout takes away which does little, whether it is at work or not."""


def frozen_parameters(evidence: Evidence) -> Argument:
    """Many parameters are frozen and training gets nowhere: frozen backbones that are good enough are healthy.

    What had gradients until late was trained, and frozen behind it. What changes without gradients is an average of
    what is trained, or codes that follow their inputs. Where another session has trained some of them, as in boosting,
    parts are trained in turn: the others' turn comes.
    """
    argument = Argument("frozen_parameters")
    names, progress = with_role(evidence, "frozen"), progress_of(evidence)
    if names and _add_switched_off(argument, evidence, names):
        return argument
    moving = {one.name for one in evidence.facts.parameters if one.moves}
    names = [name for name in names if name not in moving and not _was_trained(evidence, name)]
    share = share_of(evidence, names)
    if not names or progress is None:
        return argument
    how, argument.advice = _how_frozen(evidence, names)
    matrices = [one.name for one in evidence.facts.parameters if len(one.shape) > 1]
    new = _add_new(argument, evidence, progress, matrices)
    fewest = 0.0 if progress.learnt < HALF and _all_enters_by(evidence, names) else SOME
    if share <= fewest:
        return argument
    fresh = [name for name in fresh_weights(evidence, "frozen") if name in names]
    text = f"{some_of(names, 3)}: {share:.0%} of the model are frozen{how}"
    weight_of_still, still = _others_stand(evidence)
    gets_nowhere = progress.learnt < 0.1 and progress.points >= FEWEST_STEPS and not progress.failed
    weight = MODERATE if gets_nowhere else WEAK
    argument.add(weight, text, since=0, where=names)
    random = untouched(evidence)
    is_random = share_of(evidence, random) > fewest and set(random) <= set(names) and not _make_do(evidence, progress)
    drawn, told = _drawn_tables(evidence, progress, fewest, still=bool(still))
    if is_random:
        argument.add(
            0.55,
            f"what is frozen ({some_of(random, 3)}) is as it was initialised, to within the errors of a sample: "
            "nothing has ever trained it",
            where=random,
        )
    elif drawn and set(drawn) <= set(names):
        argument.add(0.55, told, where=drawn)
    elif fresh and share_of(evidence, fresh) > SOME:
        argument.add(
            weight,
            f"{some_of(fresh, 3)} still have the spread of PyTorch's default initialisation: nothing trained them",
        )
    if len(matrices) > 1 and set(matrices) <= set(fresh):
        argument.add(
            MODERATE, f"none of the {len(matrices)} weights is trained, up to the outputs: they stay random projections"
        )
    if gets_nowhere:
        argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
    elif (
        _is_little(share_of(evidence, fresh), share_of(evidence, matrices), progress.learnt)
        and progress.points >= FEWEST_STEPS
    ):
        argument.add(0.35, f"what is trained has learnt little: the loss fell by {progress.fell:.0%}")
    elif not (is_random or new) and progress.learnt > 0.5:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    if gets_nowhere and still:
        argument.against(weight_of_still, still)
    if evidence.facts.trained_in_parts:
        argument.against(STRONG, "another session has trained some of them: parts may be trained in turn")
    return argument


def _how_frozen(evidence: Evidence, names: Sequence[str]) -> tuple[str, str]:
    """By what parameters are frozen, where it is not that they require no gradient, and what to do about it."""
    gradients = evidence.of_tensors("gradient_rms")
    if any(len(gradients.get(name, ())) for name in names):
        advice = "Give their group of the optimizer a learning rate above 0 if that is not intended."
        return " by a learning rate of 0, though they have gradients", advice
    return "", (
        "Unfreeze them if that is not intended: for p in model.parameters(): "
        "p.requires_grad_(True), before the optimizer is made."
    )


def _add_new(argument: Argument, evidence: Evidence, progress: Progress, matrices: Sequence[str]) -> bool:
    """Adds a layer that is new behind trained ones; where much was learnt, one of several may look so by chance."""
    new = new_behind_trained(evidence) if progress.points >= FEWEST_STEPS else ""
    if not new or (progress.learnt >= LITTLE and new not in matrices[-1:]):
        return False
    little = f", and the loss fell by {progress.fell:.0%} only" if progress.learnt < LITTLE else ""
    argument.add(
        0.6,
        f"{new} is frozen as it was initialised, behind layers that were trained{little}: it is new, and was to be "
        "trained",
        where=[new],
    )
    return True


def _all_enters_by(evidence: Evidence, names: Sequence[str]) -> bool:
    """Whether the model's first weight is one of these and a table: however small it is, nothing passes it by."""
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    first = next((one.name for one in evidence.facts.parameters if len(one.shape) > 1), "")
    return first in names and kinds.get(first.rpartition(".")[0], "").startswith("Embedding")


def _drawn_tables(evidence: Evidence, progress: Progress, fewest: float, *, still: bool) -> tuple[list[str], str]:
    """Frozen tables that look drawn at random, and why, where little or not much was learnt; ([], "") if none do."""
    drawn = drawn_alike(evidence)
    if progress.learnt < LITTLE and not still and share_of(evidence, drawn) > fewest:
        text = "have a mean of 0 and one standard deviation, to within the errors of a sample, as if drawn at random"
        return drawn, f"the {len(drawn)} frozen tables {text}"
    drawn = unrelated_rows(evidence)
    if progress.learnt < HALF and share_of(evidence, drawn) > fewest:
        text = "no more alike than vectors that are drawn at random: nothing has ever trained them"
        return drawn, f"the rows of {some_of(drawn, 3)} are frozen and {text}"
    return [], ""


def _others_stand(evidence: Evidence) -> tuple[float, str]:
    """How much it counts that steps change what is trained by next to nothing of its size, and why; (0, "") if not."""
    typical, way = evidence["update_ratio"].finite.median(SMALL_RATIO), travelled(evidence)
    if typical < SMALL_RATIO:
        return MODERATE, f"a step changes the others by {typical:.1g} of their size: they stand still, too"
    if 0 < way < STOOD:
        return STRONG, f"all updates of the others come to {way:.1%} of their size: they stand still, too"
    return 0.0, ""


def _add_switched_off(argument: Argument, evidence: Evidence, names: Sequence[str]) -> bool:
    """Adds that a whole model was frozen, or that switching parameters on again has failed; whether it did."""
    if share_of(evidence, names) > ALL and _gradients_ended(evidence):
        argument.add(
            CERTAIN,
            f"all {len(names)} parameters are frozen, and none had a gradient in the second half of the training",
            where=names[:5],
        )
        argument.advice = "Switch them on again before the model's own step: model.requires_grad_(True)."
        return True
    flag = next(
        (one for one in evidence.facts.invariants if one.name == "flags_are_of_parameters" and one.broken), None
    )
    if flag is not None and "= True" in flag.where:
        argument.add(
            0.9,
            f"{flag.where} was set, which trains nothing: {some_of(names, 3)} are frozen still",
            since=flag.first_step,
            where=names[:5],
        )
        argument.advice = "Call module.requires_grad_(True), which sets requires_grad of each parameter."
        return True
    return False


def _make_do(evidence: Evidence, progress: Progress) -> bool:
    """Whether random weights may be enough: nearly all was learnt, as by random features (Huang et al. 2006).

    Or normalisations are trained, which make much of them (Frankle et al. 2021).
    """
    if progress.learnt > ENOUGH:
        return True
    norms = {layer.name for layer in evidence.facts.layers if "Norm" in layer.kind}
    return any(one.role == "trained" and one.name.rpartition(".")[0] in norms for one in evidence.facts.parameters)


def _gradients_ended(evidence: Evidence) -> bool:
    """Whether there were gradients once, and none in the second half of the sampled steps."""
    known = [series.steps[-1] for series in evidence.of_tensors("gradient_rms").values() if len(series)]
    sampled = next((series.steps for series in evidence.of_tensors("output_std").values() if len(series)), ())
    return bool(known) and len(sampled) >= FEWEST_SAMPLED and max(known) < sampled[len(sampled) // 2]


def _was_trained(evidence: Evidence, name: str) -> bool:
    """Whether a parameter had gradients in the second half of the steps, and was ever changed."""
    known, updates = (evidence.of_tensors(one).get(name) for one in ("gradient_rms", "parameter_update_ratio"))
    moved = updates is None or not len(updates) or bool(updates.values.any())
    return moved and known is not None and len(known) > 0 and 2 * int(known.steps[-1]) > evidence.facts.last_step


def _is_little(fresh: float, matrices: float, learnt: float) -> bool:
    """Whether what a model has learnt is little for such a share of its matrices that nothing trained."""
    return fresh > 0.5 and learnt < (0.5 if fresh > 0.95 * matrices else LITTLE)


def wrong_mode(evidence: Evidence) -> Argument:
    """Training steps in eval mode, or validations in training mode, of a model that acts otherwise there."""
    argument = Argument("wrong_mode")
    facts, progress = evidence.facts, progress_of(evidence)
    # Statistics that are kept on purpose are those of the data: what they normalise is of a usual size.
    learns = progress is None or progress.learnt > ENOUGH
    keeps = facts.keeps_statistics and (learns or not put_out_little(evidence))
    if facts.steps and facts.eval_steps > 0.3 * facts.steps and not keeps:
        argument.add(
            MODERATE if _drops_little(evidence) else 0.85,
            f"the model was in eval mode at {facts.eval_steps:,} of {facts.steps:,} training steps",
            since=next((one.first_step for one in facts.invariants if one.name == "eval_mode_in_training"), 0),
        )
        argument.advice = "Call model.train() before each epoch: validation has left the model in eval mode."
    if facts.train_validations:
        argument.add(
            0.85,
            f"{facts.train_validations} of {max(facts.validations, facts.train_validations)} "
            f"validations ran in training mode: {' and '.join(_that_act(evidence))}",
        )
        argument.advice = "Call model.eval() before validation and model.train() after it."
    if idle := idle_norms(evidence):
        name, spread = min(idle.items(), key=lambda one: one[1])
        argument.add(
            0.75,
            f"{len(idle)} batch norms begin as new and do not normalise: {name} puts out a standard deviation of "
            f"{spread:.2g} at first, 1 in training mode; their running statistics have not seen any data",
            since=0,
            where=list(idle)[:5],
        )
        argument.advice = "Leave batch norms in training mode until their statistics are those of your data."
    if (late := late_norm(evidence)) is not None:
        argument.add(0.75, late, since=0)
        argument.advice = "Leave the momentum of batch norms at 0.1: it is what new statistics count, not the old ones."
    if any(one.name == "no_dropout_in_validation" and one.broken for one in facts.invariants):
        argument.add(
            0.85,
            "the model draws random numbers in evaluation mode, too, and its training has masks of dropout that come "
            "from no module: functional.dropout drops unless it is told self.training",
        )
        argument.advice = "functional.dropout(x, p, training=self.training), or torch.nn.Dropout(p)."
    return argument


def _drops_little(evidence: Evidence) -> bool:
    """Whether all that acts otherwise in eval mode are dropouts of a tenth at most, as some fine-tune on purpose."""
    kinds = [layer.kind for layer in evidence.facts.layers]
    drops = [layer.value or 0.0 for layer in evidence.facts.layers if "Drop" in layer.kind]
    return bool(drops) and max(drops) <= SLIGHT_DROPOUT and not any("BatchNorm" in kind for kind in kinds)


def _that_act(evidence: Evidence) -> list[str]:
    """What a model's layers do in training mode; both where none is known."""
    kinds = [layer.kind for layer in evidence.facts.layers]
    drops, learns = ("dropout is on", "batch norm learns from the validation data")
    known = [text for text, kind in ((drops, "Drop"), (learns, "BatchNorm")) if any(kind in one for one in kinds)]
    return known or [drops, learns]
