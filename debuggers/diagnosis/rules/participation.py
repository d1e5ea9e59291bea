"""Causes in which parameters take part: frozen, forgotten by the optimizer, cut off, or never changed."""

from collections.abc import Sequence

import numpy as np
from tracker_adapters.wording import some_of

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.rules.rates import learning_rates

FEWEST_STEPS = 100
"""Steps after which a loss that has hardly fallen says that training gets nowhere."""
COMPARED_AFTER = 25
"""Steps after which weights are compared with what they were; see ``debuggers.gradients.parameter_watch``."""
FEWEST_SAMPLED = 10
"""Sampled steps from which gradients that have ended do not come back."""
RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4, "RNNCell": 1, "GRUCell": 3, "LSTMCell": 4}
"""Recurrent layers, with the number of gates whose weights stand one below the other."""
LITTLE = 0.3
"""Share of what there is to learn, below which little of it was."""
WITHIN = 3.0
"""Standard errors that a sample's mean and deviation are from those that it was drawn with, at most."""
SAMPLED = 512
"""Elements of a weight, about, of which its mean and deviation are known."""
ALL = 0.999
"""Share of a model's weights from which none is trained."""


def _with_role(evidence: Evidence, role: str) -> list[str]:
    return [parameter.name for parameter in evidence.facts.parameters if parameter.role == role]


def _share(evidence: Evidence, names: Sequence[str]) -> float:
    """Their share of all elements."""
    sizes = {one.name: float(np.prod(one.shape)) for one in evidence.facts.parameters}
    return sum(sizes[name] for name in names) / max(1.0, sum(sizes.values()))


def _none_is_trained(evidence: Evidence, without: Sequence[str]) -> bool:
    """Whether those without gradients are a whole model, but for scalars and vectors: a small head is trained too."""
    has_weight = any(one.role == "trained" and len(one.shape) > 1 for one in evidence.facts.parameters)
    return _share(evidence, without) > ALL and not has_weight


def parameters_not_in_optimizer(evidence: Evidence) -> Argument:
    """Parameters get gradients and are in no group of the optimizer, and nothing else changes them either.

    Weights are compared after 25 steps: what is outside and has changed by then belongs to another optimizer.
    """
    argument = Argument("parameters_not_in_optimizer")
    names, found = _with_role(evidence, "outside_optimizer"), evidence.found("outside_optimizer")
    trainable = [one.name for one in evidence.facts.parameters if one.role != "frozen"]
    if found or (names and evidence.facts.steps <= COMPARED_AFTER):
        since = found[0].step if found else None
        weight = CERTAIN if found else 0.6
        argument.add(
            weight,
            f"{some_of(names or [one.name for one in found], 3)}: in no group of the optimizer"
            + (", never changed" if found else ""),
            since=0 if since is not None else None,
            where=names,
        )
        if len(names) > 1 and names == trainable:
            argument.add(
                0.9,
                "the optimizer holds none of the model's parameters: it was made for a copy, for another model, or "
                "before these layers were",
            )
        without = _with_role(evidence, "without_gradient")
        if without:
            argument.add(WEAK, f"the optimizer holds parameters without gradient ({some_of(without, 3)})")
    argument.advice = (
        "Make the optimizer after the model is complete, or optimizer.add_param_group({'params': new.parameters()})."
    )
    for invariant in evidence.facts.invariants:
        if invariant.name == "weights_are_registered" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(
                0.85,
                f"the model multiplies with weights of shape {invariant.where} that get gradients, are none of "
                "model.parameters(), and never change",
                since=invariant.first_step,
            )
            argument.advice = "Keep layers in nn.ModuleList or nn.ModuleDict, and tensors in nn.Parameter."
    return argument


