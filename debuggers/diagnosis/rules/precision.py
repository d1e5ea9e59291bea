"""Causes of NaN and infinities, and of gradients that a narrow dtype cannot hold."""

import math

import numpy as np
from tracker_adapters.wording import some_of

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of

SMALLEST_NORMAL = float(np.finfo(np.float16).smallest_normal)
"""What is smaller has fewer bits in float16, down to none (Micikevicius et al. 2018)."""
SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
"""What is smaller than half of it is zero in float16."""
OFTEN = 3
"""Steps with a loss that is not finite, from which it is no accident of a batch, even if it does not come again."""
_NOT_FINITE = ("non_finite_loss", "non_finite_activation", "non_finite_weight", "non_finite_gradient")


def non_finite_forward(evidence: Evidence) -> Argument:
    """The loss or an output became NaN or infinite first, while weights and gradients before were sound."""
    argument = Argument("non_finite_forward")
    loss = evidence["loss"]
    broken = loss.steps[~np.isfinite(loss.values)]
    found = evidence.found("non_finite_loss", "non_finite_activation")
    starts = [int(broken[0])] if len(broken) else []
    starts += [one.step for one in found]
    if starts:
        argument.add(
            STRONG,
            f"{found[0].name if found else 'the loss'} is NaN or infinite at step {min(starts)}",
            since=min(starts),
            where=[one.name for one in found[:3]],
        )
    if (overflow := _overflow(evidence)) is not None:
        starts.append(overflow[0])
        argument.add(STRONG, f"{overflow[1]} at step {overflow[0]}, before the loss", since=overflow[0])
    if not starts:
        return argument
    first = min(starts)
    gradient = [one.step for one in evidence.found("non_finite_gradient")]
    if gradient and min(gradient) < first:
        argument.against(STRONG, f"a gradient was not finite before, at step {min(gradient)}")
    _weigh_growth(argument, evidence, first)
    if weights := _broken_weights(evidence, first):
        argument.add(
            CERTAIN,
            f"{some_of(weights, 3)} held NaN or infinity when the forward pass of step {first} began: what makes or "
            "loads the weights put it there, and no operator",
            since=first,
            where=weights,
        )
        argument.advice = f"Look at what sets {weights[0]}: an initialisation, a checkpoint, or an assignment."
        return argument
    for text in evidence.facts.first_nans:
        argument.add(MODERATE, text)
    argument.advice = (
        "session.step(loss, replay=lambda: ...) names the operator; usual ones are log or sqrt of 0, division by a "
        "norm or count of 0, exp of a large number, and an empty mean: add an eps inside, or clamp."
    )
    return argument


def _broken_weights(evidence: Evidence, step: int) -> list[str]:
    """The weights that were not finite before the first update of all, if that is where NaN comes first.

    Later on it is an update that has left them so.
    """
    if not len(evidence["loss"]) or step != evidence["loss"].steps[0]:
        return []
    known = {name: series for name, series in evidence.of_tensors("weight_rms").items() if step in series.steps}
    return [name for name, series in known.items() if not np.isfinite(series.values[series.steps == step]).all()]


def _overflow(evidence: Evidence) -> tuple[int, str] | None:
    """When an exponential was infinite, and which, where something else became NaN or infinite, too; else None."""
    found = next((one for one in evidence.facts.invariants if one.name == "loss_exponentials_are_finite"), None)
    if found is None or found.first_step is None or not evidence.found(*_NOT_FINITE):
        return None
    return found.first_step, found.where


def non_finite_backward(evidence: Evidence) -> Argument:
    """A gradient is NaN or infinite at a step whose loss is finite."""
    argument = Argument("non_finite_backward")
    found = evidence.found("non_finite_gradient")
    loss = evidence["loss"]
    if not found:
        return argument
    first = found[0].step
    at = loss.values[loss.steps <= first]
    if len(at) and not np.isfinite(at).all():
        return argument
    weight = STRONG if len(at) else MODERATE
    argument.add(
        weight,
        f"{found[0].name} has NaN or infinities at step {first}, where the loss is finite",
        since=first,
        where=[one.name for one in found[:3]],
    )
    _weigh_growth(argument, evidence, first)
    argument.advice = (
        "Look for derivatives that are infinite where the value is not: sqrt, norm and pow at 0, torch.where over a "
        "branch with NaN, atan2(0, 0), acos at 1; add an eps before them."
    )
    return argument