def detached_parameters(evidence: Evidence) -> Argument:
    """Parameters of layers that ran never got a gradient: something cuts the graph between them and the loss."""
    argument = Argument("detached_parameters")
    names = _with_role(evidence, "without_gradient")
    ran = evidence.of_tensors("output_std")
    if not names or _none_is_trained(evidence, names):  # see no_update
        if names and ran and evidence.facts.trained_with_others:
            argument.add(
                STRONG,
                f"none of the model's parameters ever got a gradient, though its layers ran with gradients on in "
                f"{len(next(iter(ran.values())))} sampled steps, and another model's backward passes came",
                where=names[:5],
            )
            argument.advice = "Give the other model the outputs themselves, without .detach(), in this model's step."
        return argument
    cut = [name for name in names if not ran or name.rpartition(".")[0] in ran]
    if cut:
        share = _share(evidence, cut)
        comes_first = _come_first(evidence, cut)
        weight = (0.6 if comes_first and share > 0.05 else MODERATE) if not ran else CERTAIN if share > 0.05 else STRONG
        seen = "their layers run" if ran else "layers behind them do" if comes_first else "others do"
        argument.add(weight, f"{some_of(cut, 3)} require a gradient and never got one, though {seen}", where=cut)
        progress = progress_of(evidence)
        if progress is not None and progress.fell < 0.1 and not progress.failed and share > 0.1:
            argument.add(MODERATE, f"they are {share:.0%} of the model, and the loss fell by {progress.fell:.0%} only")
    others = [name for name in names if name not in cut]
    if cut and len(others) > len(cut):
        argument.against(WEAK, f"{some_of(others, 3)} did not run at all: part of the model may be unused on purpose")
    argument.advice = (
        f"Look behind {cut[0] if cut else 'them'} for .detach(), .data, .item(), torch.no_grad() or a new tensor made "
        "from values."
    )
    return argument


def _come_first(evidence: Evidence, names: Sequence[str]) -> bool:
    """Whether parameters are a model's first ones, and all behind them are trained.

    A cut leaves all before it without gradients; a head that nobody uses stands at the end.
    """
    roles = [one.role for one in evidence.facts.parameters if one.role != "frozen"]
    return set(roles[: len(names)]) == {"without_gradient"} and set(roles[len(names) :]) == {"trained"}


def frozen_parameters(evidence: Evidence) -> Argument:
    """Many parameters are frozen and training gets nowhere: frozen backbones that are good enough are healthy.

    What had gradients until late was trained, and frozen behind it. Where another session has trained some of them, as
    in boosting, parts are trained in turn: the others' turn comes.
    """
    argument = Argument("frozen_parameters")
    names, progress = _with_role(evidence, "frozen"), progress_of(evidence)
    share = _share(evidence, names)
    if names and share > ALL and _gradients_ended(evidence):
        argument.add(
            CERTAIN,
            f"all {len(names)} parameters are frozen, and none had a gradient in the second half of the training",
            where=names[:5],
        )
        argument.advice = "Switch them on again before the model's own step: model.requires_grad_(True)."
        return argument
    names = [name for name in names if not _was_trained(evidence, name)]
    share = _share(evidence, names)
    if not names or progress is None or share < 0.2:
        return argument
    fresh = [name for name in fresh_weights(evidence, "frozen") if name in names]
    matrices = [one.name for one in evidence.facts.parameters if len(one.shape) > 1]
    text = f"{some_of(names, 3)}: {share:.0%} of the model are frozen"
    gets_nowhere = progress.learnt < 0.1 and progress.points >= FEWEST_STEPS and not progress.failed
    weight = MODERATE if gets_nowhere else WEAK
    argument.add(weight, text, since=0, where=names)
    if fresh and _share(evidence, fresh) > 0.2:
        argument.add(
            weight,
            f"{some_of(fresh, 3)} still have the spread of PyTorch's default initialisation: nothing trained them",
        )
    new = _new_behind_trained(evidence) if progress.learnt < LITTLE and progress.points >= FEWEST_STEPS else ""
    if new:
        argument.add(
            0.6,
            f"{new} is frozen as PyTorch initialised it, between layers that were trained before it and what is "
            f"trained behind it, and the loss fell by {progress.fell:.0%} only: it is new, and was to be trained",
            where=[new],
        )
    if len(matrices) > 1 and set(matrices) <= set(fresh):
        argument.add(
            MODERATE, f"none of the {len(matrices)} weights is trained, up to the outputs: they stay random projections"
        )
    if gets_nowhere:
        argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
    elif (
        _is_little(_share(evidence, fresh), _share(evidence, matrices), progress.learnt)
        and progress.points >= FEWEST_STEPS
    ):
        argument.add(0.35, f"what is trained has learnt little: the loss fell by {progress.fell:.0%}")
    elif progress.learnt > 0.5:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    if evidence.facts.trained_in_parts:
        argument.against(STRONG, "another session has trained some of them: parts may be trained in turn")
    argument.advice = (
        "Unfreeze them if that is not intended: for p in model.parameters(): "
        "p.requires_grad_(True), before the optimizer is made."
    )
    return argument


def _gradients_ended(evidence: Evidence) -> bool:
    """Whether there were gradients once, and none in the second half of the sampled steps."""
    known = [series.steps[-1] for series in evidence.of_tensors("gradient_rms").values() if len(series)]
    sampled = next((series.steps for series in evidence.of_tensors("output_std").values() if len(series)), ())
    return bool(known) and len(sampled) >= FEWEST_SAMPLED and max(known) < sampled[len(sampled) // 2]


def _was_trained(evidence: Evidence, name: str) -> bool:
    """Whether a parameter had gradients in the second half of the steps."""
    known = evidence.of_tensors("gradient_rms").get(name)
    return known is not None and len(known) > 0 and 2 * int(known.steps[-1]) > evidence.facts.last_step


def _is_little(fresh: float, matrices: float, learnt: float) -> bool:
    """Whether what a model has learnt is little for such a share of its matrices that nothing trained."""
    return fresh > 0.5 and learnt < (0.5 if fresh > 0.95 * matrices else LITTLE)


def fresh_weights(evidence: Evidence, role: str) -> list[str]:
    """Weights of a role with the spread that PyTorch's layers start with, as far as that can be told.

    Linear layers and convolutions start with kaiming_uniform_(a=√5), recurrent ones with a uniform distribution up to
    one over the root of their hidden size, embeddings with the standard normal one. The weights of attention, and in
    ``torch.nn.Transformer`` all of them, start with xavier_uniform_.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    found = []
    for one in evidence.facts.parameters:
        layer = one.name.rpartition(".")[0]
        kind = kinds.get(layer, "")
        if one.role != role or len(one.shape) < 2:
            continue
        scale = np.sqrt(3 * np.prod(one.shape[1:]))
        if kind == "Embedding":
            scale = 1.0
        elif kind in RECURRENT:
            scale = np.sqrt(3 * one.shape[0] / RECURRENT[kind])
        fields = float(np.prod(one.shape[2:]))
        xavier = np.sqrt((one.shape[0] + one.shape[1]) * fields / 2)
        is_xavier = kind not in RECURRENT and kind != "Embedding" and abs(one.std * xavier - 1) < 0.1
        if is_xavier or (scale > 0 and abs(one.std * scale - 1) < 0.25):
            found.append(one.name)
    return found


def only_vectors_move(evidence: Evidence, fewest: int = 1) -> bool:
    """Whether the gradients of all matrices, seen so often at least, are exactly zero: no rate moves them."""
    gradients = evidence.of_tensors("gradient_rms")
    known = [gradients[one.name] for one in evidence.facts.parameters if len(one.shape) > 1 and one.name in gradients]
    known = [series for series in known if len(series)]
    return bool(known) and all(len(series) >= fewest and not series.values.any() for series in known)


def _new_behind_trained(evidence: Evidence) -> str:
    """The frozen weight that nothing trained, with one before it that was and a trained one behind it; "" if none is.

    The first values of linear layers and convolutions are uniform, up to one over the root of their fan-in. The sample
    of n has a mean within their deviation over √n and, since their kurtosis is 9/5, a deviation within √(0.2/n) of it.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    weights = [
        one
        for one in evidence.facts.parameters
        if len(one.shape) > 1 and kinds.get(one.name.rpartition(".")[0], "").startswith(("Linear", "Conv"))
    ]
    was_trained, found = False, ""
    for one in weights:
        if one.role == "trained" and found:
            return found
        if one.role != "frozen":
            continue
        count, usual = min(SAMPLED, int(np.prod(one.shape))), 1 / np.sqrt(3 * np.prod(one.shape[1:]))
        errors = abs(one.std / usual - 1) / np.sqrt(0.2 / count), abs(one.mean) / usual * np.sqrt(count)
        is_new = max(errors) < WITHIN
        found = one.name if is_new and was_trained else found
        was_trained |= not is_new
    return ""


def no_update(evidence: Evidence) -> Argument:
    """Optimizer steps change no weight although there are gradients."""
    argument = Argument("no_update")
    if any(one.name == "gradients_are_used" and one.broken for one in evidence.facts.invariants):
        argument.add(
            CERTAIN,
            "backward passes filled gradients over and over, and the optimizer never took a step: optimizer.step() is "
            "missing, or named without its parentheses",
            since=0,
        )
        argument.advice = "Call optimizer.step() after loss.backward(): with parentheses, in each step."
        return argument
    idle = [finding for finding in evidence.found("idle_optimizer") if finding.ongoing]
    if idle:
        for finding in idle:
            where = _with_role(evidence, "unchanged")
            argument.add(CERTAIN, f"{finding.name}: {finding.evidence}", since=0, where=where)
        argument.advice = (
            "Call the step() of each optimizer after the backward pass, and give each a learning rate above 0."
        )
        return argument
    _add_movement(argument, evidence)
    broken = evidence.found("non_finite_gradient", "non_finite_loss", "non_finite_weight")
    if argument.cause is not None and broken:
        argument.against(STRONG, f"{broken[0].name} is not finite: nothing could be learnt")
    without = _with_role(evidence, "without_gradient")
    if without and _none_is_trained(evidence, without) and evidence.facts.loss is not None:
        argument.add(
            CERTAIN,
            "backward passes ran, and no parameter had a gradient at the optimizer's step: it was zeroed in between, "
            "or belongs to another model",
            since=0,
        )
    still = _with_role(evidence, "unchanged")
    if argument.cause is None and still and _share(evidence, still) > 0.5:
        argument.add(0.6, f"{some_of(still, 3)} never changed, though they have gradients", since=0, where=still)
    if argument.cause is not None:
        _add_circumstances(argument, evidence)
    argument.advice = (
        "Check that the optimizer holds the parameters of this model (not of a copy), that the learning rate is above "
        "0, and keep float32 weights where updates are small."
    )
    return argument


def _add_movement(argument: Argument, evidence: Evidence) -> None:
    """Steps that change no sampled weight, or whose changes are put back."""
    ratio, alive = evidence["update_ratio"], evidence["total_norm/gradients"].finite
    has_gradient = alive.median() > 0
    if len(ratio) >= 5 and has_gradient and float(np.mean(ratio.values == 0)) > 0.8:
        argument.add(
            CERTAIN,
            f"weights are unchanged after {np.sum(ratio.values == 0)} of {len(ratio)} sampled steps",
            since=int(ratio.steps[0]),
        )
    elif found := evidence.found("weights_stand_still"):
        argument.add(STRONG, found[0].message, since=0)
        typical = ratio.finite.median(0.0)
        if typical > 1e-5:
            argument.add(MODERATE, f"steps change weights by {typical:.1g} of their size, and something puts them back")
        elif typical > 0:
            argument.against(MODERATE, "they change, by very little: see learning_rate_too_low")


def _add_circumstances(argument: Argument, evidence: Evidence) -> None:
    """What goes with steps that change nothing."""
    for finding in evidence.found("skipped_steps"):
        argument.add(0.0, finding.evidence)
    narrow = [one for one in evidence.facts.parameters if one.dtype in ("bfloat16", "float16")]
    if narrow:
        argument.add(WEAK, f"{narrow[0].name} is {narrow[0].dtype}: small updates are rounded away")
    rates = learning_rates(evidence)
    if len(rates) and float(rates.values.max()) == 0:
        argument.add(WEAK, "the learning rate is 0")


def wrong_mode(evidence: Evidence) -> Argument:
    """Training steps in eval mode, or validations in training mode, of a model that acts otherwise there."""
    argument = Argument("wrong_mode")
    facts = evidence.facts
    if facts.steps and facts.eval_steps > 0.3 * facts.steps:
        argument.add(
            0.85, f"the model was in eval mode at {facts.eval_steps:,} of {facts.steps:,} training steps", since=0
        )
        argument.advice = "Call model.train() before each epoch: validation has left the model in eval mode."
    if facts.train_validations:
        argument.add(
            0.85,
            f"{facts.train_validations} of {max(facts.validations, facts.train_validations)} "
            "validations ran in training "
            "mode: dropout is on, and batch norm learns from the validation data",
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