def _weigh_growth(argument: Argument, evidence: Evidence, first: int) -> None:
    """What blew up before it became infinite was no single operator's fault, and what is soon over hardly counts."""
    found = [finding for finding in evidence.findings if finding.kind.startswith("non_finite")]
    ends = evidence["total_norm/gradients"].values[-10:]
    # A scaler searches its scale for some steps, with gradients that are infinite; of a loss it makes none.
    is_rare = sum(finding.steps for finding in found if finding.kind == "non_finite_loss") < OFTEN
    if found and is_rare and not any(finding.ongoing for finding in found) and np.isfinite(ends).all():
        argument.against(STRONG, f"it is over since step {max(finding.last_step for finding in found)}")
    norms = evidence["total_norm/gradients"].until(first - 1).finite.values
    losses = evidence["loss"].until(first - 1).finite.values
    if len(norms) >= 2 and float(norms[-3:].max()) > 30 * float(np.median(norms[: max(1, len(norms) // 2)])):
        argument.against(STRONG, f"gradients had grown to {norms[-3:].max():.2g} before: something blew up")
    elif len(losses) >= 2 and float(losses[-3:].max()) > 5 * abs(float(losses[0])):
        argument.against(STRONG, f"the loss had grown to {losses[-3:].max():.2g} before: something blew up")
    elif len(losses) >= 2:
        argument.add(
            MODERATE,
            f"the loss was {losses[-1]:.3g} and the gradients' norm {norms[-1]:.2g} just before"
            if len(norms)
            else f"the loss was {losses[-1]:.3g} just before",
        )


def fp16_underflow(evidence: Evidence) -> Argument:
    """Gradients in float16 without a loss scale, and many of their elements are zero.

    Zeros say nothing where a typical gradient, times the scale, is above float16's smallest normal number.
    """
    argument = Argument("fp16_underflow")
    facts = evidence.facts
    narrow = any(one.dtype == "float16" for one in facts.parameters)
    if facts.mixed_precision != "float16" and not narrow:
        return argument
    scale = evidence["loss_scale"].finite
    zeros = evidence.of_tensors("gradient_zeros")
    shares = {name: series.median() for name, series in zeros.items() if len(series)}
    high = [name for name, share in shares.items() if share > 0.3]
    sizes = [series.median() for series in evidence.of_tensors("gradient_rms").values() if len(series)]
    typical = float(np.median(sizes)) if sizes else math.nan
    # Then zeros have another reason, such as inputs that are zero.
    is_held = scale.median(0.0) > 1 and typical * scale.median() >= SMALLEST_NORMAL
    if not len(scale) or float(scale.values.max()) <= 1:
        argument.add(MODERATE, "float16 without a GradScaler", since=0)
    # Single ones are zero for other reasons: dead units, features that are zero.
    is_small = typical < SMALLEST_NORMAL and 2 * len(high) == len(shares) > 0
    if not is_held and (is_small or 2 * len(high) > len(shares)):
        argument.add(
            STRONG,
            f"{len(high)} of {len(shares)} gradients have more than 30 % zeros, such as {high[0]} "
            f"({shares[high[0]]:.0%})",
            where=high[:5],
        )
    epsilons = [eps for group in facts.groups if isinstance(eps := group.settings.get("eps"), float)]
    if narrow and epsilons and 0 < min(epsilons) < SMALLEST / 2 and evidence.found(*_NOT_FINITE):
        argument.add(
            CERTAIN, f"the optimizer's eps of {min(epsilons):g} is zero in float16: it divides by zero", since=0
        )
    progress = progress_of(evidence)
    is_stuck = progress is not None and not progress.failed and progress.learnt < 0.2
    if argument.cause is not None and is_stuck and typical < SMALLEST_NORMAL:
        argument.add(
            STRONG,
            f"a typical gradient has a root mean square of {typical:.2g}, below float16's smallest normal "
            f"number ({SMALLEST_NORMAL:.2g})",
        )
    if found := evidence.found("underflow"):
        argument.add(STRONG, found[0].message, since=found[0].step, where=[one.name for one in found[:3]])
    if argument.cause is not None and progress is not None and progress.learnt > 0.7:
        argument.against(MODERATE, f"the loss fell by {progress.fell:.0%}")
    argument.advice = "Use torch.amp.GradScaler, or bfloat16, which has float32's range."
    return argument
